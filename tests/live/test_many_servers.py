"""Servers of one source beside each other: what is wrong with one costs that one alone, and nothing is left behind."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.faults.processes import child
from tests.live_asking import hold_all, peak_of_asking
from tests.live_servers import REAL_SERVERS, real_server
from tests.processes_left import MARK, command_of, left_of, needs_proc, none_left, until
from tests.servers import misbehaving
from tests.servers import misbehaving_http as web
from tests.servers.misbehaving_http import Behaviour, misbehaving_http
from waygraph.ingest.manifest.records import AgentRecord, HttpLaunch, Manifest, ServerEntry, StdioLaunch
from waygraph.ingest.sources.mcp_servers import McpServers
from waygraph.registry.model.settings import Settings

PROGRAM = Path(misbehaving.__file__)
SETTINGS = Settings(upstream_connect_timeout_s=60.0, upstream_list_timeout_s=60.0)
MEGABYTE = 1_000_000
WAYGRAPH = (sys.executable, "-c", "from waygraph.api.cli.app import main; main()")

pytestmark = needs_proc


def launch(mark: str, does: str, argument: str = "") -> StdioLaunch:
    return StdioLaunch(command=sys.executable, args=("-S", str(PROGRAM), does, argument), env={MARK: mark})


def entry(key: str, launched: StdioLaunch) -> ServerEntry:
    transport = {"command": launched.command, "args": list(launched.args)}
    record = AgentRecord(pointer=f"/mcpServers/{key}", key=key, transport=transport)
    return ServerEntry(key=key, launch=launched, record=record)


def asked(servers: Sequence[ServerEntry], settings: Settings = SETTINGS) -> Manifest:
    return McpServers(name="servers.json", servers=servers, settings=settings).read()


@dataclass(frozen=True)
class Listed:
    """A tool as a server lists it between `alpha` and `beta`. `refused`: what is said of it; empty, it is taken."""

    why: str
    tool: Any
    refused: str = ""


GOOD = {"name": "odd", "description": "An odd tool.", "inputSchema": {"type": "object"}}
TOOLS = (
    Listed("nothing is wrong", GOOD),
    Listed("an empty input schema", {**GOOD, "inputSchema": {}}),
    Listed("no input schema", {"name": "odd"}),
    Listed("anyOf at the top, without a type", {**GOOD, "inputSchema": {"anyOf": [{"type": "object"}]}}),
    Listed("an icon without a source", {**GOOD, "icons": [{"mimeType": "image/png"}]}),
    Listed("an output schema of no object", {**GOOD, "outputSchema": {"type": "array"}}),
    Listed("a name with spaces", {**GOOD, "name": "odd one/two"}),
    Listed("a description that is null", {**GOOD, "description": None}),
    Listed("a field that nobody knows", {**GOOD, "x-vendor": [1, 2]}),
    Listed("an annotation of the wrong type", {**GOOD, "annotations": {"readOnlyHint": "yes"}}),
    Listed("half a surrogate in its description", {**GOOD, "description": "odd \ud83d"}),
    Listed("a reference to another host", {**GOOD, "inputSchema": {"$ref": "http://127.0.0.1:9/schema.json"}}),
    Listed("no name", {"inputSchema": {}}, "name"),
    Listed("an empty name", {**GOOD, "name": ""}, "name"),
    Listed("a name of a megabyte", {**GOOD, "name": "n" * 100_000}, "name"),
    Listed("a name that is a number", {**GOOD, "name": 7}, "name"),
    Listed("a name with a line break", {**GOOD, "name": "odd\nname"}, "name"),
    Listed("an input schema that is a list", {**GOOD, "inputSchema": []}, "inputSchema"),
    Listed("an output schema that is a text", {**GOOD, "outputSchema": "object"}, "outputSchema"),
    Listed("annotations that are a list", {**GOOD, "annotations": ["readOnly"]}, "annotations"),
    Listed("a description that is an object", {**GOOD, "description": {"en": "odd"}}, "description"),
    Listed("a text", "odd", "tool object"),
    Listed("nothing", None, "tool object"),
    Listed("a name that is there already", {**GOOD, "name": "alpha"}, "alpha"),
)


@pytest.mark.parametrize("listed", TOOLS, ids=[listed.why for listed in TOOLS])
def test_a_bad_tool_costs_itself_alone(listed: Listed, mark: str) -> None:
    """The tools before and after it stay; it is taken if its name can be told, and else named with its place."""
    manifest = asked([entry("odd", launch(mark, "lists_tool", json.dumps(listed.tool)))])
    [agent] = manifest.entries
    names = [tool.name for tool in agent.tools]
    assert names[0] == "alpha"
    assert names[-1] == "beta"
    if not listed.refused:
        assert len(names) == 3
        assert not manifest.rejected
        return
    assert names == ["alpha", "beta"]
    [fault] = manifest.rejected
    assert re.search(listed.refused, fault.reason)
    assert fault.where == "servers.json#/mcpServers/odd/tools/1"
    assert not fault.key


def test_a_schema_too_deep_to_read_costs_no_other_tool(mark: str) -> None:
    """Nesting that a parser gives up on ends in a listing or in a reason."""
    servers = [entry("deep", launch(mark, "deep_schema", "100000")), entry("good", launch(mark, "good"))]
    manifest = asked(servers, replace(SETTINGS, upstream_list_timeout_s=10.0))
    assert "good" in [found.key for found in manifest.entries]
    assert [tool.name for found in manifest.entries for tool in found.tools if found.key == "deep"] in ([], ["alpha"])
    assert manifest.rejected


FAIL: Mapping[str, str] = {
    "never_answers": "",
    "never_reads": "",
    "answers_late": "600",
    "lists_late": "600",
    "drips": "",
    "dies_mid_page": "",
    "endless_pages": "",
    "repeats_a_cursor": "",
    "long_line": "50",
    "endless_line": "",
    "endless_lines": "",
    "wrong_ids": "",
    "refuses_greeting": "",
    "refuses_listing": "",
    "other_protocol": "1999-01-01",
    "exits": "7",
    "needs_variable": "API_KEY",
    "closes_stdout": "",
}
LIST: Mapping[str, str] = {
    "good": "",
    "many_tools": "1000",
    "stderr_flood": "20",
    "changes_all_the_time": "1000",
    "invalid_utf8": "",
    "logs_on_stdout": "",
    "answers_twice": "",
    "asks_back": "",
    "stubborn": "",
    "leaves_a_child": "",
    "duplicate_names": "",
    "no_tools": "",
}


def test_bad_servers_beside_good_ones(mark: str) -> None:
    """Of thirty servers each that lists is an agent, each other a line with its key; all of it by one deadline."""
    settings = replace(SETTINGS, upstream_connect_timeout_s=15.0, upstream_list_timeout_s=15.0)
    behaviours = {**FAIL, **LIST}
    began = time.monotonic()
    manifest = asked([entry(does, launch(mark, does, argument)) for does, argument in behaviours.items()], settings)
    seconds = time.monotonic() - began
    assert {found.key for found in manifest.entries} == set(LIST)
    reasons = {fault.key: fault.reason for fault in manifest.rejected if fault.key}
    assert set(reasons) == set(FAIL)
    assert all(reason.isprintable() and len(reason) <= 400 for reason in reasons.values())
    assert not manifest.partial
    assert seconds < 90  # those that are late, eight of them, are late at the same time
    assert none_left(mark)


BOUND = 3 * SETTINGS.upstream_max_message_bytes
"""Bytes that a message of the size allowed may cost: as bytes, as text, as values, and what the allocator keeps."""
A_LITTLE = 20 * MEGABYTE
BRIEFLY = replace(SETTINGS, upstream_list_timeout_s=10.0)
"""What does not end by itself says much in this time."""


@pytest.mark.parametrize(
    ("does", "argument", "bound"),
    [
        ("long_line", "100", BOUND),
        ("endless_line", "", BOUND),
        ("endless_lines", "", BOUND),
        ("endless_pages", "", BOUND),
        ("stderr_flood", "300", A_LITTLE),
    ],
)
def test_memory_stays_bounded(does: str, argument: str, bound: int, mark: str) -> None:
    """However much a program says, what it costs us is bounded by the settings."""
    with child(peak_of_asking, launch(mark, "good"), launch(mark, does, argument), BRIEFLY) as asking:
        grown = asking.hear()
    assert grown < bound, f"{grown / MEGABYTE:.0f} MB"


def test_changes_without_end_cost_no_memory(mark: str) -> None:
    """A server that tells of a change 1,000 times a second, each answered by a listing for as long as there are any."""
    with child(
        peak_of_asking, launch(mark, "good"), launch(mark, "changes_all_the_time", "1000"), SETTINGS, 5.0
    ) as held:
        grown = held.hear()
    assert grown < A_LITTLE, f"{grown / MEGABYTE:.0f} MB"


@pytest.mark.parametrize(
    "behaviour",
    [web.endless_answer("application/json"), web.endless_answer("text/event-stream"), web.packed_answer(50)],
    ids=["an endless answer", "an endless event", "50 MB packed"],
)
def test_memory_stays_bounded_over_http(behaviour: Behaviour) -> None:
    """However much an address answers, packed or not, it costs no more."""
    with misbehaving_http(web.good) as good, misbehaving_http(behaviour) as bad:
        launches = HttpLaunch(url=good.url), HttpLaunch(url=bad.url)
        with child(peak_of_asking, *launches, BRIEFLY) as asking:
            grown = asking.hear()
    assert grown < BOUND, f"{grown / MEGABYTE:.0f} MB"


def held(mark: str, folder: Path) -> list[StdioLaunch]:
    servers = [real_server(name, folder) for name in REAL_SERVERS]
    return [StdioLaunch(command=server.command, args=server.args, env={**server.env, MARK: mark}) for server in servers]


def test_no_server_outlives_us_when_we_are_killed(mark: str, tmp_path: Path) -> None:
    """Six real servers are gone soon after the process that held them was killed with SIGKILL."""
    with child(hold_all, held(mark, tmp_path), SETTINGS) as holding:
        assert holding.hear() > 50
        assert len(left_of(mark)) >= len(REAL_SERVERS)
        os.kill(holding.pid, signal.SIGKILL)
        gone = none_left(mark)
    assert gone, [command_of(pid) for pid in left_of(mark)]


def test_not_even_one_that_will_not_end(mark: str) -> None:
    with child(hold_all, [launch(mark, "stubborn"), launch(mark, "leaves_a_child")], SETTINGS) as holding:
        assert holding.hear() == 4
        assert until(lambda: len(left_of(mark)) == 5)  # two servers, two children, one grandchild
        os.kill(holding.pid, signal.SIGKILL)
        gone = none_left(mark)
    assert gone, [command_of(pid) for pid in left_of(mark)]


def configuration(folder: Path, servers: Mapping[str, StdioLaunch]) -> Path:
    """As an MCP host has it."""
    listed = {
        key: {"command": server.command, "args": list(server.args), "env": dict(server.env)}
        for key, server in servers.items()
    }
    path = folder / "mcp.json"
    path.write_text(json.dumps({"mcpServers": listed}), encoding="utf-8")
    return path


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda how: how.name)
def test_an_ingest_that_is_stopped_leaves_nothing(how: signal.Signals, mark: str, tmp_path: Path) -> None:
    """`waygraph ingest` ends soon after a signal, in the midst of servers that never answer, and so do they."""
    behaviours = ("never_answers", "stubborn", "never_reads")
    path = configuration(tmp_path, {does: launch(mark, does) for does in behaviours})
    environ = {**os.environ, "WAYGRAPH_REGISTRY": str(tmp_path / "r.grafeo")}
    quiet = subprocess.DEVNULL
    with subprocess.Popen((*WAYGRAPH, "ingest", str(path)), env=environ, stdout=quiet, stderr=quiet) as ingest:
        assert until(lambda: len(left_of(mark)) == len(behaviours) + 2)  # one of them has two more
        ingest.send_signal(how)
        ended = until(lambda: ingest.poll() is not None)
        gone = none_left(mark)
        ingest.kill()
    assert ended
    assert gone, [command_of(pid) for pid in left_of(mark)]
