"""Configs of MCP clients: every form of entry and reference, what is wrong with one, and what is never told."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from waygraph.ingest.manifest.environment import Surroundings
from waygraph.ingest.manifest.records import HttpLaunch, Intake, Launch, OAuthClient, ServerEntry, StdioLaunch
from waygraph.ingest.sources.formats import mcp_config
from waygraph.ingest.sources.kinds import kind_of
from waygraph.ingest.sources.read import read_path
from waygraph.registry.model.errors import SourceError
from waygraph.registry.model.settings import Settings

S = Settings()
AROUND = Surroundings(environ={"TOKEN": "t0", "EMPTY": "", "HOST": "example.com"}, home="/home/ann", cwd="/work/here")


def intake(where: str = "/etc/mcp.json", around: Surroundings = AROUND) -> Intake:
    return Intake(where=where, surroundings=around)


def asked(document: object, where: str = "/etc/mcp.json", around: Surroundings = AROUND) -> dict[str, ServerEntry]:
    """The servers that can be asked, none of which may be faulty."""
    taken = intake(where, around)
    entries = {entry.key: entry for entry in mcp_config.servers(document, where, taken)}
    assert taken.rejected == []
    return entries


def launched(entry: Mapping[str, object], where: str = "/etc/mcp.json", around: Surroundings = AROUND) -> Launch:
    return asked({"mcpServers": {"x": entry}}, where, around)["x"].launch


def faults(document: object, where: str = "/etc/mcp.json") -> dict[str, str]:
    """Key, or pointer where there is none → reason."""
    taken = intake(where)
    list(mcp_config.servers(document, where, taken))
    return {fault.key or fault.where.partition("#")[2]: fault.reason for fault in taken.rejected}


def fault(entry: object) -> str:
    return faults({"mcpServers": {"x": entry}})["x"]


def transports(document: object) -> dict[str, object]:
    """Key → transport as it would be kept."""
    taken = intake()
    for record in mcp_config.read(document, taken.where, taken):
        taken.take(record)
    return {entry.key: json.loads(entry.agent.transport) for entry in taken.entries}


SERVERS = {"time": {"command": "uvx", "args": ["mcp-server-time"]}}


@pytest.mark.parametrize(
    ("document", "kind"),
    [
        ({"name": "clerk", "tools": ["read", "write"], "mcpServers": SERVERS}, "mcp-config"),
        ({"tools": ["*"], "mcpServers": SERVERS}, "mcp-config"),
        ({"tools": [{"name": "read"}, "write"]}, "tools-list"),
        ({"tools": []}, "tools-list"),
    ],
)
def test_names_of_tools_that_an_agent_may_use_are_no_list_of_tools(document: object, kind: str) -> None:
    assert kind_of(document, "clerk.json").name == kind


@pytest.mark.parametrize(
    "entry",
    [
        {"enabled": False},
        {"disabled": True, "command": ""},
        {"isActive": False, "type": "inMemory"},
        {"source": "extension", "enabled": False},
    ],
)
def test_an_entry_that_is_off_is_no_fault_whatever_else_it_says(entry: object) -> None:
    document = {"mcpServers": {"x": entry, **SERVERS}}
    assert faults(document) == {}
    assert list(asked(document)) == ["time"]


@pytest.mark.parametrize("switch", [{"enabled": False}, {"disabled": True}, False, None])
def test_a_login_that_is_off_is_none(switch: object) -> None:
    launch = launched({"url": "https://tides.example/mcp", "oauth": switch})
    assert isinstance(launch, HttpLaunch)
    assert not launch.oauth


@pytest.mark.parametrize(
    "where",
    ["/home/ann/.copilot/mcp-config.json", "/work/crush.json", "/x/.crush.json", "/home/ann/.config/goose/config.yaml"],
)
def test_hosts_that_write_a_variable_without_braces(where: str) -> None:
    launch = launched({"url": "https://tides.example/mcp", "headers": {"Authorization": "Bearer $TOKEN"}}, where)
    assert isinstance(launch, HttpLaunch)
    assert launch.headers == {"Authorization": "Bearer t0"}


def test_an_address_and_its_login_by_the_names_of_other_hosts() -> None:
    launch = launched({"baseUrl": "https://tides.example/mcp", "bearerTokenEnv": "TOKEN"})
    assert isinstance(launch, HttpLaunch)
    assert (launch.url, launch.headers) == ("https://tides.example/mcp", {"Authorization": "Bearer t0"})


@pytest.mark.parametrize(
    ("document", "keys"),
    [
        ({"mcpServers": SERVERS}, ["time"]),
        ({"mcpServers": {}}, []),
        ({"servers": SERVERS, "inputs": []}, ["time"]),
        ({"servers": {}, "inputs": []}, []),
        ({"editor.fontSize": 12, "mcp": {"inputs": [], "servers": SERVERS}}, ["time"]),
        ({"mcp": {"servers": {}}}, []),
        ({"powers": {"mcpServers": SERVERS}, "mcpServers": {}}, ["time"]),
        ({"editor.tabSize": 2, "pier.mcpServers": SERVERS, "quay.advanced": {"mcpServers": []}}, ["time"]),
        ({"pier": {"mcpServers": [{"name": "time", **SERVERS["time"]}]}}, ["time"]),
        ({"name": "clerk", "tools": ["*"], "mcpServers": SERVERS}, ["time"]),
        ({"numStartups": 3, "mcpServers": SERVERS, "projects": {"/w/a": {"mcpServers": SERVERS}}}, ["time", "a/time"]),
        ({"projects": {"/w/a": {"mcpServers": SERVERS}, "/w/b": {"history": []}}}, ["a/time"]),
        ({"projects": {"/v/a": {"mcpServers": SERVERS}, "/w/a": {"mcpServers": SERVERS}}}, ["v/a/time", "w/a/time"]),
    ],
    ids=str,
)
def test_every_clients_file_is_read(document: object, keys: list[str]) -> None:
    """Claude Desktop, Claude Code with its projects, Cursor, VS Code's mcp.json and settings.json."""
    assert mcp_config.fits(document)
    assert list(transports(document)) == keys
    assert list(asked(document)) == keys


