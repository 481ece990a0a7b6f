"""Which tool or agent was called after which: counts alone, without arguments, texts or callers."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import pairwise
from math import exp2
from typing import NamedTuple

from waygraph.registry.model.numbers import read_number

DAY_S = 86_400.0
HALF_LIFE_DAYS = 90.0
"""After so many days a call that was counted counts half."""
MAX_KEPT = 50_000
MAX_COUNT = 1e12
"""Of one transition that is read: no sum of such counts is infinite."""

type Sums = dict[tuple[str, str, str], Transition]
"""By key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """`next` was called right after `first`: ids of two tools, or of two agents. `first` empty: a conversation began
    with `next`.

    `before`: what was called before `first`, of the same kind; empty: whatever it was. The count fades with time:
    `last_at` (ISO 8601 in UTC) says as of when it holds.
    """

    first: str
    next: str
    before: str = ""
    count: float = 1.0
    last_at: str = ""

    @property
    def key(self) -> tuple[str, str, str]:
        return self.before, self.first, self.next

    @property
    def is_of_tools(self) -> bool:
        return is_tool(self.next)

    @property
    def is_sound(self) -> bool:
        """Whether it tells of entities of one kind, counts something, and has a date."""
        try:
            epoch_seconds(self.last_at)
        except (TypeError, ValueError):
            return False
        counts = (read_number(self.count, 0, MAX_COUNT) or 0) > 0
        is_of_one_kind = all(is_tool(name) == self.is_of_tools for name in self.ids)
        return counts and bool(self.next) and bool(self.first or not self.before) and is_of_one_kind

    @property
    def ids(self) -> tuple[str, ...]:
        """Of all that it tells of."""
        return tuple(filter(None, (self.first, self.next, self.before)))


class Partner(NamedTuple):
    """That a tool is called beside `tool`: in `times` of its `calls`, both faded by their age. `share`, in (0, 1): the
    same, less where little was counted.
    """

    tool: str
    share: float
    times: float
    calls: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningReport:
    """`transitions`: how many are kept now. `unknown`: ids that the registry does not hold; what tells of them was
    left out."""

    transitions: int
    revision: int
    unknown: tuple[str, ...] = ()


def is_tool(entity_id: str) -> bool:
    """Whether the id is a tool's; else it is an agent's."""
    return "/" in entity_id


def owner_of(entity_id: str) -> str:
    """The agent of a tool; an agent is its own."""
    return entity_id.partition("/")[0]


def count_transitions(conversations: Iterable[Sequence[str]], at: str) -> list[Transition]:
    """First calls, first and second order, of tools and of their agents. A conversation: the ids called, the oldest
    first.

    An agent that was called as a whole stands by its own id; of tools nothing is counted across it.
    """
    counts: Counter[tuple[str, str, str]] = Counter()
    for calls in conversations:
        counts.update(key for key in _keys(calls) if all(map(is_tool, filter(None, key))))
        counts.update(_keys([owner_of(each) for each in calls]))
    return [
        Transition(before=before, first=first, next=following, count=float(count), last_at=at)
        for (before, first, following), count in counts.items()
    ]


def count_last(calls: Sequence[str], at: str) -> list[Transition]:
    """Of the last call alone, in a conversation as `count_transitions` takes it."""
    tail = calls[-3:]
    earlier = {each.key: each.count for each in count_transitions([tail[:-1]], at)}
    counts = (replace(each, count=each.count - earlier.get(each.key, 0.0)) for each in count_transitions([tail], at))
    return [each for each in counts if each.count]


def _keys(chain: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    yield from (("", "", name) for name in chain[:1])
    for first, following in pairwise(chain):
        yield "", first, following
    yield from zip(chain, chain[1:], chain[2:], strict=False)


def weight_at(count: float, last_at: str, at: str, half_life_days: float = HALF_LIFE_DAYS) -> float:
    """The count as it holds at another time: half of it after so many days. Times are ISO 8601."""
    return count * exp2((epoch_seconds(last_at) - epoch_seconds(at)) / (half_life_days * DAY_S))


def add_transitions(
    base: Iterable[Transition], more: Iterable[Transition], half_life_days: float = HALF_LIFE_DAYS
) -> Sums:
    """The sums by key, each as of the later time."""
    sums = {each.key: each for each in base}
    for each in more:
        if (before := sums.get(each.key)) is None:
            sums[each.key] = each
            continue
        at = max(before.last_at, each.last_at, key=epoch_seconds)
        count = sum(weight_at(one.count, one.last_at, at, half_life_days) for one in (before, each))
        sums[each.key] = replace(before, count=count, last_at=at)
    return sums


def keep_largest(sums: Sums, most: int = MAX_KEPT, half_life_days: float = HALF_LIFE_DAYS) -> Sums:
    """Those that count the most as of one time; of equal ones the first by key."""
    at = newest(sums.values())
    ranking = sorted(
        sums.values(), key=lambda each: (-weight_at(each.count, each.last_at, at, half_life_days), each.key)
    )
    return {each.key: each for each in ranking[:most]}


def newest(transitions: Iterable[Transition]) -> str:
    """The latest time of any; empty without one."""
    return max((each.last_at for each in transitions), key=epoch_seconds, default="")


def epoch_seconds(at: str) -> float:
    """Of a time in ISO 8601; without a zone it is in UTC."""
    when = datetime.fromisoformat(at)
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
