"""What a person writes, and the source that it opens: by real programs, a real server, real files."""

import json
import sys
from pathlib import Path

import pytest

from tests.mcp_stubs import TIDE_TABLES
from tests.web_pages import web_pages
from waygraph.ingest.manifest.environment import Surroundings
from waygraph.ingest.manifest.records import Manifest, ServerEntry
from waygraph.ingest.sources.mcp_servers import McpServers
from waygraph.ingest.sources.opening import Opening, open_command, open_sources
from waygraph.registry.model.errors import SourceError
from waygraph.registry.model.settings import Settings

S = Settings()


def ask(source: str, servers: "list[ServerEntry] | tuple[ServerEntry, ...]") -> Manifest:
    return McpServers(name=source, servers=servers, settings=S).read()


def opening(**options: object) -> Opening:
    return Opening(settings=S, ask=ask, **options)  # type: ignore[arg-type]


@pytest.fixture
def program(tmp_path: Path) -> Path:
    file = tmp_path / "tide_tables.py"
    file.write_text(TIDE_TABLES)
    return file


def test_a_command_is_started_and_asked(program: Path) -> None:
    """Its key comes from the command, its name, version and text from the server."""
    source = open_command([sys.executable, str(program)], opening())
    manifest = source.read()
    [entry] = manifest.entries
    assert (entry.key, entry.agent.version, entry.agent.description) == ("tide_tables", "1.2", "Tides at harbours.")
    assert [tool.name for tool in entry.tools] == ["tides"]
    assert (manifest.rank, entry.agent.status) == (1, "online")
    assert manifest.source == source.name == f"{sys.executable} {program}"


def test_a_command_s_variables_are_kept_as_references(program: Path) -> None:
    how = opening(env={"TIDE_KEY": "${TIDE_KEY}", "OTHER": "literal-s3cret"})
    with pytest.raises(SourceError, match="TIDE_KEY"):
        open_command([sys.executable, str(program)], how)
    how = opening(
        env={"TIDE_KEY": "${TIDE_KEY}", "OTHER": "literal-s3cret"},
        surroundings=Surroundings(environ={"TIDE_KEY": "s3cret-value"}),
    )
    source = open_command([sys.executable, str(program)], how)
    [server] = source.parts().servers
    assert server.launch.env == {"TIDE_KEY": "s3cret-value", "OTHER": "literal-s3cret"}  # type: ignore[union-attr]
    [entry] = source.read().entries
    assert json.loads(entry.agent.transport)["env"] == {"TIDE_KEY": "${TIDE_KEY}", "OTHER": "${OTHER}"}


def test_a_config_starts_its_servers_and_rejects_what_fails(tmp_path: Path, program: Path) -> None:
    """An agent for each that answers; each other is one rejected record with its key, and the rest stays partial."""
    config = tmp_path / "mcp.json"
    servers = {
        "tides": {"command": sys.executable, "args": [str(program)]},
        "missing": {"command": "no-such-program-anywhere"},
        "unset": {"command": sys.executable, "env": {"KEY": "${NOT_SET_ANYWHERE}"}},
        "off": {"command": sys.executable, "disabled": True},
    }
    config.write_text(json.dumps({"mcpServers": servers}))
    [source] = open_sources(str(config), opening())
    manifest = source.read()
    assert {entry.key: len(entry.tools) for entry in manifest.entries} == {"tides": 1, "off": 0}
    assert {fault.key for fault in manifest.rejected} == {"missing", "unset"}


def export_of(source: str, rank: int = 1_000) -> dict[str, object]:
    """An agent, in the name of a source, in words that are to count before all others."""
    told = {"name": source, "namespace": "x", "rank": rank, "policy": "accept", "claims": [["x", "x"]]}
    return {"waygraph_export": 1, "agents": [{"id": "x"}], "sources": [told], "operator": []}


def test_what_was_fetched_speaks_for_no_other_source() -> None:
    """An export at an address names its sources as it likes: it would change what one's own config holds."""
    with web_pages() as web:
        web.pages["/x.json"] = (200, {}, json.dumps(export_of("/home/me/mcp.json")).encode())
        [source] = open_sources(f"{web.url}/x.json", opening())
        with pytest.raises(SourceError, match="is an export of 1 sources"):
            source.read()
