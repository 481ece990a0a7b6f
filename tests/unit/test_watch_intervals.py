"""How often a watch writes what changes again and again, and what it writes then. The clock is a number."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from tests.sync_graph import entry, manifest
from waygraph import Settings
from waygraph.ingest.manifest.records import AgentRecord, ServerEntry, StdioLaunch
from waygraph.ingest.sources.read import Parts
from waygraph.ingest.sync.apply import sync
from waygraph.ingest.upstream.connection import ServerListing
from waygraph.ingest.watch.events import SourceFailed, WatchEvent
from waygraph.ingest.watch.queue import FREE_REVISIONS, MOST_PAUSE_S, RECOVER_S, Batch, Inbox, Offer, Writer
from waygraph.registry.model.nouns import failing
from waygraph.registry.storage.local_registry import LocalRegistry

TEN_MINUTES_S = 600
MOST_IN_TEN_MINUTES = 20
"""The first few at once, then pauses that double."""


@dataclass
class Followed:
    """A watch of a source whose servers and words a test tells, second by second."""

    registry: LocalRegistry
    now_s: float = 1_000.0
    inbox: Inbox = field(default_factory=Inbox)
    servers: dict[str, ServerEntry] = field(default_factory=dict)
    writes: int = 0

    def __post_init__(self) -> None:
        self.writer = Writer(registry=self.registry, tell=lambda _: None)

    def name_servers(self, *keys: str, source: str = "company") -> None:
        self.servers |= {
            key: ServerEntry(
                key=key, launch=StdioLaunch(command=key), record=AgentRecord(pointer=f"/{key}", key=key, name=key)
            )
            for key in keys
        }
        named = tuple(self.servers[key] for key in keys)
        self.inbox.say(source, Parts(manifest=manifest(source), servers=named, must_answer=frozenset(keys)))

    def list_tool(self, key: str, description: str, *, source: str = "company") -> None:
        tool = {"name": "open", "description": description, "inputSchema": {"type": "object"}}
        self.inbox.offer((source, key), Offer(self.servers[key], ServerListing(tools=(tool,))))

    def write(self) -> None:
        """What is due now."""
        batch, _ = self.inbox.take_due(self.now_s)
        if not batch.is_empty:
            written = self.writer.write(batch)
            self.writes += bool(written)
            self.inbox.note_written(batch, written, self.now_s)

    def pass_time(self, seconds: float) -> None:
        self.now_s += seconds
        self.write()

    @property
    def revision(self) -> int:
        return self.registry.status().state.revision

    @property
    def pause_s(self) -> int:
        return next(source.pause_s for source in self.registry.sources() if source.name == "company")


@pytest.fixture
def followed() -> Iterator[Followed]:
    with LocalRegistry.open(":memory:", settings=Settings(embedder="none"), environ={}) as registry:
        made = Followed(registry)
        made.name_servers("door", "gate")
        made.list_tool("door", "Opens the door.")
        made.list_tool("gate", "Opens the gate.")
        made.write()
        yield made


def change_words(followed: Followed, second: int) -> None:
    followed.list_tool("door", f"Opens the door, said {second} times.")


def change_status(followed: Followed, second: int) -> None:
    followed.inbox.status(("company", "door"), "online" if second % 2 else failing("it is ill"))


def change_reason(followed: Followed, second: int) -> None:
    followed.inbox.status(("company", "never"), failing(f"it died as process {second}"))


def change_file(followed: Followed, second: int) -> None:
    said = manifest("company", entry("wall", f"A wall that was painted {second} times"))
    servers = tuple(followed.servers.values())
    followed.inbox.say("company", Parts(manifest=said, servers=servers, must_answer=frozenset(followed.servers)))


def change_fault(followed: Followed, second: int) -> None:
    """What is held is only confirmed, which copies the graph."""
    bad = ({"name": "", "description": "Has no name.", "inputSchema": {}},) * (1 + second % 7)
    followed.inbox.offer(("company", "door"), Offer(followed.servers["door"], ServerListing(tools=bad)))


CHANGES = (change_words, change_status, change_reason, change_file, change_fault)


@pytest.mark.parametrize("change", CHANGES)
def test_what_changes_each_second_is_written_ever_more_seldom(
    followed: Followed, change: Callable[[Followed, int], None]
) -> None:
    for second in range(TEN_MINUTES_S):
        change(followed, second)
        followed.pass_time(1)
    in_ten_minutes = followed.writes
    assert FREE_REVISIONS < in_ten_minutes <= MOST_IN_TEN_MINUTES
    assert followed.pause_s > 60
    for second in range(3 * TEN_MINUTES_S):
        change(followed, second)
        followed.pass_time(1)
    assert followed.writes - in_ten_minutes <= 3 * TEN_MINUTES_S / MOST_PAUSE_S + 2


def test_the_last_words_are_written_at_the_end_of_the_interval(followed: Followed) -> None:
    for second in range(100):
        change_words(followed, second)
        followed.pass_time(1)
    followed.list_tool("door", "Opens the door, at last.")
    followed.pass_time(0)
    before = followed.registry.tool("door/open").description
    followed.pass_time(MOST_PAUSE_S)
    assert (before, followed.registry.tool("door/open").description) != ("Opens the door, at last.",) * 2
    assert followed.registry.tool("door/open").description == "Opens the door, at last."
    assert followed.inbox.is_empty


def test_a_few_changes_are_written_at_once(followed: Followed) -> None:
    for number in range(FREE_REVISIONS):
        change_words(followed, number)
        followed.pass_time(0.1)
        assert followed.registry.tool("door/open").description == f"Opens the door, said {number} times."


def test_a_source_that_rests_is_written_at_once_again(followed: Followed) -> None:
    for second in range(TEN_MINUTES_S):
        change_words(followed, second)
        followed.pass_time(1)
    followed.pass_time(MOST_PAUSE_S)
    followed.pass_time(12 * RECOVER_S)
    for word in ("one", "two"):
        followed.list_tool("door", word)
        followed.pass_time(0.1)
        assert followed.registry.tool("door/open").description == word
    assert followed.pause_s == 0


def test_what_is_new_waits_for_nothing(followed: Followed) -> None:
    """The first words of a server that was slow to start, and another source."""
    followed.name_servers("door", "gate", "lift")
    for second in range(60):
        change_words(followed, second)
        followed.pass_time(1)
    followed.list_tool("lift", "Lifts people.")
    followed.pass_time(0)
    assert followed.registry.tool("lift/open").description == "Lifts people."
    followed.name_servers("shop", source="other")
    followed.list_tool("shop", "Opens the shop.", source="other")
    followed.pass_time(0)
    assert followed.registry.tool("shop/open").description == "Opens the shop."


def test_a_watch_that_ends_after_the_first_words_keeps_no_intervals(followed: Followed) -> None:
    followed.inbox.is_patient = False
    for number in range(3 * FREE_REVISIONS):
        change_words(followed, number)
        followed.write()
    assert followed.inbox.is_empty
    assert followed.pause_s == 0


@pytest.mark.parametrize("partial", [False, True])
def test_a_removal_that_is_refused_keeps_nothing_else_back(*, partial: bool) -> None:
    """A source says that most of its agents are no more: they stay, and what its one server offers is written."""
    told: list[WatchEvent] = []
    said = manifest("servers", entry("a"), entry("b"), entry("c", tools=()))
    server = ServerEntry(key="c", launch=StdioLaunch(command="c"), record=AgentRecord(pointer="/c", key="c", name="c"))
    with LocalRegistry.open(":memory:", settings=Settings(embedder="none"), environ={}) as registry:
        writer = Writer(registry=registry, tell=told.append)
        writer.write(Batch(parts={"servers": Parts(manifest=said)}))
        later = replace(said, entries=said.entries[2:], gone=("a", "b"), partial=partial)
        offer = Offer(server=server, listing=ServerListing(tools=({"name": "read"},)))
        writer.write(
            Batch(
                parts={"servers": Parts(manifest=later, servers=(server,), must_answer=frozenset("c"))},
                offers={("servers", "c"): offer},
            )
        )
        assert [agent.id for agent in registry.agents()] == ["a", "b", "c"]
        assert [tool.id for tool in registry.tools("c")] == ["c/read"]
        assert [event.reason for event in told if isinstance(event, SourceFailed)] == [
            "source 'servers' would lose 2 of its 3 agents in one sync; nothing was changed. "
            "If that is meant, allow_mass_removal (--allow-mass-removal) lets it."
        ]
        writer.allow_mass_removal = True
        writer.write(
            Batch(parts={"servers": Parts(manifest=replace(later), servers=(server,), must_answer=frozenset("c"))})
        )
        assert [agent.id for agent in registry.agents()] == ["c"]


@pytest.mark.parametrize("has_server", [False, True])
def test_what_another_changed_of_a_followed_source_is_written_again(tmp_path: Path, *, has_server: bool) -> None:
    """Emptied, restated or forgotten by an operator: once each; what this watch wrote itself it does not repeat."""
    said = manifest("cfg", entry("a"), entry("b"), *([entry("c", tools=())] if has_server else []))
    server = ServerEntry(key="c", launch=StdioLaunch(command="c"), record=AgentRecord(pointer="/c", key="c", name="c"))
    parts = Parts(manifest=said, servers=(server,), must_answer=frozenset("c")) if has_server else Parts(manifest=said)
    offers = {("cfg", "c"): Offer(server=server, listing=ServerListing(tools=({"name": "read"},)))}
    batch = Batch(parts={"cfg": parts}, offers=offers if has_server else {})
    with (
        LocalRegistry.open(tmp_path / "r.grafeo", embedder="none", environ={}) as registry,
        LocalRegistry.open(tmp_path / "r.grafeo", embedder="none", environ={}) as other,
    ):
        writer = Writer(registry=registry, tell=lambda _: None)
        assert not writer.must_rewrite("cfg")
        writer.write(batch)
        before = [(agent.id, agent.description, len(registry.tools(agent.id))) for agent in registry.agents()]
        assert len(before) == len(said.entries)
        others: list[Callable[[], object]] = [
            lambda: sync(other, manifest("cfg"), allow_mass_removal=True),
            lambda: sync(other, manifest("cfg", entry("a", "another text")), allow_mass_removal=True),
            lambda: other.operator.forget("cfg"),
        ]
        for change in others:
            sync(other, manifest("elsewhere", entry("x")))
            other.operator.forget("elsewhere")
            assert not writer.must_rewrite("cfg")
            change()
            assert writer.must_rewrite("cfg")
            assert not writer.must_rewrite("cfg")
            writer.write(batch)
            assert not writer.must_rewrite("cfg")
            found = [(agent.id, agent.description, len(registry.tools(agent.id))) for agent in registry.agents()]
            assert found == before
