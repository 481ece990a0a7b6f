"""How tools are used: counts by outcome and latencies, without arguments; and what requests found nothing."""

import secrets
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import ceil, log2
from typing import Any, Literal, NamedTuple, cast

Outcome = Literal["ok", "tool_error", "refused", "upstream_failed", "timed_out", "cancelled"]
"""`tool_error`: the tool told one. `refused`: the gateway sent nothing. `cancelled`: by who called."""
Sort = Literal["calls", "errors", "p95"]
UsageOf = Literal["tool", "caller", "request"]
UsageBy = Literal["day", "name"]
Door = Literal["mcp", "rest", "explorer", "program", ""]
"""By which a call came: a host, an HTTP client, the explorer's pages, Python or the command line; empty: not known."""
HostEvent = Literal["start", "session", "list", "find", Outcome]
"""A host started the gateway, introduced itself, asked for the list of tools, looked for tools; or how a call ended."""
MAX_DAYS = 90

_AN_OCTAVE, _LAST = 4, 88
"""Four buckets for each doubling: the middle of one is at most 9 % from what is in it. The last begins at 70 min."""
NOT_TIMED = -1
"""The bucket of calls of which no duration is told: those that were not sent, and those whose caller gave up."""


class Count(NamedTuple):
    """`calls` of a tool, by a caller, or as requests of one, that ended in one way within one bucket of durations on a
    day; times are ISO 8601 in UTC. Of a `text` of a request it has no outcome, and its day is a time. The name of a
    `host` is made by `host_name`; that of a `tool` is its id, and behind a tab the door.
    """

    of: UsageOf | Literal["text", "host"]
    day: str
    name: str
    outcome: HostEvent | Literal["nothing", ""]
    bucket: int
    calls: int
    first_at: str
    last_at: str

    @property
    def target(self) -> str:
        """The name without the door."""
        return self.name.partition("\t")[0]

    def plus(self, other: "Count") -> "Count":
        return self._replace(
            calls=self.calls + other.calls,
            first_at=min(self.first_at, other.first_at),
            last_at=max(self.last_at, other.last_at),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolUsage:
    """How the calls of one tool by one door ended. Durations are None where no call was sent and ended."""

    tool_id: str
    door: Door = ""
    calls: int
    ok: int = 0
    tool_error: int = 0
    refused: int = 0
    upstream_failed: int = 0
    timed_out: int = 0
    cancelled: int = 0
    p50_ms: float | None = None
    """Of the calls that were sent and ended, within 9 %."""
    p95_ms: float | None = None
    first_at: str
    """ISO 8601 in UTC."""
    last_at: str

    @property
    def errors(self) -> int:
        """Of the tool and its server; what the gateway refused is none of theirs."""
        return self.tool_error + self.upstream_failed + self.timed_out


@dataclass(frozen=True, slots=True, kw_only=True)
class UsagePart:
    """Calls of a day, of a tool or of a caller; or requests, which have no errors.

    `empty`: requests that found nothing. Durations as in `ToolUsage`.
    """

    day: str
    """ISO 8601, in UTC; empty: of all days."""
    name: str
    """A tool's or a caller's id; empty: of all."""
    calls: int
    errors: int
    refusals: int
    empty: int
    p50_ms: float | None
    p95_ms: float | None


CLIENT_CHARS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class HostContact:
    """What a host last did through a gateway in this way.

    `client`: what it calls itself at `initialize`; empty before that. Of a call `tool_id`, empty for a name that is no
    tool and the gateway's own tool where it refused what was sent to that, `error`, the type of what was raised, and
    `duration_ms`, within 9 %, None if it was not sent.
    """

    client: str
    event: HostEvent
    tool_id: str
    error: str
    at: str
    """ISO 8601 in UTC."""
    duration_ms: float | None


def host_name(client: str, tool_id: str, error: str) -> str:
    """The name of a count of a host."""
    return "\t".join((" ".join(client[:CLIENT_CHARS].split()), tool_id, error))


def host_contacts(counts: Iterable[Count]) -> list[HostContact]:
    """The last of each client, event and tool, in order of time."""
    return [
        HostContact(
            client=client,
            event=cast("HostEvent", count.outcome),
            tool_id=tool_id,
            error=error,
            at=count.last_at,
            duration_ms=None if count.bucket == NOT_TIMED else _middle_ms(count.bucket),
        )
        for count in sorted(counts, key=lambda each: (each.last_at, each.name, each.outcome))
        for client, tool_id, error in [count.name.split("\t")]
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class EmptyRequest:
    at: str
    """ISO 8601 in UTC."""
    text: str
    """Its first 300 characters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchGaps:
    """Requests that found nothing, newest first. Texts are kept only where the operator wants them."""

    keeps_texts: bool
    requests: tuple[EmptyRequest, ...]


@dataclass(kw_only=True, eq=False, slots=True)
class RecordedCall:
    id: str = field(default_factory=lambda: secrets.token_urlsafe(12))
    caller: str
    caller_name: str
    tool: str
    """By its id."""
    at: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="milliseconds"))
    """When it began, in ISO 8601."""
    duration_ms: float = 0.0
    outcome: Outcome = "ok"
    arguments: str
    """JSON without secrets, as far as it is kept."""
    result: str = ""
    """The tool's answer, as `arguments`; empty: none came."""
    result_chars: int = 0
    """How long it was."""
    problem: dict[str, Any] | None = None
    """What the caller was answered instead of a result."""


def bucket_of(duration_s: float) -> int:
    """From 0, all up to 1 ms, to `_LAST`: durations up to 2 ** (bucket / 4) ms."""
    return min(max(ceil(_AN_OCTAVE * log2(max(duration_s * 1000, 1.0))), 0), _LAST)


def summarize(counts: Iterable[Count], sort: Sort, limit: int) -> list[ToolUsage]:
    """What each tool's counts come to by each door: the `limit` that have most of what is sorted by, then by id."""
    of = {"calls": "calls", "errors": "errors", "p95": "p95_ms"}[sort]
    usages = []
    for name, group in _group(counts, "name"):
        outcomes, sums = _sum(group)
        first_at, last_at = min(count.first_at for count in group), max(count.last_at for count in group)
        tool_id, _, door = name.partition("\t")
        usages.append(
            ToolUsage(tool_id=tool_id, door=cast("Door", door), **outcomes, **sums, first_at=first_at, last_at=last_at)
        )
    return sorted(usages, key=lambda usage: (-(getattr(usage, of) or 0), usage.tool_id, usage.door))[:limit]


def usage_parts(counts: Iterable[Count], by: UsageBy, name: str) -> list[UsagePart]:
    """In order of days, or of names."""
    return [
        UsagePart(
            day=key if by == "day" else "",
            name=name if by == "day" else key,
            errors=outcomes["tool_error"] + outcomes["upstream_failed"] + outcomes["timed_out"],
            refusals=outcomes["refused"],
            empty=outcomes["nothing"],
            **sums,
        )
        for key, group in _group(counts, "day" if by == "day" else "target")
        for outcomes, sums in [_sum(group)]
    ]


def _group(counts: Iterable[Count], by: Literal["day", "name", "target"]) -> list[tuple[str, list[Count]]]:
    groups: defaultdict[str, list[Count]] = defaultdict(list)
    for count in counts:
        groups[getattr(count, by)].append(count)
    return sorted(groups.items())


def _sum(counts: Iterable[Count]) -> tuple[Counter[str], dict[str, Any]]:
    """Calls by outcome; and all of them, with the durations of half and of 95 %."""
    outcomes, durations = Counter[str](), Counter[int]()
    for count in counts:
        outcomes[count.outcome] += count.calls
        if count.bucket != NOT_TIMED:
            durations[count.bucket] += count.calls
    quantiles = {"p50_ms": _quantile_ms(durations, 0.5), "p95_ms": _quantile_ms(durations, 0.95)}
    return outcomes, {"calls": outcomes.total(), **quantiles}


def _quantile_ms(durations: Mapping[int, int], share: float) -> float | None:
    """The middle, on the scale of logarithms, of the bucket in which this share of the calls has ended."""
    remaining = ceil(share * sum(durations.values()))
    for bucket in sorted(durations):
        remaining -= durations[bucket]
        if remaining <= 0:
            return _middle_ms(bucket)
    return None


def _middle_ms(bucket: int) -> float:
    return round(2 ** ((bucket - 0.5) / _AN_OCTAVE), 1)
