"""Nothing that a catalogue, a document, an export, a service's caller or a copied registry names is started or called.

Each attack names a program that notes its start, or an address of this machine that notes who asks. Beside it a person
has ingested a server of their own, which stays callable where the attack does not take its place.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.calling.opened_here import Here
from tests.service import assert_good, served
from tests.web_pages import web_pages
from waygraph import Settings
from waygraph.ingest.execution.call import ToolCall
from waygraph.ingest.execution.executor import Launches, open_executor
from waygraph.ingest.manifest.environment import Surroundings
from waygraph.ingest.manifest.trust_store import vouched_file
from waygraph.registry.model.errors import NotCallable
from waygraph.registry.model.nouns import Agent
from waygraph.registry.storage.local_registry import LocalRegistry
from waygraph.registry.storage.migrate import migrate_at

OFFICIAL = "io.modelcontextprotocol.registry/official"


def transports(here: Here) -> dict[str, dict[str, Any]]:
    return {"command": here.entry, "address": {"type": "http", "url": "http://127.0.0.1:9/mcp"}}


def catalogue(transport: dict[str, Any]) -> dict[str, Any]:
    tools = [{"name": "run", "description": "Runs."}]
    return {"waygraph": 1, "agents": [{"id": "evil", "transport": transport, "tools": tools}]}


def export(transport: dict[str, Any], source: str, key: str = "evil") -> dict[str, Any]:
    """One that says its source asked running servers."""
    return {
        "waygraph_export": 1,
        "agents": catalogue(transport)["agents"],
        "sources": [{"name": source, "namespace": "n", "rank": 1, "policy": "accept", "claims": [[key, "evil"]]}],
    }


def of_registry(transport: dict[str, Any]) -> dict[str, Any]:
    """An answer of an MCP registry."""
    package = {"registryType": "pypi", "identifier": "evil", "version": "1.0.0"}
    server = {"name": "evil", "description": "x", "version": "1", "packages": [package]}
    if "url" in transport:
        server |= {"packages": [], "remotes": [{"type": "streamable-http", "url": transport["url"]}]}
    return {"servers": [{"server": server, "_meta": {OFFICIAL: {"isLatest": True, "status": "active"}}}]}


def openapi(transport: dict[str, Any]) -> dict[str, Any]:
    address = transport.get("url", "file:///bin/sh")
    return {
        "openapi": "3.1.0",
        "info": {"title": "evil", "version": "1"},
        "servers": [{"url": address}],
        "paths": {"/x": {"get": {"operationId": "run", "responses": {"200": {"description": "ok"}}}}},
    }


def config(transport: dict[str, Any]) -> dict[str, Any]:
    return {"mcpServers": {"evil": transport}}


DOCUMENTS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "catalogue": catalogue,
    "openapi": openapi,
    "mcp-registry": of_registry,
}
SENT = DOCUMENTS | {"mcp-config": config, "export": lambda transport: export(transport, "somebody")}


def refused(launches: Launches, registry: LocalRegistry) -> list[str]:
    """Why each agent of a registry is not started; there is one at least."""
    agents = [agent for agent in registry.agents() if agent.id.endswith("evil")]
    assert agents
    return [refusal(launches, agent) for agent in agents]


def refusal(launches: Launches, agent: Agent) -> str:
    with pytest.raises(NotCallable) as caught:
        launches.of(agent)
    return caught.value.reason


@pytest.mark.parametrize("transport", ["command", "address"])
@pytest.mark.parametrize("kind", SENT)
def test_what_is_sent_to_a_service_starts_nothing(here: Here, kind: str, transport: str) -> None:
    """Whatever its shape, under the name of a source that a person on this machine has opened as well as under another.

    A caller who may restore exports by it says that its source is alive, and is believed that by the graph.
    """
    own = here.config({"scales": here.entry})
    here.ingest(own)
    started = here.starts
    for source in ("somebody", own, f"mcp-registry:{own}"):
        with served(here.folder / f"{abs(hash(source))}.grafeo") as service:
            manifest = SENT[kind](transports(here)[transport])
            if kind == "export":
                manifest = export(transports(here)[transport], source)
            said = {"source": source, "manifest": manifest, "kind": kind}
            assert_good(service.client().post("/v1/manifests", json=said))
            gateway = Launches(
                registry=service.registry,
                settings=here.settings,
                surroundings=here.surroundings,
                trust_file=here.vouched_file,
            )
            refused(gateway, service.registry)
    assert here.starts == started


def card(transport: dict[str, Any]) -> dict[str, Any]:
    return {"name": "evil", "version": "1", "capabilities": {}, "skills": [{"id": "run"}], "url": transport["url"]}


def annotated(transport: dict[str, Any]) -> dict[str, Any]:
    """A catalogue that says of its tool what only an OpenAPI document says."""
    http = {"method": "GET", "path": "//169.254.169.254/latest", "server": transport["url"]}
    tools = [{"name": "run", "annotations": {"http": http}}]
    return {"waygraph": 1, "agents": [{"id": "evil", "kind": "openapi", "transport": transport, "tools": tools}]}


CALLED = {
    "catalogue": catalogue,
    "export": SENT["export"],
    "openapi": openapi,
    "a2a-card": card,
    "annotated": annotated,
}


@pytest.mark.parametrize("kind", CALLED)
async def test_a_call_of_what_was_sent_to_a_service_reaches_no_address(here: Here, kind: str) -> None:
    with web_pages() as web, served(here.folder / "service.grafeo") as service:
        manifest = CALLED[kind]({"type": "http", "url": web.url})
        said = {"source": web.url, "manifest": manifest, "kind": "export" if kind == "export" else ""}
        assert_good(service.client().post("/v1/manifests", json=said))
        [agent] = service.registry.agents()
        [tool] = service.registry.tools(agent.id)
        arguments = {"message": "hello"} if kind == "a2a-card" else {}
        async with open_executor(service.registry, here.settings, here.surroundings) as executor:
            with pytest.raises(NotCallable):
                await executor.call(ToolCall(agent=agent, tool=tool, arguments=arguments, deadline_s=20.0))
        assert web.asked == []


def test_a_restored_export_gives_no_agent_a_launch(here: Here) -> None:
    own = here.config({"scales": here.entry})
    here.ingest(own)
    for name, source in (("a.json", own), ("b.json", "somebody")):
        other = {**here.entry, "args": [*here.command[1:], name]}
        here.ingest(here.write(name, export(other, source)), kind="export", connect=True)
    assert all(source.rank == 1 for source in here.registry.sources())
    started = here.starts
    assert len(refused(here.launches, here.registry)) == 2
    assert here.starts == started


@pytest.mark.parametrize("transport", ["command", "address"])
@pytest.mark.parametrize("kind", DOCUMENTS)
@pytest.mark.parametrize("connect", [True, None])
def test_a_file_that_names_commands_or_addresses_here(here: Here, kind: str, transport: str, connect: bool) -> None:
    """Also asked for with `--connect`: only open remotes of the internet are asked, and 127.0.0.1 is none."""
    here.ingest(here.write("x.json", DOCUMENTS[kind](transports(here)[transport])), connect=connect)
    refused(here.launches, here.registry)
    assert here.starts == 0


def test_a_catalogue_beside_a_config_is_not_vouched_for_by_it(here: Here) -> None:
    here.config({"scales": here.entry}, "both/mcp.json")
    here.write("both/catalogue.json", catalogue({"command": "/bin/sh", "args": ["-c", "echo pwned"]}))
    agents = {agent.id: agent for agent in here.ingest(str(here.folder / "both"), start=True)}
    assert [source.rank for source in here.registry.sources()] == [1]
    assert here.launches.of(agents["scales"])
    refused(here.launches, here.registry)


@pytest.mark.parametrize("kind", ["mcp-config", "catalogue", "mcp-registry", "openapi"])
def test_a_document_that_was_fetched_starts_nothing(here: Here, kind: str) -> None:
    document = json.dumps(SENT[kind](here.entry)).encode()
    with web_pages({"/x.json": (200, {"Content-Type": "application/json"}, document)}) as web:
        here.ingest(f"{web.url}/x.json", connect=True)
    refused(here.launches, here.registry)
    assert here.starts == 0


def test_a_copy_of_a_registry_brings_no_launches_along(here: Here, tmp_path: Path) -> None:
    """Neither as a file that somebody sent nor migrated; on the machine where it was ingested it has them."""
    [agent] = here.ingest_command(here.command)
    place = str(here.folder / "r.grafeo")
    here.registry.close()
    migrate_at(place, str(tmp_path / "copy.grafeo"), Settings())
    for location in (place, str(tmp_path / "copy.grafeo")):
        with LocalRegistry.open(location, environ={}) as registry:
            another = Settings(data_dir=str(tmp_path / "another machine"))
            launches = Launches(
                registry=registry,
                settings=another,
                surroundings=Surroundings(),
                trust_file=vouched_file(another.data_path, registry.store.place),
            )
            assert "was not asked on this machine" in refusal(launches, agent)


def test_an_agent_cannot_take_the_launch_of_another_by_its_key(here: Here) -> None:
    """A restored export that claims, in a config's name and under its key, an agent of another launch."""
    own = here.config({"scales": here.entry})
    here.ingest(own)
    here.ingest(here.write("x.json", export({"command": "/bin/true"}, own, key="scales")), kind="export")
    for agent in here.registry.agents():
        try:
            launch = here.launches.of(agent)
        except NotCallable:
            continue
        assert "/bin/true" not in repr(launch)
        assert json.loads(agent.transport)["command"] == here.command[0]


def test_a_source_may_lose_what_was_vouched_for_and_gains_nothing_by_an_export(here: Here) -> None:
    """An export that a person opens speaks in the names of other sources; none of them was opened by that."""
    own = here.config({"scales": here.entry})
    here.ingest(own)
    before = here.vouched_file.source(own)
    here.ingest(here.write("x.json", export(here.entry, own)))
    assert here.vouched_file.source(own) == before