def test_comments_and_last_commas_are_read(tmp_path: Path) -> None:
    """As VS Code allows them; what looks like one within a string stays."""
    path = tmp_path / "mcp.json"
    path.write_text(
        '// mine\n{"servers": {\n  /* the\n one */ "a": {"url": "https://h/a//b?x=/*y*/",}, // last\n},}\n', "utf-8"
    )
    [manifest] = read_path(str(path), S)
    assert json.loads(manifest.entries[0].agent.transport)["url"].startswith("https://h/a//b?x=")


@pytest.mark.parametrize(
    ("entry", "launch"),
    [
        ({"command": "x"}, StdioLaunch(command="x")),
        ({"command": "x", "args": ["a", 8, True, 1.5]}, StdioLaunch(command="x", args=("a", "8", "true", "1.5"))),
        ({"type": "stdio", "command": "x", "url": "u"}, StdioLaunch(command="x")),
        (
            {"command": "x", "env": {"A": "b", "N": 1, "F": False, "GONE": None}},
            StdioLaunch(command="x", env={"A": "b", "N": "1", "F": "false"}),
        ),
        ({"command": "x", "cwd": "/srv"}, StdioLaunch(command="x", cwd="/srv")),
        ({"command": "x", "cwd": "sub"}, StdioLaunch(command="x", cwd="/work/here/sub")),
        ({"url": "https://h/mcp"}, HttpLaunch(url="https://h/mcp")),
        ({"url": "https://h/sse"}, HttpLaunch(url="https://h/sse", form="sse")),
        ({"url": "https://h/sse/?a=b"}, HttpLaunch(url="https://h/sse/?a=b", form="sse")),
        ({"url": "https://h/sse", "type": "http"}, HttpLaunch(url="https://h/sse")),
        ({"url": "https://h/x", "type": "sse"}, HttpLaunch(url="https://h/x", form="sse")),
        ({"url": "https://h", "type": "streamable-http"}, HttpLaunch(url="https://h")),
        ({"url": "https://h", "type": "streamableHttp"}, HttpLaunch(url="https://h")),
        ({"url": "https://h", "type": "HTTP", "command": "x"}, HttpLaunch(url="https://h")),
        (
            {"url": "https://h", "headers": {"A": "b", "N": 1}},
            HttpLaunch(url="https://h", headers={"A": "b", "N": "1"}),
        ),
        ({"url": "https://h", "oauth": {"scopes": []}}, HttpLaunch(url="https://h", oauth=True)),
        (
            {"url": "https://h", "oauth": {"client_id": "c", "clientSecret": "${TOKEN}", "callbackPort": 8123}},
            HttpLaunch(url="https://h", oauth=True, oauth_client=OAuthClient("c", "t0", 8123)),
        ),
    ],
    ids=str,
)
def test_an_entry_says_how_a_server_is_launched(entry: Mapping[str, object], launch: Launch) -> None:
    """By its type, else by what it has; numbers and booleans are their texts."""
    assert launched(entry) == launch


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        (5, "expected an object, found a number"),
        ({"url": "https://h", "oauth": {"clientId": "c", "callbackPort": 70000}}, "oauth: callbackPort is no port"),
        ({}, "has neither a `command` nor a `url`"),
        ({"command": "x", "url": "https://h"}, "has a `command` and a `url`; say by `type` which one counts"),
        ({"type": "http", "command": "x"}, "is of type http and has no `url`"),
        ({"type": "websocket", "url": "wss://h"}, "its type is not known; known: stdio, http, streamable-http, sse"),
        ({"type": 5, "command": "x"}, "its type is not known"),
        ({"command": [["npx"], "x"]}, "command: expected a string, found a list"),
        ({"command": "x", "args": "a b"}, "args: expected a list of strings, found a string"),
        ({"command": "x", "args": [{"a": 1}]}, "args: expected strings, found an object"),
        ({"command": "x", "args": [None]}, "args: expected strings, found null"),
        ({"command": "x", "env": ["A=b"]}, "env: expected an object, found a list"),
        ({"command": "x", "env": {"A": ["b"]}}, "env: expected strings, found a list"),
        ({"command": "x", "env": {"A=B": "c"}}, "env: holds a name that cannot be one"),
        ({"command": "x\x00y"}, "command: holds a null character"),
        ({"command": " "}, "its command is empty"),
        ({"url": "ftp://h"}, "its url is none that begins with https:// or http://"),
        ({"url": "https://"}, "its url is none that begins with https:// or http://"),
        ({"url": "https://[::1"}, "its url cannot be read"),
        ({"url": "https://h", "type": "http", "headers": "A: b"}, "headers: expected an object, found a string"),
    ],
    ids=str,
)
def test_a_faulty_entry_costs_itself_alone(entry: object, reason: str) -> None:
    """It is named with what is wrong; the others are asked, and what is held of it stays."""
    document = {"mcpServers": {"bad": entry, "good": {"command": "x"}}}
    taken = intake()
    assert [server.key for server in mcp_config.servers(document, taken.where, taken)] == ["good"]
    [rejected] = taken.rejected
    assert (rejected.where, rejected.key) == ("/etc/mcp.json#/mcpServers/bad", "bad")
    assert rejected.reason.startswith(reason)
    assert not taken.partial


