"""Sources that are read here, and kept by a service."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.service import served
from tests.sync_graph import entry, manifest
from waygraph import Settings
from waygraph.ingest.pipeline import documents_of
from waygraph.registry.model.changes import AgentEntry
from waygraph.registry.remote.remote_registry import RemoteRegistry


@pytest.fixture
def there() -> Iterator[RemoteRegistry]:
    with served() as service, RemoteRegistry.open(service.url, settings=Settings(), environ={}) as there:
        yield there


def offer(there: RemoteRegistry, *entries: AgentEntry) -> None:
    assert there.ingest(list(documents_of(manifest("servers", *entries))), source="servers", namespace="ns-servers")


def test_tools_of_a_server_that_was_not_asked_stay(there: RemoteRegistry) -> None:
    """As they do here: only the server itself could say that they are gone."""
    git, clock = entry("git", tools=("commit", "push")), entry("clock", tools=("now",))
    offer(there, git, clock)
    offer(there, replace(git, tools=(), unasked=True), replace(clock, tools=()))
    assert [tool.id for tool in there.tools()] == ["git/commit", "git/push"]
