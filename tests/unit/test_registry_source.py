"""An MCP registry over HTTP: its pages, what changed since, what goes wrong on the way, and its bounds."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.fake_mcp_registry import FakeMcpRegistry, entry, fake_mcp_registry
from waygraph.ingest.manifest.records import HttpLaunch, Manifest
from waygraph.ingest.sources import registry_source
from waygraph.ingest.sources.registry_source import OFFICIAL_URL, World, open_registry
from waygraph.ingest.sync.apply import sync
from waygraph.registry.model.errors import SourceError
from waygraph.registry.model.settings import Settings
from waygraph.registry.registry import Registry

TEN = [entry(f"a.example/s{number}") for number in range(10)]


@pytest.fixture
def fake() -> Iterator[FakeMcpRegistry]:
    with fake_mcp_registry(*TEN) as running:
        yield running


class Waits:
    """A world in which waiting is only noted."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    @property
    def world(self) -> World:
        return World(sleep=self.slept.append, jitter=lambda: 1.0)


def read(fake: FakeMcpRegistry, settings: Settings | None = None, **options: Any) -> Manifest:
    return open_registry(fake.url, settings or Settings(), **{"world": Waits().world, **options}).read()


def keys(manifest: Manifest) -> list[str]:
    return [found.key for found in manifest.entries]


def refused(fake: FakeMcpRegistry, settings: Settings | None = None, **options: Any) -> str:
    with pytest.raises(SourceError) as caught:
        read(fake, settings, **options)
    return str(caught.value)


def test_every_page_is_read(fake: FakeMcpRegistry) -> None:
    seen: list[tuple[int, int]] = []
    manifest = read(fake, progress=lambda done, of: seen.append((done, of)))
    assert keys(manifest) == [f"a.example/s{number}" for number in range(10)]
    assert (manifest.partial, manifest.rejected, manifest.rank) == (False, (), 0)
    assert seen == [(3, 0), (6, 0), (9, 0), (10, 0)]
    assert [query.get("cursor") for query in fake.requests] == [None, "3", "6", "9"]
    assert all(query["version"] == "latest" and query["limit"] == "100" for query in fake.requests)


def test_its_name_is_its_address(fake: FakeMcpRegistry) -> None:
    """So that its source is the same whichever way it was written; the official one needs no address."""
    wanted = f"mcp-registry:{fake.url}"
    assert read(fake).source == wanted
    assert open_registry(f"{fake.url}/", Settings()).name == wanted
    official = open_registry("", Settings())
    assert (official.name, official.namespace) == (f"mcp-registry:{OFFICIAL_URL}", "mcp-registry")
    assert official.url == f"{OFFICIAL_URL}/v0.1/servers"
    assert open_registry("https://h.example/api/v0", Settings()).url == "https://h.example/api/v0/servers"
    assert open_registry("https://h.example/v0.1/servers", Settings()).url == "https://h.example/v0.1/servers"
    assert open_registry("https://h.example", Settings()).namespace == "h.example"
    alike = OFFICIAL_URL.removeprefix("https://") + ".evil.example"
    assert open_registry(f"https://{alike}", Settings()).namespace == alike


def test_what_changed_since_is_a_part_and_tombstones_remove(fake: FakeMcpRegistry) -> None:
    """A registry that holds all learns what is new, changed and deleted, and keeps the rest."""
    with Registry.open(":memory:", embedder="none", settings=Settings(), environ={}) as registry:
        sync(registry, read(fake))
        fake.entries[2] = entry("a.example/s2", at="2026-05-01", description="Another")
        fake.entries[4] = entry("a.example/s4", at="2026-05-02", status="deleted")
        fake.entries[5] = entry("a.example/s5", at="2026-05-02", status="deprecated")
        fake.entries += [
            entry("a.example/s6", latest=False, status="deleted", at="2026-05-02", version="0.1"),
            entry("a.example/new", at="2026-05-03"),
        ]
        manifest = read(fake, since="2026-04-30T12:00:00+02:00")
        assert fake.requests[-1]["updated_since"] == "2026-04-30T12:00:00+02:00"
        assert (manifest.partial, manifest.gone) == (True, ("a.example/s4",))
        assert keys(manifest) == ["a.example/s2", "a.example/s5", "a.example/new"]
        changes = sync(registry, manifest).changes
        assert changes.removed_agents == ("a.example.s4",)
        assert changes.created_agents == ("a.example.new",)
        assert {updated.id: updated.fields for updated in changes.updated_agents} == {
            "a.example.s2": ("description",),
            "a.example.s5": ("tags",),
        }
        assert len(registry.agents()) == 10


