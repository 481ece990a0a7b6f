"""What is evaluated: a catalogue, questions, and what is right for each."""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from waygraph.ingest.manifest.records import Manifest
from waygraph.registry.model.errors import InvalidDataset
from waygraph.registry.model.nouns import Turn
from waygraph_lab.evaluation.metrics import Gold

By = Literal["questions", "steps", "united"]
"""How a dataset is asked: each question as it stands; each step as a query of its own; or each question by all its
steps in one query, judged by the question's gold."""

Asker = Literal["service", "gateway", "stranger"]
"""Who asks, by what they know of a conversation. `service`: all of it. `gateway`: what the user said, and of calls the
tool and the outcome. `stranger`: nothing before the request.
"""

SEED = 20_261_124
"""By which questions are drawn of many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """What somebody asks, and what is right: items, each a set of ids any one of which is right.

    `history`: the turns of the conversation before it, oldest first.
    """

    text: str
    gold: Gold
    gold_tools: Gold = ()
    history: tuple[Turn, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """`split` names a part of the dataset, such as `dev`; empty if it has none. `group`: near copies share it."""

    id: str
    need: Need
    steps: tuple[Need, ...] = ()
    split: str = ""
    group: str = ""


def turn_known_to(asker: Asker, turn: Turn) -> Turn | None:
    """The turn as the asker knows it; None: not at all."""
    if asker == "service":
        return turn
    return None if asker == "stranger" or turn.role == "assistant" else replace(turn, result="")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One query of a run: a text or several steps, and the gold that its answer is judged by."""

    id: str
    texts: tuple[str, ...]
    gold: Gold
    gold_tools: Gold
    history: tuple[Turn, ...] = field(default=(), repr=False)

    def known_to(self, asker: Asker) -> "Asked":
        turns = (turn_known_to(asker, turn) for turn in self.history)
        return replace(self, history=tuple(turn for turn in turns if turn))


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """`checksum`: SHA-256 of the files read. `unsatisfiable`: how often the dataset itself says that no agent of its
    catalogue has a tool; such an item is no gold."""

    name: str
    catalogue: Manifest
    questions: tuple[Question, ...]
    origin: str = ""
    license: str = ""
    checksum: str = ""
    unsatisfiable: int = 0

    def queries(self, by: By, *, split: str = "") -> tuple[Asked, ...]:
        """Every query that can be judged: those without gold are left out."""
        chosen = [question for question in self.questions if split in ("", question.split)]
        queries = [query for question in chosen for query in _ASKED[by](question)]
        return tuple(query for query in queries if query.gold)

    def draw(self, count: int, *, split: str = "", seed: int = SEED) -> "Dataset":
        """With at most `count` of the questions of a split, drawn by a seed, in their order."""
        chosen = [question for question in self.questions if split in ("", question.split)]
        if count >= len(chosen):
            return self
        places = sorted(random.Random(seed).sample(range(len(chosen)), count))  # noqa: S311 - no secret
        return replace(self, questions=tuple(chosen[place] for place in places))

    def usual_bys(self, *, split: str = "") -> "tuple[By, ...]":
        """Questions and steps, of which there are some to be judged."""
        return tuple(by for by in BYS if by != "united" and self.queries(by, split=split))

    def check_asked(self, by: By, *, split: str = "") -> None:
        """Raises InvalidDataset if no query of this kind, or of this split, can be judged."""
        splits = sorted({question.split for question in self.questions if question.split})
        if split and split not in splits:
            raise InvalidDataset(self.name, f"has no split {split!r}; it has: {', '.join(splits) or 'none'}")
        if not self.queries(by, split=split):
            raise InvalidDataset(self.name, f"has no {by} with gold{f' in split {split!r}' if split else ''}")

    @property
    def size(self) -> Mapping[str, int]:
        entries = self.catalogue.entries
        return {
            "agents": len(entries),
            "tools": sum(len(entry.tools) for entry in entries),
            "questions": len(self.questions),
            "steps": sum(len(question.steps) for question in self.questions),
        }


def _query_of(name: str, texts: tuple[str, ...], need: Need) -> Asked:
    return Asked(id=name, texts=texts, gold=need.gold, gold_tools=need.gold_tools, history=need.history)


def _whole(question: Question) -> list[Asked]:
    return [_query_of(question.id, (question.need.text,), question.need)]


def _each_step(question: Question) -> list[Asked]:
    return [_query_of(f"{question.id}.{at}", (need.text,), need) for at, need in enumerate(question.steps, start=1)]


def _unite_needs(question: Question) -> list[Asked]:
    texts = tuple(need.text for need in question.steps)
    return [_query_of(question.id, texts, question.need)] if texts else []


_ASKED = {"questions": _whole, "steps": _each_step, "united": _unite_needs}
BYS: tuple[By, ...] = ("questions", "steps", "united")
