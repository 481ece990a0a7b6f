"""What of a source does not work: the source itself, or an agent that it lists, since when and why.

The graph keeps it with the source, so that every process and every caller who sees everything learns of it.
"""

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from waygraph.registry.model.identity import replace_surrogates
from waygraph.registry.model.nouns import (
    HIDDEN_REASON,
    JsonText,
    failing,
    reachable,
    reason_of_status,
    unreachable_since,
)

MAX_FAILURES = 100
"""Of one source, by key; further ones are not kept."""
MAX_KEY_CHARS = 200

type SourceStatuses = Mapping[str, Mapping[str, str]]
"""By source: of each key that was tried the status, as `Agent.status` has it. Key empty: the source itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """`key` may also be a document's place. `since`: the first time of the present failure. `reason`: one bounded line
    without secrets.
    """

    source: str
    key: str = ""
    """The source's own name for it; empty: the source itself cannot be read."""
    since: str
    """ISO 8601 in UTC."""
    reason: str
    """The latest one; told with the scope `admin`."""

    @property
    def without_reason(self) -> "Failure":
        """For callers who may not read how servers are started."""
        return replace(self, reason=HIDDEN_REASON)


def bounded_key(key: str) -> str:
    """As a failure keeps it: the record may have been refused for what its key is."""
    return replace_surrogates(key if len(key) <= MAX_KEY_CHARS else f"{key[: MAX_KEY_CHARS - 1]}…")


def continue_failures(
    source: str, before: Iterable[Failure], statuses: Mapping[str, str], now: str, *, remaining: Collection[str] | None
) -> tuple[Failure, ...]:
    """The failures of a source after some of it was tried, by key.

    `statuses`: of each key that was tried, as `Agent.status` has it; one that works fails no more. Of the others those
    in `remaining` go on (None: all). A failure that goes on keeps its `since`.
    """
    by_key = {bounded_key(key): status for key, status in statuses.items()}
    failures_before = {each.key: each for each in before}
    others = {
        key: each
        for key, each in failures_before.items()
        if key not in by_key and (remaining is None or key in remaining)
    }
    for key, status in by_key.items():
        if not reachable(status):
            since = failures_before[key].since if key in failures_before else unreachable_since(status) or now
            others[key] = Failure(source=source, key=key, since=since, reason=reason_of_status(status))
    return tuple(others[key] for key in sorted(others)[:MAX_FAILURES])


def status_of_fault(reason: str) -> str:
    """The status of what was refused, or could not be read."""
    return failing(replace_surrogates(reason))


def failures_json(failures: Iterable[Failure]) -> JsonText:
    """As the graph keeps them with their source."""
    return json.dumps([[each.key, each.since, each.reason] for each in failures], ensure_ascii=False)


def read_failures(source: str, text: JsonText) -> tuple[Failure, ...]:
    """Of what `failures_json` wrote."""
    return tuple(Failure(source=source, key=key, since=since, reason=reason) for key, since, reason in json.loads(text))
