"""What a server that runs as the same user can read of Waygraph's processes: not the keys that it is not handed."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests import service
from tests.processes_left import children_of, needs_proc, until
from tests.upstream.launches import PROGRAMS

pytestmark = needs_proc
ROOT = Path(__file__).resolve().parents[2]
VARIABLE = "WAYGRAPH_TEST_KEY_OF_A_MODEL"
SECRET = {VARIABLE: "not-for-servers"}
LIBRARY = """if True:
    import json, sys
    from tests.upstream.launches import SETTINGS, listing_of
    from waygraph.ingest.manifest.records import StdioLaunch
    entry = json.load(open(sys.argv[1]))["mcpServers"]["curious"]
    listing_of(StdioLaunch(command=entry["command"], args=tuple(entry["args"]), env=entry["env"]))
"""
WITHOUT_CAPABILITIES = """if True:
    import ctypes, os, sys
    for capability in (19, 21, 38):  # SYS_PTRACE, SYS_ADMIN, PERFMON: a container gives root none of them
        ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP
    os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""
COMMAND = [*service.PROGRAM, "--registry", "tools.grafeo", "--embedder", "none", "ingest"]


def configuration(folder: Path) -> tuple[Path, Path]:
    """A configuration with a server that looks around, and where it writes what it could read."""
    findings = folder / "findings.json"
    entry = {
        "command": sys.executable,
        "args": ["-S", str(PROGRAMS / "handshake.py"), "inspects"],
        "env": {"FINDINGS": str(findings), "VARIABLE": VARIABLE},
    }
    file = folder / "mcp.json"
    file.write_text(json.dumps({"mcpServers": {"curious": entry}}))
    return file, findings


def without_capabilities(command: list[str]) -> list[str]:
    """As a user or a container runs it, also where the tests run as root."""
    return [sys.executable, "-c", WITHOUT_CAPABILITIES, *command[1:]]


def run(command: list[str], folder: Path, environ: Mapping[str, str]) -> None:
    whole = without_capabilities(command)
    variables = {**os.environ, "PYTHONPATH": str(ROOT), **environ}
    subprocess.run(whole, env=variables, cwd=folder, check=True, capture_output=True, stdin=subprocess.DEVNULL)


@pytest.mark.parametrize("command", [[sys.executable, "-c", LIBRARY], COMMAND], ids=["library", "command"])
def test_a_server_reads_nothing_of_who_starts_it(command: list[str], tmp_path: Path) -> None:
    file, findings = configuration(tmp_path)
    run([*command, str(file)], tmp_path, SECRET)
    assert json.loads(findings.read_text()) == []


def test_a_program_reads_no_environment_of_a_service_with_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither of the workers, once they serve, nor of their parent, nor of what tracks what they share."""
    # A service with more capabilities than who looks would be out of sight by that alone.
    monkeypatch.setattr(service, "PROGRAM", without_capabilities(service.PROGRAM))
    findings = tmp_path / "findings.json"
    looking = [sys.executable, "-S", str(PROGRAMS / "handshake.py"), "inspects"]

    def sees_no_environment() -> bool:
        run(looking, tmp_path, {"FINDINGS": str(findings), "VARIABLE": VARIABLE})
        return not [each for each in json.loads(findings.read_text()) if each.startswith("environment")]

    location = tmp_path / "tools.grafeo"
    with service.process(location, tmp_path, "--workers", "2", "--no-auth", environ=SECRET) as running:
        assert until(lambda: len(children_of(running.process.pid)) == 3)
        assert until(sees_no_environment), findings.read_text()
