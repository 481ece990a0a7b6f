"""What of a source fails is kept with it in the graph, in every place, until it works or is named no more."""

from dataclasses import replace

import pytest

from tests.sync_graph import entry, manifest
from waygraph.ingest.manifest.records import Manifest
from waygraph.ingest.sync.apply import put_statuses, sync
from waygraph.registry.model.changes import MAX_FAILURES, MAX_KEY_CHARS, Rejected
from waygraph.registry.model.errors import NotAllowed
from waygraph.registry.model.nouns import MAX_REASON_CHARS, ONLINE, Principal, failing, unreachable
from waygraph.registry.storage.local_registry import LocalRegistry

LONG_AGO = "2026-03-01T08:00:00+00:00"
SINCE = "2026-03-02T08:00:00+00:00"


def fails(
    registry: LocalRegistry, source: str = "cfg", principal: Principal | None = None
) -> dict[str, tuple[str, str]]:
    """By key: since when, and why."""
    found = [each for each in registry.sources(principal=principal) if each.name == source]
    return {failure.key: (failure.since, failure.reason) for each in found for failure in each.failures}


def silent(key: str, reason: str, since: str = LONG_AGO, *others: str) -> Manifest:
    """A configuration with a server that does not answer beside others that do."""
    fault = Rejected(where=f"cfg#/{key}", reason=reason, key=key)
    return replace(
        manifest("cfg", *(entry(each) for each in others), rank=1, rejected=(fault,)),
        silent=((key, unreachable(since, reason)),),
    )


def test_a_failure_keeps_its_beginning_and_tells_the_latest_reason(registry: LocalRegistry) -> None:
    sync(registry, silent("down", "refused", LONG_AGO, "up"))
    assert fails(registry) == {"down": (LONG_AGO, "refused")}
    before = registry.status().state.revision
    sync(registry, silent("down", "timed out", SINCE, "up"))
    assert fails(registry) == {"down": (LONG_AGO, "timed out")}
    assert registry.status().state.revision == before, "no query depends on it"
    assert [(each.source, each.key) for each in registry.status().failures] == [("cfg", "down")]
    sync(registry, manifest("cfg", entry("up"), entry("down"), rank=1))
    assert fails(registry) == {}
    sync(registry, silent("down", "gone again", SINCE, "up"))
    assert fails(registry) == {"down": (SINCE, "gone again")}
    assert {agent.id for agent in registry.agents()} == {"up", "down"}


def test_a_failure_that_ended_does_not_come_back(registry: LocalRegistry) -> None:
    """While another source's success hides it, its own server answers: what fails later is a new failure."""
    sync(registry, silent("down", "refused", LONG_AGO, "up"))
    sync(registry, manifest("other", entry("down"), rank=1))
    put_statuses(registry, {("other", "down"): ONLINE})
    assert fails(registry) == {}
    put_statuses(registry, {("cfg", "down"): ONLINE})
    put_statuses(registry, {("other", "down"): unreachable(SINCE, "gone")})
    assert (fails(registry), fails(registry, "other")) == ({}, {"down": (SINCE, "gone")})


def test_what_is_named_no_more_fails_no_more(registry: LocalRegistry) -> None:
    sync(registry, silent("down", "refused", LONG_AGO, "up"))
    sync(registry, manifest("cfg", entry("up"), rank=1))
    assert fails(registry) == {}
    sync(registry, silent("down", "refused", LONG_AGO, "up"))
    registry.operator.forget("cfg")
    assert registry.status().failures == ()


def test_a_source_of_which_nothing_worked_yet_is_none(registry: LocalRegistry) -> None:
    """Its failure is reported and is no state. What it says once it is mended is its first word: its policy holds
    nothing of that back.
    """
    sync(registry, manifest("other", entry("other")))
    report = sync(registry, replace(silent("down", "refused"), policy="hold"))
    assert [fault.key for fault in report.changes.rejected] == ["down"]
    assert [each.name for each in registry.sources()] == ["other"]
    assert registry.status().failures == ()
    sync(registry, replace(manifest("cfg", entry("down"), rank=1), policy="hold"))
    assert (fails(registry), registry.agent("down").pending) == ({}, False)


