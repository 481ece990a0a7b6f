"""Dialogues inside a request's text, as ToolRet has them: `user: …`, `assistant: …`; by ways of reading them."""

import re
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

from benchmarks.history.answers import find
from benchmarks.world import World
from waygraph.registry.model.nouns import Turn
from waygraph_lab.evaluation.metrics import recall

DATA = "a2x/ToolRet_clean"
DEPTHS = (1, 5, 10)
_ROLE = re.compile(r"(?:^|\n)\s*(user|assistant)\s*:\s*")


def turns_of(text: str) -> list[Turn]:
    """Empty for a text that marks no roles."""
    _, *parts = _ROLE.split(text)
    return [
        Turn(role="user" if role == "user" else "assistant", text=said.strip())
        for role, said in zip(parts[::2], parts[1::2], strict=True)
        if said.strip()
    ]


def readings(text: str, turns: Sequence[Turn]) -> Mapping[str, tuple[str, tuple[Turn, ...]]]:
    """Text and history that are asked, by the way of reading."""
    said = [turn.text for turn in turns if turn.role == "user"]
    last = max(at for at, turn in enumerate(turns) if turn.role == "user")
    return {
        "as text": (text, ()),
        "what the user said": ("\n".join(said), ()),
        "what the user said last": (said[-1], ()),
        "that, with the other turns as history": (said[-1], (*turns[:last], *turns[last + 1 :])),
    }


def measure_dialogues(world: World) -> list[dict[str, Any]]:
    return list(_rows(world)) if world.has(DATA) else []


def _rows(world: World) -> Iterator[dict[str, Any]]:
    dataset = world.dataset(DATA)
    asked = [(need, turns) for q in dataset.questions if (need := q.need).gold and (turns := turns_of(need.text))]
    asked = [(need, turns) for need, turns in asked if any(turn.role == "user" for turn in turns)]
    found: dict[str, list[tuple[int, list[float]]]] = {}
    with world.registry_of([dataset.catalogue], texts="contextual") as registry:
        for need, turns in asked:
            for reading, (text, history) in readings(need.text, turns).items():
                ranked = list(find(registry, text, history)["agents"])
                users = sum(turn.role == "user" for turn in turns)
                found.setdefault(reading, []).append((users, [recall(ranked, need.gold, depth) for depth in DEPTHS]))
    for least in (1, 2):
        for reading, values in found.items():
            chosen = [each for users, each in values if users >= least]
            means = [round(fmean(column), 4) for column in zip(*chosen, strict=True)]
            figures = dict(zip((f"R@{depth}" for depth in DEPTHS), means, strict=False))
            yield {"user turns": f"≥ {least}", "queries": len(chosen), "reading": reading} | figures
