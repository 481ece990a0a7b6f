"""Two records compared: which queries a change won and which it lost, and the votes on both sides."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from statistics import fmean
from typing import Any

from waygraph.registry.errors import InvalidDataset, UnknownName
from waygraph.registry.evaluation.metrics import Gold, measured
from waygraph.registry.evaluation.record import Record
from waygraph.registry.evaluation.significance import paired_p

Votes = Mapping[str, Sequence[Sequence[Any]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """How one of the two answered a query."""

    value: float
    agents: tuple[str, ...]
    votes: Votes


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """A query that the two answer unequally well."""

    id: str
    text: str
    gold: Gold
    one: Side
    other: Side

    @property
    def gain(self) -> float:
        return self.other.value - self.one.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Of a pair of outcomes: the metric's means, p of a paired randomisation test, and changed queries, worst first."""

    name: str
    metric: str
    queries: int
    one: float
    other: float
    p: float
    changed: tuple[Changed, ...]

    @property
    def won(self) -> int:
        return sum(changed.gain > 0 for changed in self.changed)

    @property
    def lost(self) -> int:
        return sum(changed.gain < 0 for changed in self.changed)


def differences(one: Record, other: Record, metric: str) -> list[Difference]:
    """Of every outcome that both have by name and way of asking; if there is none, by way of asking alone, where each
    has but one; of the only ones, if each has but one.

    Raises UnknownName for an unknown metric, or if the two have no outcome in common.
    """
    pairs = _pairs(one["outcomes"], other["outcomes"])
    if not pairs:
        raise UnknownName("outcome of the first", _named(one["outcomes"][0]), map(_named, other["outcomes"]))
    return [_difference(left, right, metric) for left, right in pairs]


def _named(outcome: Record) -> str:
    return f"{outcome['name']}, {outcome['by']}"


def _pairs(ones: Sequence[Record], others: Sequence[Record]) -> list[tuple[Record, Record]]:
    if len(ones) == len(others) == 1:
        return [(ones[0], others[0])]
    return _alike(ones, others, _named) or _alike(ones, others, itemgetter("by"))


def _alike(
    ones: Sequence[Record], others: Sequence[Record], kind: Callable[[Record], str]
) -> list[tuple[Record, Record]]:
    left, right = _singles(ones, kind), _singles(others, kind)
    return [(outcome, right[key]) for key, outcome in left.items() if key in right]


def _singles(outcomes: Sequence[Record], kind: Callable[[Record], str]) -> dict[str, Record]:
    """The outcome of each kind of which there is but one."""
    often = Counter(map(kind, outcomes))
    return {kind(outcome): outcome for outcome in outcomes if often[kind(outcome)] == 1}


def _difference(left: Record, right: Record, metric: str) -> Difference:
    """Over the queries that both were asked: of the same id and text. Raises InvalidDataset if there are none."""
    others = {(query["id"], query["text"]): query for query in right["queries"]}
    both = [(query, others[key]) for query in left["queries"] if (key := (query["id"], query["text"])) in others]
    if not both:
        raise InvalidDataset(f"{_named(left)} and {_named(right)}", "were asked no query in common")
    pairs = [_changed(one, other, metric) for one, other in both]
    ones, twos = [pair.one.value for pair in pairs], [pair.other.value for pair in pairs]
    names = dict.fromkeys((_named(left), _named(right)))
    return Difference(
        name=" against ".join(names),
        metric=metric,
        queries=len(pairs),
        one=fmean(ones),
        other=fmean(twos),
        p=paired_p(ones, twos),
        changed=tuple(sorted((pair for pair in pairs if pair.gain), key=lambda pair: (pair.gain, pair.id))),
    )


def _changed(one: Record, other: Record, metric: str) -> Changed:
    gold = tuple(frozenset(item) for item in one["gold"])
    return Changed(
        id=one["id"], text=one["text"], gold=gold, one=_side(one, gold, metric), other=_side(other, gold, metric)
    )


def _side(query: Record, gold: Gold, metric: str) -> Side:
    """Raises UnknownName for a metric that there is not."""
    found = measured(query["agents"], gold)
    if metric not in found:
        raise UnknownName("metric", metric, found)
    return Side(value=found[metric], agents=tuple(query["agents"]), votes=query["votes"])