def test_a_disabled_server_is_listed_and_not_asked() -> None:
    document = {
        "mcpServers": {
            "off": {"command": "x", "disabled": True, "env": {"A": "${UNSET}"}},
            "on": {"command": "y", "disabled": False},
        }
    }
    taken = intake()
    for record in mcp_config.read(document, taken.where, taken):
        taken.take(record)
    assert {entry.key: entry.agent.tags for entry in taken.entries} == {"off": ("disabled",), "on": ()}
    assert list(asked(document)) == ["on"]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("${TOKEN}", "t0"),
        ("${env:TOKEN}", "t0"),
        ("Bearer ${TOKEN}.", "Bearer t0."),
        ("${TOKEN}${HOST}", "t0example.com"),
        ("${EMPTY}", ""),
        ("${EMPTY:-d}", ""),
        ("${UNSET:-d}", "d"),
        ("${env:UNSET:-d}", "d"),
        ("${UNSET:-}", ""),
        ("${UNSET:-a:-b c}", "a:-b c"),
        ("${UNSET:-${TOKEN}/x}", "t0/x"),
        ("${UNSET:-${NEITHER:-z}}", "z"),
        ("${UNSET:-$TOKEN}", "$TOKEN"),
        ("$TOKEN", "$TOKEN"),
        ("$$ {TOKEN} }", "$$ {TOKEN} }"),
        ("%TOKEN%", "%TOKEN%"),
        ("${workspaceFolder}/x", "/work/here/x"),
        ("${workspaceRoot}", "/work/here"),
        ("${workspaceFolderBasename}", "here"),
        ("${userHome}", "/home/ann"),
        ("${cwd}", "/work/here"),
        ("a${pathSeparator}b${/}c", "a/b/c"),
    ],
)
def test_a_reference_means_what_its_host_says(written: str, meant: str) -> None:
    """In command, arguments, variables, working folder, address and headers alike."""
    stdio = launched({"command": f"x{written}", "args": [written], "env": {"A": written}})
    assert stdio == StdioLaunch(command=f"x{meant}", args=(meant,), env={"A": meant})
    http = launched({"url": f"https://h/{written}", "headers": {"A": written}})
    # An empty header is one that nobody gave.
    assert http == HttpLaunch(url=f"https://h/{meant}", headers={"A": meant} if meant else {})


