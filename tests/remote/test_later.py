"""Documents that a service takes after it has answered, by its clients."""

from collections.abc import Iterator

import pytest

from tests.service import Served, served, until
from waygraph.registry.model.changes import Document
from waygraph.registry.model.errors import MassRemoval, UnknownName
from waygraph.registry.remote.calls import Ingest
from waygraph.registry.remote.remote_registry import RemoteRegistry


@pytest.fixture(scope="module")
def service() -> Iterator[Served]:
    with served() as service:
        yield service


def catalogue(*agents: str) -> list[Document]:
    lines = "".join(f"  - {{id: {each}, name: {each}, description: does {each}}}\n" for each in agents)
    return [Document("a.yaml", f"waygraph: 1\nagents:\n{lines}")]


def test_a_client_sends_documents_and_looks_later(service: Served) -> None:
    with RemoteRegistry.open(service.url, environ={}) as registry:

        def end_of(started: Ingest) -> Ingest:
            assert (started.state, started.has_ended, started.source) == ("queued", False, "s")
            until(lambda: registry.ingest_status(started.id).has_ended, "the end of the ingest")
            return registry.ingest_status(started.id)

        done = end_of(registry.start_ingest(catalogue("a", "b", "c"), source="s"))
        assert (done.state, done.has_ended) == ("done", True)
        assert done.arrival_time <= done.start_time <= done.end_time
        [report] = done.reports.all()
        assert set(report.changes.created_agents) == {"a", "b", "c"}
        assert report.revision == registry.status().state.revision
        failed = end_of(registry.start_ingest(catalogue("a"), source="s"))
        assert (failed.state, failed.reports.reports) == ("failed", ())
        with pytest.raises(MassRemoval):
            failed.reports.all()
        with pytest.raises(UnknownName):
            registry.ingest_status("none")
