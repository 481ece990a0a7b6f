"""The conformance suite of MCP against a service and `waygraph mcp`: each scenario passes, or stands in its baseline.

The suite asks for tools by the names of its own test server, which stands behind the gateway and is pinned.
"""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.conformance_server import app
from tests.clients.stdio_relay import relay
from tests.gateway.hosts import Place, ingest, on_stdio
from tests.host_programs import PINS, host_program
from tests.service import served
from tests.upstream.served import running
from waygraph.api.cli.app import main

REVISIONS = ("2025-11-25", "2026-07-28")
OF_HTTP = {"2025-11-25": ("dns-rebinding-protection",), "2026-07-28": ("dns-rebinding-protection", "server-stateless")}
"""What the suite looks for in HTTP's heads and statuses: over standard input and output there are none."""
RUN_S = 240.0


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    place = Place(tmp_path_factory.mktemp("suite"))
    with running(app()) as origin:
        config = {"mcpServers": {"suite": {"type": "http", "url": f"{origin}/mcp"}}}
        (place.folder / "mcp.json").write_text(json.dumps(config))
        assert ingest(place, str(place.folder / "mcp.json")) == 0
        assert main(["--registry", str(place.registry), "--embedder", "none", "set", "suite", "--pin"]) == 0
        yield place


@pytest.fixture(scope="module")
def service(place: Place) -> Iterator[str]:
    with served(place.registry) as service:
        yield service.url


@pytest.fixture(scope="module")
def program(place: Place) -> Iterator[str]:
    launch = on_stdio(place)
    with running(relay((launch.command, *launch.args), launch.env or {})) as url:
        yield url


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("door", ["service", "program"])
def test_the_gateway_conforms(door: str, revision: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """A scenario that fails and is not in the baseline fails it, and one that passes and is."""
    beside = OF_HTTP[revision] if door == "program" else ()
    known = (PINS / "conformance" / f"{revision}.yml").read_text().splitlines()
    lines = [line for line in known if not any(f"- {scenario}:" in line for scenario in beside)]
    (tmp_path / "baseline.yml").write_text("\n".join([*lines, *(f"  - {scenario}" for scenario in beside)]))
    url = f"{request.getfixturevalue(door)}/mcp"
    suite = (*host_program("conformance"), "server", "--url", url, "--requirements", revision)
    command = (*suite, "--expected-failures", "baseline.yml", "--output-dir", str(tmp_path))
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=RUN_S)
    assert done.returncode == 0, done.stdout[done.stdout.find("=== SUMMARY") :] + done.stderr