def test_what_references_stood_for_is_confidential() -> None:
    """Wherever they stood, so that no message shows it; folders are none, nor what every error needs."""
    around = Surroundings(environ={"T": "t0", "HOME": "/home/ann", "WAYGRAPH_INPUT_K": "k0"}, cwd="/work/here")
    args = ["${T}", "${UNSET:-d0}", "${input:k}", "${HOME}", "${workspaceFolder}", "plain"]
    assert launched({"command": "x", "args": args}, around=around).confidential == {"t0", "d0", "k0"}
    assert launched({"url": "https://h/${T}"}, around=around).confidential == {"t0"}


@pytest.mark.parametrize(
    ("where", "folder"),
    [
        ("/w/shop/.mcp.json", "/w/shop"),
        ("/w/shop/.vscode/mcp.json", "/w/shop"),
        ("/w/shop/.cursor/mcp.json", "/w/shop"),
        (".mcp.json", "/work/here"),
        ("sub/.vscode/mcp.json", "/work/here/sub"),
    ],
)
def test_a_projects_config_means_its_project(where: str, folder: str) -> None:
    """`${workspaceFolder}` is where the file lies, not where we run; its servers start there as well."""
    assert launched({"command": "x", "args": ["${workspaceFolder}"]}, where) == StdioLaunch(
        command="x", args=(folder,), cwd=folder
    )


INPUTS = [
    {"id": "api-key", "type": "promptString", "password": True, "default": "never"},
    {"id": "region", "type": "pickString", "default": "eu"},
    {"id": 5, "default": "x"},
    "odd",
]


def test_an_input_comes_from_its_variable_or_its_default() -> None:
    document = {
        "inputs": INPUTS,
        "servers": {"a": {"type": "http", "url": "https://h/${input:region}", "headers": {"K": "${input:api-key}"}}},
    }
    around = Surroundings(environ={"WAYGRAPH_INPUT_API_KEY": "k0"})
    assert asked(document, around=around)["a"].launch == HttpLaunch(url="https://h/eu", headers={"K": "k0"})
    around = Surroundings(environ={"WAYGRAPH_INPUT_API_KEY": "k0", "WAYGRAPH_INPUT_REGION": "us"})
    assert asked(document, around=around)["a"].launch == HttpLaunch(url="https://h/us", headers={"K": "k0"})


