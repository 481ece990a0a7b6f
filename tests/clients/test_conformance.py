"""The conformance suite of MCP against the service: every scenario of a revision passes, or stands in its baseline.

The suite asks for tools by the names of its own test server, which stands behind the gateway and is pinned.
"""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.conformance_server import app
from tests.gateway.hosts import Place, ingest
from tests.host_programs import PINS, host_program
from tests.service import Served, served
from tests.upstream.served import running
from waygraph.api.cli.app import main

REVISIONS = ("2025-11-25", "2026-07-28")
RUN_S = 240.0


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    place = Place(tmp_path_factory.mktemp("suite"))
    with running(app()) as origin:
        config = {"mcpServers": {"suite": {"type": "http", "url": f"{origin}/mcp"}}}
        (place.folder / "mcp.json").write_text(json.dumps(config))
        assert ingest(place, str(place.folder / "mcp.json")) == 0
        assert main(["--registry", str(place.registry), "--embedder", "none", "set", "suite", "--pin"]) == 0
        with served(place.registry) as service:
            yield service


@pytest.mark.parametrize("revision", REVISIONS)
def test_the_service_conforms(revision: str, gateway: Served, tmp_path: Path) -> None:
    """A scenario that fails and is not in the baseline fails it, and one that passes and is."""
    baseline = PINS / "conformance" / f"{revision}.yml"
    suite = (*host_program("conformance"), "server", "--url", f"{gateway.url}/mcp", "--requirements", revision)
    command = (*suite, "--expected-failures", str(baseline), "--output-dir", str(tmp_path))
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=RUN_S)
    assert done.returncode == 0, done.stdout[done.stdout.find("=== SUMMARY") :] + done.stderr
