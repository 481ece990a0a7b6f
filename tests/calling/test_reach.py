"""Whether something here runs an agent's tools, told without starting or asking anything."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from waygraph.ingest.execution import services
from waygraph.ingest.execution.services import Reach, Service, Services
from waygraph.ingest.manifest.records import Manifest
from waygraph.ingest.manifest.trust_store import VouchedServer, VouchedSource, launch_digest, vouched_file
from waygraph.ingest.sync.apply import sync
from waygraph.registry.model.changes import AgentEntry
from waygraph.registry.model.identity import sealed_agent
from waygraph.registry.model.nouns import Agent, AgentKind
from waygraph.registry.storage.local_registry import LocalRegistry

LAUNCH = '{"command":"serve"}'


@pytest.fixture
def registry() -> Iterator[LocalRegistry]:
    with LocalRegistry.open(":memory:", embedder="none", environ={}) as opened:
        yield opened


@pytest.fixture
def reached(registry: LocalRegistry, tmp_path: Path) -> Reach:
    return Reach(registry, Services(), vouched_file(tmp_path, registry.store.place))


def put(registry: LocalRegistry, kind: AgentKind, *, rank: int = 1, transport: str = LAUNCH) -> Agent:
    """An agent that the source `s` claims under the key `a`."""
    agent = sealed_agent(Agent(id="a", name="a", kind=kind, transport=transport))
    sync(registry, Manifest(source="s", rank=rank, entries=(AgentEntry(key="a", agent=agent, tools=()),)))
    return registry.agent("a")


def vouch(reached: Reach, **what: object) -> None:
    reached.trust_file.keep("s", replace(VouchedSource(), **what))  # type: ignore[arg-type]


def server(launch: str) -> dict[str, VouchedServer]:
    return {"a": VouchedServer(launch=launch_digest(launch))}


def test_a_server_that_was_asked_here(registry: LocalRegistry, reached: Reach) -> None:
    """As it is held now; the very moment that somebody asks it, nothing in the registry changes."""
    agent = put(registry, "mcp_server")
    assert reached.now().why_not(agent) == services.NOT_ASKED_HERE
    vouch(reached, servers=server(LAUNCH))
    assert reached.now().why_not(agent) == ""
    changed = put(registry, "mcp_server", transport='{"command":"other"}')
    assert reached.now().why_not(changed) == services.NOT_ASKED_HERE


def test_a_server_of_a_catalogue(registry: LocalRegistry, reached: Reach) -> None:
    vouch(reached, servers=server(LAUNCH))
    agent = put(registry, "mcp_server", rank=0)
    assert reached.now().why_not(agent) == services.OF_A_CATALOGUE


@pytest.mark.parametrize(
    "named", [Service(agent="a", base_url="https://a.example"), Service(source="s", base_url="https://a.example")]
)
@pytest.mark.parametrize(
    ("kind", "reason"), [("openapi", services.NOT_CONFIGURED), ("a2a_agent", services.NOT_NAMED_HERE)]
)
def test_a_service_that_an_operator_configured(
    registry: LocalRegistry, reached: Reach, kind: AgentKind, reason: str, named: Service
) -> None:
    agent = put(registry, kind)
    assert reached.now().why_not(agent) == reason
    assert Reach(registry, Services(entries=(named,)), reached.trust_file).now().why_not(agent) == ""


def test_an_agent_that_nothing_runs(registry: LocalRegistry, reached: Reach) -> None:
    agent = put(registry, "custom")
    assert "nothing here runs" in reached.now().why_not(agent)
