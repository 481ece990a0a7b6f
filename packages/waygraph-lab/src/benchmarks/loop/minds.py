"""Minds: each is told what to do, is offered tools, and says which one to call and how. All but one need no key."""

import hashlib
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from benchmarks.loop.tasks import Step
from waygraph.registry.language_model.endpoint import ChatModel
from waygraph.registry.language_model.messages import after_thoughts
from waygraph_lab.datasets.react import Action, react_prompt, read_step

ODDS = (0.7, 0.2, 0.1)
"""Of a noisy reader: how often it takes the first, second and third that fit."""
MAX_CALLS = 3
"""Of one step."""
PATIENCE = 2
"""A tool that failed so often in a step is left, if another one fits: the first error may pass."""
SYSTEM = (
    "Do what the user asks by one call of a tool, with the values that are given. If no tool fits, call none and "
    "answer with the word none."
)


@dataclass(frozen=True, slots=True)
class Offer:
    """A tool as a mind sees it."""

    name: str
    schema: Mapping[str, Any]
    description: str = ""


@dataclass(frozen=True, slots=True)
class Choice:
    name: str
    arguments: Mapping[str, Any]


class Mind(Protocol):
    def choose(self, step: Step, offers: Sequence[Offer], failures: Sequence[str]) -> Choice | None:
        """`failures`: the tools whose calls failed in this step already. None: gives the step up."""
        ...


class Oracle:
    """Knows the tool, and calls it if it is offered."""

    def choose(self, step: Step, offers: Sequence[Offer], failures: Sequence[str]) -> Choice | None:  # noqa: ARG002 - of the protocol
        offer = next((offer for offer in offers if step.tool and offer.name == step.tool), None)
        return Choice(offer.name, arguments_for(offer, step) or {}) if offer else None


class Reader:
    """Takes the first offered tool whose schema can hold the arguments."""

    def choose(self, step: Step, offers: Sequence[Offer], failures: Sequence[str]) -> Choice | None:
        pairs = [(offer.name, arguments_for(offer, step)) for offer in offers]
        fits = [Choice(name, arguments) for name, arguments in pairs if arguments is not None]
        fits = [choice for choice in fits if failures.count(choice.name) < PATIENCE] or fits
        return fits[self.rank(step, len(fits), len(failures))] if fits else None

    def rank(self, step: Step, fits: int, tries: int) -> int:  # noqa: ARG002 - a noisy one reads them
        return 0


class NoisyReader(Reader):
    """Takes the k-th that fits with the odds of `ODDS`, the same for the same step."""

    def rank(self, step: Step, fits: int, tries: int) -> int:
        seed = hashlib.sha256(f"{step.say}|{tries}".encode()).hexdigest()
        rank = random.Random(seed).choices(range(len(ODDS)), ODDS)[0]  # noqa: S311 - not a secret
        return min(rank, fits - 1)


@dataclass(frozen=True, slots=True)
class ModelMind:
    """A language model. It reads the request, the values that it needs, and the offered tools."""

    model: ChatModel

    def choose(self, step: Step, offers: Sequence[Offer], failures: Sequence[str]) -> Choice | None:
        """Raises LanguageModelError."""
        if not offers:
            return None
        messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": request_text(step, failures)}]
        return _call_in(self.model.complete(messages, [_function(offer) for offer in offers]).message)


@dataclass(frozen=True, slots=True)
class ReActMind:
    """The same model, which reads all offers in its prompt and acts in plain text (Yao et al., 2023)."""

    model: ChatModel

    def choose(self, step: Step, offers: Sequence[Offer], failures: Sequence[str]) -> Choice | None:
        """Raises LanguageModelError."""
        if not offers:
            return None
        messages = [
            {"role": "system", "content": react_prompt(_function(offer)["function"] for offer in offers)},
            {"role": "user", "content": request_text(step, failures)},
        ]
        content = self.model.complete(messages).message.get("content")
        action = read_step(after_thoughts(content) if isinstance(content, str) else "")
        call = {"name": action.tool, "arguments": action.arguments} if isinstance(action, Action) else {}
        return _call_in({"tool_calls": [{"function": call}]})


def request_text(step: Step, failures: Sequence[str]) -> str:
    """What a model reads as the user's words."""
    values = {names.partition("|")[0]: value for names, value in step.arguments.items()}
    parts = [step.say, f"Values: {json.dumps(values)}", f"These failed: {', '.join(failures)}" if failures else ""]
    return "\n".join(filter(None, parts))


def _function(offer: Offer) -> dict[str, Any]:
    function = {"name": offer.name, "description": offer.description, "parameters": offer.schema}
    return {"type": "function", "function": function}


def _call_in(message: Mapping[str, Any]) -> Choice | None:
    """The first call of an answer, if it is one that can be made."""
    try:
        function = message["tool_calls"][0]["function"]
        name, arguments = function["name"], json.loads(function["arguments"])
    except (LookupError, TypeError, ValueError):
        return None
    return Choice(name, arguments) if isinstance(name, str) and isinstance(arguments, dict) else None


MINDS: Mapping[str, Mind] = {"oracle": Oracle(), "reader": Reader(), "noisy reader": NoisyReader()}


def arguments_for(offer: Offer, step: Step) -> dict[str, Any] | None:
    """The step's arguments by the tool's own names; None if it has no place for one of them, or requires more."""
    properties = offer.schema.get("properties") or {}
    arguments: dict[str, Any] = {}
    for names, value in step.arguments.items():
        name = next((name for name in names.split("|") if name in properties), None)
        if name is None or not _takes(properties[name], value):
            return None
        arguments[name] = value
    return arguments if set(offer.schema.get("required") or ()) <= arguments.keys() else None


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