def test_a_dry_run_leaves_no_trace(registry: LocalRegistry) -> None:
    sync(registry, silent("down", "refused"), dry_run=True)
    assert not registry.store.exists


def test_a_part_says_nothing_of_the_rest(registry: LocalRegistry) -> None:
    sync(registry, silent("down", "refused", LONG_AGO, "up"))
    sync(registry, replace(manifest("cfg", entry("up", "Other words"), rank=1), partial=True, is_part=True))
    assert fails(registry) == {"down": (LONG_AGO, "refused")}
    unasked = replace(entry("down"), unasked=True)
    sync(registry, manifest("cfg", entry("up"), unasked, rank=1))
    assert fails(registry) == {"down": (LONG_AGO, "refused")}


def test_a_whole_source_fails_until_it_is_read(registry: LocalRegistry) -> None:
    sync(registry, manifest("cfg", entry("up")))
    put_statuses(registry, {("cfg", ""): failing("no such file")})
    assert [reason for _, reason in fails(registry).values()] == ["no such file"]
    sync(registry, manifest("cfg", entry("up")))
    assert fails(registry) == {}


def test_statuses_of_servers_that_never_answered_are_kept(registry: LocalRegistry) -> None:
    sync(registry, manifest("cfg", entry("up")))
    revision = registry.status().state.revision
    put_statuses(registry, {("cfg", "new"): unreachable(LONG_AGO, "refused"), ("cfg", "up"): ONLINE})
    assert fails(registry) == {"new": (LONG_AGO, "refused")}
    put_statuses(registry, {("cfg", "new"): ONLINE})
    assert fails(registry) == {}
    assert registry.status().state.revision == revision + 1, "of the status of `up` alone"


def test_who_does_not_see_everything_learns_of_its_agents_alone(registry: LocalRegistry) -> None:
    """Neither of servers that never answered, nor of the source, nor of how often it changes."""
    hidden = entry("secret")
    sync(registry, replace(manifest("cfg", entry("up"), hidden), pause_s=30))
    registry.operator.set("secret", visible_to=["red"])
    told = {("cfg", key): failing("ill") for key in ("", "up", "secret", "never")}
    put_statuses(registry, told)
    assert set(fails(registry)) == {"", "up", "secret", "never"}
    nobody, red = Principal(), Principal(groups=("red",))
    assert set(fails(registry, principal=nobody)) == {"up"}
    assert set(fails(registry, principal=red)) == {"up", "secret"}
    assert [each.key for each in registry.status(principal=nobody).failures] == ["up"]
    assert [each.pause_s for each in registry.sources(principal=nobody)] == [0]


def test_a_limited_writer_takes_no_failure_away_that_it_may_not_see(registry: LocalRegistry) -> None:
    writer = Principal(id="writer")
    sync(registry, silent("down", "refused", LONG_AGO, "up"))
    with pytest.raises(NotAllowed):
        sync(registry, manifest("cfg", entry("mine")), principal=writer)
    assert set(fails(registry)) == {"down"}
    own = replace(manifest("own", entry("own"), rejected=(Rejected(where="own#/2", reason="no id", key="two"),)))
    sync(registry, own, principal=writer)
    assert set(fails(registry, "own")) == {"two"}
    sync(registry, manifest("own", entry("own")), principal=writer)
    assert fails(registry, "own") == {}


@pytest.mark.parametrize("text", ["a\nb\x1b[31m", "\ud800 half", "x" * 5_000, "'; MATCH (n) DETACH DELETE n //"])
def test_hostile_names_and_reasons_are_bounded_lines(registry: LocalRegistry, text: str) -> None:
    faults = tuple(Rejected(where="w", reason=text, key=f"{number:04}{text}") for number in range(2 * MAX_FAILURES))
    sync(registry, manifest("cfg", entry("up"), rejected=faults))
    kept = fails(registry)
    assert len(kept) == MAX_FAILURES
    for key, (_, reason) in kept.items():
        assert len(key) <= MAX_KEY_CHARS
        assert len(reason) <= MAX_REASON_CHARS
        assert not reason.endswith("…"), "what helps stands at the end"
        assert "\n" not in reason
    sync(registry, manifest("cfg", entry("up")))
    assert fails(registry) == {}
