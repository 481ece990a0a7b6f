"""What a watch writes of a batch, over a real registry."""

from dataclasses import replace

import pytest

from tests.sync_graph import entry, manifest
from waygraph import Settings
from waygraph.ingest.manifest.records import AgentRecord, ServerEntry, StdioLaunch
from waygraph.ingest.sources.read import Parts
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
