"""What is written between kills: documents whose every text tells the number of the document."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.catalogue import catalogue, requests

BASE, FLEET = "base", "fleet"
"""The source that never changes, and the one that each ingest changes."""
WORD = "revision"
FEW_TOOLS, STEP, KINDS = 20, 7, 4


def base(tools: int) -> dict[str, Any]:
    """A catalogue document that stays as it is."""
    return catalogue(tools)


def fleet(number: int) -> dict[str, Any]:
    """A catalogue document of 20 to 41 tools; another number has other texts and another count of tools."""
    document = catalogue(FEW_TOOLS + STEP * (number % KINDS), seed=1 + number % KINDS)
    for place, agent in enumerate(document["agents"]):
        agent["id"] = f"{FLEET}-{place}"
        for text in (agent, *agent["tools"]):
            text["description"] += f" {WORD}{number}"
    return document


def number_of(descriptions: Sequence[str]) -> int | None:
    """The number that the texts of a registry tell; None: they are not one whole document."""
    numbers = Counter(int(text.rpartition(WORD)[2]) for text in descriptions if WORD in text)
    if not numbers:
        return 0
    [number, *others] = numbers
    whole = sum(1 + len(agent["tools"]) for agent in fleet(number)["agents"])
    return number if not others and numbers[number] == whole else None


def read_all(registry: Any) -> dict[str, Any]:
    """All that a registry lists and answers, as JSON: what is compared after a kill or a flipped bit."""
    agents, tools = registry.agents(), registry.tools()
    texts = [*requests(6, seed=3), f"{WORD}1", json.dumps(tools[0].name) if tools else ""]
    return {
        "number": number_of([each.description for each in (*agents, *tools)]),
        "listed": [[str(each) for each in agents], [str(each) for each in tools], [str(s) for s in registry.sources()]],
        "answers": [_scores(ask(text, limit=20)) for text in texts for ask in (registry.route, registry.find_tools)],
    }


def _scores(found: Any) -> list[list[Any]]:
    votes = [(vote.entity_id, vote.leg, vote.score) for match in found.matches for vote in match.votes]
    matches = [((getattr(match, "tool", None) or match.agent).id, "", match.score) for match in found.matches]
    return [[entity, leg, score] for entity, leg, score in (*matches, *votes)]


def differs(one: Mapping[str, Any], other: Mapping[str, Any], apart: float = 4e-6) -> bool:
    """Whether two readings are not the same, but for scores that differ by `apart` at most."""
    if (one["number"], one["listed"]) != (other["number"], other["listed"]):
        return True
    pairs = zip(one["answers"], other["answers"], strict=True)
    return any(_answers_differ(ours, theirs, apart) for ours, theirs in pairs)


def _answers_differ(ours: Sequence[Sequence[Any]], theirs: Sequence[Sequence[Any]], apart: float) -> bool:
    if [row[:2] for row in ours] != [row[:2] for row in theirs]:
        return True
    return any(abs(one[2] - other[2]) > apart for one, other in zip(ours, theirs, strict=True))
