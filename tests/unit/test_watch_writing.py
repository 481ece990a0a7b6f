"""What a watch writes of a batch, over a real registry."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.sync_graph import entry, manifest
from waygraph import Settings
from waygraph.ingest.manifest.records import AgentRecord, ServerEntry, StdioLaunch
from waygraph.ingest.sources.read import Parts
from waygraph.ingest.sync.apply import sync
from waygraph.ingest.upstream.connection import ServerListing
from waygraph.ingest.watch.events import SourceFailed, WatchEvent
from waygraph.ingest.watch.queue import Batch, Offer, Writer
from waygraph.registry.storage.local_registry import LocalRegistry


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