def test_an_unset_variable_is_an_error_of_its_server_alone() -> None:
    document = {
        "mcpServers": {
            "a": {"command": "x", "args": ["${UNSET}"], "env": {"B": "${env:OTHER}", "C": "${UNSET}${TOKEN}"}},
            "b": {"command": "y"},
        }
    }
    assert faults(document) == {"a": "not set in the environment: UNSET, OTHER"}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("${", "holds a ${ that is not closed"),
        ("${TOKEN", "holds a ${ that is not closed"),
        ("${UNSET:-${TOKEN}", "holds a ${ that is not closed"),
        ("${}", "holds a ${…} of no form that is known"),
        ("${TO-KEN}", "holds a ${…} of no form that is known"),
        ("${TOKEN-x}", "holds a ${…} of no form that is known"),
        ("${command:pick.secret}", "holds ${command:…}, which only the editor can tell"),
        ("${config:a.b}", "holds ${config:…}, which only the editor can tell"),
        ("${workspaceFolder:other}", "holds ${workspaceFolder:…}, which only the editor can tell"),
        ("${A:-" * 40 + "}" * 40, "holds references within references, too deeply"),
        ("".join(f"${{V{number}}}" for number in range(9)), "not set in the environment: V0, V1, V2"),
    ],
)
def test_what_is_no_reference_is_an_error(text: str, reason: str) -> None:
    assert fault({"command": "x", "args": [text]}).startswith(reason)


def test_an_env_file_gives_variables_and_the_entry_overrides_them(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("# mine\nexport A=1\nB='two words'\nC=\"x\\ny\"\nD=${TOKEN}\nE\n", "utf-8")
    entry = {"command": "x", "envFile": "${workspaceFolder}/.env", "env": {"A": "own"}}
    around = Surroundings(environ={}, cwd=str(tmp_path))
    wanted = {"A": "own", "B": "two words", "C": "x\ny", "D": "${TOKEN}"}
    assert launched(entry, around=around) == StdioLaunch(command="x", env=wanted)
    assert launched({**entry, "envFile": ".env"}, around=around) == StdioLaunch(command="x", env=wanted)


def test_a_server_is_found_again_by_its_file_and_key(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_text(
        json.dumps(
            {
                "mcpServers": {
                    "a": {"command": "x", "env": {"T": "${TOKEN}"}},
                    "off": {"command": "x", "disabled": True},
                    "needs": {"command": "x", "env": {"T": "${UNSET}"}},
                }
            }
        )
    )
    found = mcp_config.config_entry(str(path), "a", S, AROUND)
    assert found.launch == StdioLaunch(command="x", env={"T": "t0"})
    for key, reason in {
        "b": "it is not listed there",
        "off": "it is switched off there",
        "needs": "not set in the environment: UNSET",
    }.items():
        with pytest.raises(SourceError, match=f"server '{key}': {reason}"):
            mcp_config.config_entry(str(path), key, S, AROUND)
    with pytest.raises(SourceError, match="No such file"):
        mcp_config.config_entry(str(tmp_path / "none"), "a", S, AROUND)
    path.write_text("[]")
    with pytest.raises(SourceError, match="is no client's config"):
        mcp_config.config_entry(str(path), "a", S, AROUND)


SECRET = "ghp_planted4SecretValue"  # noqa: S105
scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.just(SECRET) | st.text(max_size=4)
values = st.recursive(
    scalars | st.sampled_from(["${X}", "${X:-" + SECRET + "}", "${", "https://h", f"https://u:{SECRET}@h:x/", "x"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["command", "args", "env", "url", "headers", "type", "envFile", "cwd", "x", "disabled"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
tables = values | st.dictionaries(st.text(max_size=3) | st.just("a"), values, max_size=3)
documents = values | st.dictionaries(
    st.sampled_from(["mcpServers", "servers", "inputs", "mcp", "projects"]),
    tables | st.dictionaries(st.sampled_from(["servers", "/w/a", "inputs"]), tables, max_size=2),
    max_size=3,
)


@given(documents)
@example({"mcpServers": {"a": {"command": "x", "envFile": SECRET}}})
def test_whatever_a_file_holds_it_is_read_or_rejected_and_no_secret_told(document: Any) -> None:
    """Nothing raises; every reason is there, and none of them holds a value."""
    if not mcp_config.fits(document):
        return
    taken = intake()
    for record in mcp_config.read(document, taken.where, taken):
        taken.take(record)
    entries = list(mcp_config.servers(document, taken.where, taken))
    assert all(fault.reason and SECRET not in fault.reason for fault in taken.rejected)
    assert SECRET not in repr(entries)
