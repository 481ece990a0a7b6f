"""Minds that need no key: each is told what to do, is offered tools, and says which one to call and how."""

import hashlib
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from benchmarks.loop.tasks import Step

ODDS = (0.7, 0.2, 0.1)
"""Of a noisy reader: how often it takes the first, second and third that fit."""
MAX_CALLS = 3
"""Of one step."""


@dataclass(frozen=True, slots=True)
class Offer:
    """A tool as a mind sees it."""

    name: str
    schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Choice:
    name: str
    arguments: Mapping[str, Any]


class Mind(Protocol):
    def choose(self, step: Step, offers: Sequence[Offer], tries: int) -> Choice | None:
        """`tries`: calls that failed for this step already. None: gives the step up."""
        ...


class Oracle:
    """Knows the tool, and calls it if it is offered."""

    def choose(self, step: Step, offers: Sequence[Offer], tries: int) -> Choice | None:  # noqa: ARG002 - of the protocol
        offer = next((offer for offer in offers if step.tool and offer.name == step.tool), None)
        return Choice(offer.name, arguments_for(offer, step) or {}) if offer else None


class Reader:
    """Takes the first offered tool whose schema can hold the arguments."""

    def choose(self, step: Step, offers: Sequence[Offer], tries: int) -> Choice | None:
        fits = [Choice(offer.name, held) for offer in offers if (held := arguments_for(offer, step)) is not None]
        return fits[self.rank(step, len(fits), tries)] if fits else None

    def rank(self, step: Step, fits: int, tries: int) -> int:  # noqa: ARG002 - a noisy one reads them
        return 0


class NoisyReader(Reader):
    """Takes the k-th that fits with the odds of `ODDS`, the same for the same step."""

    def rank(self, step: Step, fits: int, tries: int) -> int:
        seed = hashlib.sha256(f"{step.say}|{tries}".encode()).hexdigest()
        rank = random.Random(seed).choices(range(len(ODDS)), ODDS)[0]  # noqa: S311 - not a secret
        return min(rank, fits - 1)


MINDS: Mapping[str, Mind] = {"oracle": Oracle(), "reader": Reader(), "noisy reader": NoisyReader()}


def arguments_for(offer: Offer, step: Step) -> dict[str, Any] | None:
    """The step's arguments by the tool's own names; None if it has no place for one of them, or requires more."""
    properties = offer.schema.get("properties", {})
    arguments: dict[str, Any] = {}
    for names, value in step.arguments.items():
        name = next((name for name in names.split("|") if name in properties), None)
        if name is None or not _takes(properties[name], value):
            return None
        arguments[name] = value
    return arguments if set(offer.schema.get("required", ())) <= arguments.keys() else None


def _takes(schema: object, value: object) -> bool:
    """By the JSON type alone, as one sees at a glance."""
    if not isinstance(schema, Mapping) or not isinstance(schema.get("type"), str):
        return True
    types: dict[str, Any] = {
        "string": str,
        "integer": int,
        "number": (int, float),
        "array": list,
        "object": dict,
        "boolean": bool,
    }
    return isinstance(value, types.get(schema["type"], object))
