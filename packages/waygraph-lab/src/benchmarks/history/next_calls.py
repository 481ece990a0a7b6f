"""Who is called next in a conversation: rankings by text, by what was called before, and by both. Pure.

Scores of a text and chances by counts are blended as shares of their sums, as the data's own baselines are.
"""

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from statistics import fmean
from typing import Any, Literal

Scores = Mapping[str, float]
Level = Literal["agents", "tools"]
START = "^"


def owner(tool: str) -> str:
    return tool.partition("/")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A call that somebody made, `tool`, and what was known before it: `calls`, oldest first, and what a router finds
    by the request alone and by the last two turns together, agents and tools by score."""

    id: str
    fold: int
    tool: str
    calls: tuple[str, ...]
    alone: Mapping[Level, Scores]
    joined: Mapping[Level, Scores]

    @property
    def kind(self) -> str:
        if not self.calls:
            return "first"
        return "stay" if owner(self.calls[-1]) == owner(self.tool) else "switch"


class Counts:
    """How often each call followed the last n, for n from 0 to `order`."""

    def __init__(self, sequences: Iterable[Sequence[str]], order: int) -> None:
        self.order = order
        self.after: defaultdict[tuple[str, ...], Counter[str]] = defaultdict(Counter)
        for calls in sequences:
            whole = [START] * order + list(calls)
            for at in range(order, len(whole)):
                for length in range(order + 1):
                    self.after[tuple(whole[at - length : at])][whole[at]] += 1

    def chances(self, calls: Sequence[str]) -> dict[str, float]:
        """Of each next call; they sum to 1, or there are none. Source: Witten and Bell (1991), interpolated: a context
        seen n times with t distinct successors weighs n / (n + t), the next shorter one the rest."""
        whole = [START] * self.order + list(calls)
        found: dict[str, float] = {}
        for length in range(self.order + 1):
            seen = self.after.get(tuple(whole[len(whole) - length :]))
            if seen:
                times, distinct = seen.total(), len(seen)
                found = {name: chance * distinct / (times + distinct) for name, chance in found.items()}
                for name, count in seen.items():
                    found[name] = found.get(name, 0.0) + count / (times + distinct)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Learnt:
    """Counts of both orders over sequences of tools, and over those of their agents."""

    tools: Mapping[int, Counts]
    agents: Mapping[int, Counts]

    @classmethod
    def of(cls, sequences: Iterable[Sequence[str]]) -> "Learnt":
        tools = list(sequences)
        agents = [[owner(tool) for tool in calls] for calls in tools]
        return cls(
            tools={order: Counts(tools, order) for order in (1, 2)},
            agents={order: Counts(agents, order) for order in (1, 2)},
        )


def shuffle_names(sequences: Sequence[Sequence[str]], seed: int) -> list[list[str]]:
    """Each agent under another one's name, its tools under that one's: stays remain stays, but names mean nothing."""
    own: defaultdict[str, list[str]] = defaultdict(list)
    for tool in sorted(set(chain.from_iterable(sequences))):
        own[owner(tool)].append(tool)
    agents = sorted(own)
    random.Random(seed).shuffle(agents)  # noqa: S311 - no secret
    renamed = {
        tool: own[other][place % len(own[other])]
        for agent, other in pairwise([*agents, agents[0]])
        for place, tool in enumerate(own[agent])
    }
    return [[renamed[tool] for tool in calls] for calls in sequences]


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """`follow`: what of the calls before counts, and `weight` how much, in [0, 1]: the agent of the last one, or counts
    of the order 1 or 2."""

    name: str
    text: Literal["alone", "joined"] = "alone"
    follow: Literal["none", "same", 1, 2] = "none"
    weight: float = 0.0

    @property
    def is_blended_counts(self) -> bool:
        return self.follow in (1, 2) and self.weight < 1

    def rank(self, decision: Decision, learnt: Learnt, level: Level) -> list[str]:
        by_text: Scores = getattr(decision, self.text)[level]
        return order(blend(by_text, self._chances(decision, learnt, level, by_text), self.weight))

    def _chances(self, decision: Decision, learnt: Learnt, level: Level, by_text: Scores) -> Scores:
        if self.follow == "none" or (self.follow == "same" and not decision.calls):
            return {}
        if self.follow == "same":
            last = owner(decision.calls[-1])
            own = [last] if level == "agents" else [tool for tool in by_text if owner(tool) == last]
            return dict.fromkeys(own, 1 / len(own)) if own else {}
        if level == "tools":
            return learnt.tools[self.follow].chances(decision.calls)
        return learnt.agents[self.follow].chances([owner(tool) for tool in decision.calls])


METHODS = (
    Method(name="request alone"),
    Method(name="last two turns", text="joined"),
    Method(name="same as last call, then request", follow="same", weight=0.99),
    Method(name="bonus for same agent, request", follow="same", weight=0.05),
    Method(name="bonus for same agent, last two turns", follow="same", weight=0.03, text="joined"),
    Method(name="Markov-1 alone", follow=1, weight=1.0),
    Method(name="Markov-1, request", follow=1, weight=0.1),
    Method(name="Markov-2, request", follow=2, weight=0.1),
    Method(name="Markov-2, last two turns", follow=2, weight=0.07, text="joined"),
)
"""The baselines that the data describe, with the weights that they give: the best in hindsight on these very sets."""


def blend(by_text: Scores, chances: Scores, weight: float) -> dict[str, float]:
    """(1 - weight) × a share of the sum of all scores + weight × the chance."""
    total = sum(by_text.values()) or 1.0
    return {
        name: (1 - weight) * by_text.get(name, 0.0) / total + weight * chances.get(name, 0.0)
        for name in {**by_text, **chances}
    }


def order(scores: Scores) -> list[str]:
    return sorted(scores, key=lambda name: (-scores[name], name))


Rankings = Callable[[Decision, Level], Sequence[str]]
"""Decision, level → ids, best first."""


def judge(decisions: Sequence[Decision], rankings: Rankings, family: Callable[[str], str] | None) -> dict[str, Any]:
    """Means over the decisions: A of agents, T of tools; agent top-1 of first calls, stays and switches; tool top-1
    where that of the last call is right again. `family` of an agent: what counts as the same in the last column."""
    ranks: dict[Level, list[int]] = {"agents": [], "tools": []}
    kin: list[bool] = []
    for decision in decisions:
        agents, tools = rankings(decision, "agents"), rankings(decision, "tools")
        gold = owner(decision.tool)
        ranks["agents"].append(_place(agents, gold))
        ranks["tools"].append(_place(tools, decision.tool))
        kin += [bool(agents) and family(agents[0]) == family(gold)] if family else []
    firsts: dict[str, list[bool]] = {"first": [], "stay": [], "switch": []}
    for decision, place in zip(decisions, ranks["agents"], strict=True):
        firsts[decision.kind].append(place == 1)
    again = [
        place == 1
        for decision, place in zip(decisions, ranks["tools"], strict=True)
        if decision.calls and decision.calls[-1] == decision.tool
    ]
    return {
        "A@1": _share(place == 1 for place in ranks["agents"]),
        "A@3": _share(0 < place <= 3 for place in ranks["agents"]),
        "A MRR": _share(1 / place if place else 0.0 for place in ranks["agents"]),
        "T@1": _share(place == 1 for place in ranks["tools"]),
        "T@3": _share(0 < place <= 3 for place in ranks["tools"]),
        **{kind: _share(right) if right else None for kind, right in firsts.items()},
        "again": _share(again) if again else None,
        "family": _share(kin) if kin else None,
    }


def _place(ranked: Sequence[str], gold: str) -> int:
    """From 1; 0: it is not there."""
    return ranked.index(gold) + 1 if gold in ranked else 0


def _share(values: Iterable[float]) -> float:
    return round(fmean(values), 4)
