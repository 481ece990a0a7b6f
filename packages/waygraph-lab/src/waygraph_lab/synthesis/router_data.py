"""What a router is trained on: each call of a conversation as a decision, with candidates (ToolACE-MCP, section 3.4).

The label is what is called. The query is the observation just before, which is the user's last words or the last
result; the history is all before that. What the assistant says between the two is part of the decision, and left out.
A chat sample says so in the form in which a router is asked (`router_prompt`).
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any, Literal

from waygraph.ingest.manifest.records import Manifest
from waygraph.registry.model.errors import InvalidDataset
from waygraph.registry.model.nouns import Turn
from waygraph.registry.model.transitions import owner_of
from waygraph.registry.routing.rerank import (
    SYSTEM,
    Candidate,
    agent_candidate,
    tool_candidate,
    write_prompt,
)
from waygraph_lab.datasets.conversations import TRAJECTORIES, CatalogueNames, lines, read_trajectories
from waygraph_lab.datasets.output_folder import write_lines
from waygraph_lab.evaluation.dataset import Asker, turn_known_to
from waygraph_lab.synthesis.mutations import SYNTHETIC, Level
from waygraph_lab.synthesis.simulation import Turn as Written
from waygraph_lab.synthesis.walks import neighbours

Form = Literal["chat", "ranking"]
HARD_SHARE = 0.5
"""Of the wrong candidates, at most so many are near the right one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A call. `query` and `history` are turns as they are written; `turns` are both, as they are read, and `request` is
    what the user said last. `label`: the id of the tool. `origin`: what the trajectory says of being synthetic.
    """

    id: str
    query: Written
    history: Sequence[Written]
    turns: Sequence[Turn]
    request: str
    label: str
    split: str
    group: str
    origin: Mapping[str, Any]


def known_to(asker: Asker, decision: Decision) -> Decision:
    """The decision as the asker tells of it."""
    if asker == "service":
        return decision
    if asker == "stranger":
        return replace(decision, history=(), turns=(), query={"role": "user", "text": decision.request})
    pairs = zip((*decision.history, decision.query), decision.turns, strict=True)
    kept = [(_without_result(written, turn), known) for written, turn in pairs if (known := turn_known_to(asker, turn))]
    turns_written, turns = zip(*kept, strict=True)
    return replace(decision, history=turns_written[:-1], query=turns_written[-1], turns=turns)


def _without_result(written: Written, turn: Turn) -> Written:
    if turn.role != "call":
        return written
    return {name: written[name] for name in ("role", "agent", "tool")} | {"outcome": turn.outcome}


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterData:
    """What was written."""

    file: Path
    form: Form
    samples: int


def decisions(folder: Path, known: CatalogueNames) -> Iterator[Decision]:
    """Every call of the folder's trajectories. Raises InvalidDataset."""
    path = folder / TRAJECTORIES
    for (_, record), checked in zip(lines(path), read_trajectories(path, known), strict=True):
        turns: Sequence[Written] = record["turns"]
        seen, request = 0, ""
        for at, turn in enumerate(checked.turns):
            if turn.role == "call":
                yield Decision(
                    id=f"{checked.id}.{at + 1}",
                    query=turns[seen],
                    history=turns[:seen],
                    turns=checked.turns[: seen + 1],
                    request=request,
                    label=turn.tool,
                    split=checked.split,
                    group=checked.group,
                    origin={SYNTHETIC: record[SYNTHETIC]} if SYNTHETIC in record else {},
                )
            if turn.role != "assistant":
                seen = at
            if turn.role == "user":
                request = turn.text


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """What each is shown as, by id, and which are near each other; `count` are shown, the right one among them."""

    by_id: Mapping[str, Candidate]
    near: Mapping[str, Sequence[str]]
    count: int

    @classmethod
    def of(cls, catalogue: Manifest, near_tools: Mapping[str, Sequence[str]], level: Level, count: int) -> "Candidates":
        """Agents are near where tools of theirs are."""
        entries = catalogue.entries
        if level == "tools":
            tools = [tool_candidate(entry.agent, tool) for entry in entries for tool in entry.tools]
            return cls(by_id={each.id: each for each in tools}, near=near_tools, count=count)
        agents = [agent_candidate(entry.agent, entry.tools) for entry in entries]
        edges = ((owner_of(one), owner_of(other)) for one, others in near_tools.items() for other in others)
        return cls(by_id={each.id: each for each in agents}, near=neighbours(edges), count=count)

    def choose(self, label: str, chance: Random) -> list[str]:
        """Ids in an order by chance: the label, near ones, and others."""
        hard = [each for each in self.near.get(label, ()) if each in self.by_id]
        kept = chance.sample(hard, min(len(hard), int((self.count - 1) * HARD_SHARE)))
        others = [each for each in self.by_id if each != label and each not in kept]
        kept += chance.sample(others, min(len(others), self.count - 1 - len(kept)))
        return chance.sample([label, *kept], 1 + len(kept))


def write_router_data(
    folder: Path,
    file: Path,
    candidates: Candidates,
    known: CatalogueNames,
    *,
    form: Form,
    seed: int,
    split: str = "",
    asker: Asker = "service",
) -> RouterData:
    """One sample a line, of all trajectories or those of a split. Raises InvalidDataset."""

    def samples() -> Iterator[dict[str, Any]]:
        for whole in decisions(folder, known):
            if split in ("", whole.split):
                decision = known_to(asker, whole)
                label = decision.label if decision.label in candidates.by_id else owner_of(decision.label)
                if label not in candidates.by_id:
                    continue  # an agent was called as a whole, and tools are routed to
                chance = Random(f"{seed} {decision.id}")  # noqa: S311 - not a secret
                yield _WRITE[form](decision, label, candidates.choose(label, chance), candidates)

    try:
        return RouterData(file=file, form=form, samples=write_lines(file, samples()))
    except OSError as error:
        raise InvalidDataset(str(file), f"cannot be written: {error}") from error


def _chat(decision: Decision, label: str, chosen: Sequence[str], candidates: Candidates) -> dict[str, Any]:
    """As trl and LLaMA-Factory read it: `messages` of system, user and assistant."""
    shown = [candidates.by_id[each] for each in chosen]
    contents = (SYSTEM, write_prompt(decision.request, shown, decision.turns), json.dumps([label], ensure_ascii=False))
    roles = ("system", "user", "assistant")
    messages = [{"role": role, "content": content} for role, content in zip(roles, contents, strict=True)]
    return {"id": decision.id, "messages": messages, **decision.origin}


def _ranking(decision: Decision, label: str, chosen: Sequence[str], candidates: Candidates) -> dict[str, Any]:  # noqa: ARG001
    return {
        "id": decision.id,
        "group": decision.group,
        "split": decision.split,
        "history": list(decision.history),
        "query": decision.query,
        "candidates": list(chosen),
        "label": chosen.index(label),
        **decision.origin,
    }


_WRITE = {"chat": _chat, "ranking": _ranking}