def test_the_servers_that_are_open_can_be_asked(fake: FakeMcpRegistry) -> None:
    fake.entries = [
        entry("a/open", remotes=[{"type": "sse", "url": "http://127.0.0.1:9/sse"}]),
        entry("a/closed", remotes=[{"url": "http://x.example", "headers": [{"name": "K", "isRequired": True}]}]),
    ]
    parts = open_registry(fake.url, Settings()).parts(asks=True)
    assert keys(parts.manifest) == ["a/open", "a/closed"]
    assert [(server.key, server.launch) for server in parts.servers] == [
        ("a/open", HttpLaunch(url="http://127.0.0.1:9/sse", form="sse"))
    ]


def test_headers_go_with_every_request_and_nowhere_else(fake: FakeMcpRegistry) -> None:
    read(fake, headers={"Authorization": "Bearer s3cret"})
    assert fake.authorizations == ["Bearer s3cret"] * 4
    fake.troubles = [(403, None)]
    source = open_registry(fake.url, Settings(), headers={"Authorization": "Bearer s3cret"})
    with pytest.raises(SourceError) as caught:
        source.read()
    assert "s3cret" not in f"{caught.value!r} {caught.value} {source!r}"


def test_an_overloaded_registry_is_asked_again() -> None:
    waits = Waits()
    with fake_mcp_registry(*TEN[:1]) as fake:
        fake.troubles = [(429, "7"), (503, None), (500, None)]
        assert len(read(fake, world=waits.world).entries) == 1
    assert waits.slept == [7.0, 1.0, 2.0]


def test_a_registry_that_stays_overloaded_is_given_up(fake: FakeMcpRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    """After so many tries, or when waiting longer would take too long."""
    fake.troubles = [(503, None)] * 9
    monkeypatch.setattr(registry_source, "RETRIES", 2)
    assert "still answers 503 (Service Unavailable) after 3 tries" in refused(fake)
    fake.troubles = [(429, "50")] * 9
    monkeypatch.setattr(registry_source, "TOTAL_S", 20)
    assert "still answers 429 (Too Many Requests) after 1 tries" in refused(fake)


def test_pages_that_fail_later_leave_a_part(fake: FakeMcpRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was read counts, nothing is removed, and the reason is told."""
    fake.fails_from = 6
    monkeypatch.setattr(registry_source, "RETRIES", 1)
    manifest = read(fake)
    assert len(manifest.entries) == 6
    assert manifest.partial
    [rejected] = manifest.rejected
    assert rejected.reason == "still answers 500 (Internal Server Error) after 2 tries; 2 pages were read"


def test_an_endless_list_ends(fake: FakeMcpRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry_source, "MAX_PAGES", 7)
    fake.endless = True
    manifest = read(fake)
    assert (len(manifest.entries), len(fake.requests), manifest.partial) == (10, 7, True)
    assert "more than 7 pages" in manifest.rejected[0].reason
    fake.endless, fake.same_cursor = False, True
    fake.requests.clear()
    manifest = read(fake)
    assert (len(fake.requests), manifest.partial) == (2, True)
    assert any("gives a cursor again" in rejected.reason for rejected in manifest.rejected)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"<html>", "answers with a web page, which is no document"),
        (b"[" * 100_000, "answers with what is no JSON"),
        (b"[]", "answers with what is no list of servers"),
        (b"{}", "answers with what is no list of servers"),
        (b'{"servers": {}}', "answers with what is no list of servers"),
    ],
)
def test_an_answer_that_is_none_is_refused(fake: FakeMcpRegistry, body: bytes, reason: str) -> None:
    fake.body = body
    assert reason in refused(fake)


def test_too_many_bytes_are_not_read(fake: FakeMcpRegistry) -> None:
    page = len(json.dumps(TEN[:3]))
    manifest = read(fake, Settings(max_source_bytes=2 * page))
    assert 0 < len(manifest.entries) < 10
    assert "bytes that are read (WAYGRAPH_MAX_SOURCE_BYTES); " in manifest.rejected[0].reason
    fake.headers = {"Content-Encoding": "gzip"}
    assert "its answer is compressed and cannot be unpacked" in refused(fake)


@pytest.mark.parametrize(
    "url", ["https://u:s3cret@h", "https://h?token=s3cret", "https://h#s3cret", "ftp://h/s3cret", "s3cret", "https://"]
)
def test_an_address_that_is_none_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(SourceError) as caught:
        open_registry(url, Settings())
    assert "s3cret" not in str(caught.value)
