"""What is to be synthesized, how much of it, and by whom: rules, or a language model."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from random import Random
from typing import Any

from waygraph.registry.embedding.embedder import Progress
from waygraph.registry.language_model.answers import ModelAnswers, Usage
from waygraph.registry.language_model.endpoint import model_in
from waygraph.registry.model.errors import InvalidSetting

ANSWERS = "answers.jsonl"
RULES = "rules"
TRIES_EACH = 4
"""A run ends after so many tries for each record wanted, however few were fit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """`count` records by an author (`rules` or `openai:MODEL`), `at_once` at a time, which is part of what the seed
    stands for. `answers`: of the author, if it is a model.
    """

    by: str
    count: int
    seed: int = 1
    at_once: int = 4
    answers: ModelAnswers | None = None
    progress: Progress | None = None

    @property
    def mark(self) -> Mapping[str, Any]:
        """What the folder says of its making."""
        return {"by": self.by, "count": self.count, "seed": self.seed, "at_once": self.at_once}

    def usage(self) -> Usage:
        return self.answers.usage if self.answers else Usage()

    def chance(self, number: int) -> Random:
        """Of one try."""
        return Random(f"{self.seed} {number}")  # noqa: S311 - not a secret

    def fill[C, M](self, choose: Callable[[int], C], make: Callable[[C], M], take: Callable[[M], bool]) -> int:
        """How many tries it took. Each is chosen by its number, made beside others, and taken, or not, in order."""
        made = tries = 0
        with ThreadPoolExecutor(self.at_once) as pool:
            while made < self.count and tries < TRIES_EACH * self.count:
                numbers = range(tries, tries + min(self.at_once, self.count - made))
                tries += len(numbers)
                made += sum(map(take, pool.map(make, [choose(number) for number in numbers])))
                if self.progress:
                    self.progress(made, self.count)
        return tries


def model_of(by: str) -> str:
    """The name of the model of `openai:MODEL`; empty for `rules`. Raises InvalidSetting."""
    if by == RULES:
        return ""
    if model := model_in(by):
        return model
    raise InvalidSetting(f"made by {by!r}: expected {RULES} or openai:MODEL")
