"""Entries of the MCP registry: every form of list and of server.json, what counts, and what is never told."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fake_mcp_registry import entry
from waygraph.ingest.manifest.environment import Surroundings
from waygraph.ingest.manifest.records import HttpLaunch, Intake
from waygraph.ingest.sources.formats import mcp_registry
from waygraph.ingest.sources.kinds import kind_of

HERE = "http://127.0.0.1:8000/v0.1/servers"
SECRET = "ghp_planted4SecretValue"  # noqa: S105


def taken(document: object, where: str = "list.json") -> Intake:
    intake = Intake(where=where)
    for record in mcp_registry.read(document, where, intake):
        intake.take(record)
    return intake


def transport(**server: object) -> Any:
    [found] = taken({"name": "a.b/c", "version": "1.0", "packages": [], **server}).entries
    return json.loads(found.agent.transport or "null")


def launches(*servers: Mapping[str, object], where: str = "list.json") -> dict[str, HttpLaunch]:
    intake = Intake(where=where)
    document = [{"name": f"a/{number}", **server} for number, server in enumerate(servers)]
    asked = {found.key: found.launch for found in mcp_registry.servers(document, where, intake)}
    return {key: launch for key, launch in asked.items() if isinstance(launch, HttpLaunch)}


TODAY = {"name": "io.example/shop", "description": "Sells", "version": "1.0.2", "packages": [{"registryType": "npm"}]}
OLDER = {
    "id": "4e9c",
    "name": "io.example/shop",
    "description": "Sells",
    "version_detail": {"version": "1.0.2", "release_date": "2025-05-16T18:56:49Z", "is_latest": True},
    "packages": [{"registry_name": "npm", "name": ""}],
}


def test_lists_within_lists_are_no_bomb() -> None:
    """An entry is read as far as one goes, however deep it is nested."""
    deep: object = "x"
    for _ in range(5_000):
        deep = [deep]
    assert mcp_registry.is_superseded({"server": {"name": "a/b", "packages": deep}, "_meta": deep}) is False


@pytest.mark.parametrize(
    "document",
    [
        TODAY,
        OLDER,
        {"$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json", **TODAY},
        [TODAY],
        [OLDER],
        ["odd", TODAY],
        {"server": TODAY, "_meta": {}},
        {"servers": [{"server": TODAY, "_meta": {}}], "metadata": {"count": 1}},
        {"servers": [TODAY], "metadata": {}},
        {"servers": [{"server": TODAY, "x-io.modelcontextprotocol.registry": {"is_latest": True}}]},
    ],
    ids=str,
)
def test_every_form_of_a_list_is_read(document: object) -> None:
    """One server.json or many, wrapped by the API or not, today's words or the older."""
    assert kind_of(document, "list.json").name == "mcp-registry"
    [found] = taken(document).entries
    agent = found.agent
    assert (found.key, agent.id, agent.name) == ("io.example/shop", "io.example.shop", "io.example/shop")
    assert (agent.description, agent.version, agent.kind, agent.tags) == ("Sells", "1.0.2", "mcp_server", ("npm",))
    assert found.tools == ()


def test_only_the_latest_version_of_a_name_counts() -> None:
    document = [
        entry("a/x", latest=False, at="2026-03-01", version="3.0.0-rc"),
        entry("a/x", latest=True, at="2026-02-01", version="2.0.0"),
        entry("a/x", latest=False, at="2026-01-01", version="1.0.0"),
        {**OLDER, "version_detail": {"version": "1", "release_date": "2025-01-01T00:00:00Z"}},
        {**OLDER, "version_detail": {"version": "2", "release_date": "2025-02-01T00:00:00Z"}},
        {**OLDER, "version_detail": {"version": "0", "release_date": "2024-02-01T00:00:00Z"}},
    ]
    intake = taken(document)
    assert {found.key: found.agent.version for found in intake.entries} == {"a/x": "2.0.0", "io.example/shop": "2"}
    assert intake.rejected == []


def test_what_was_deleted_is_gone_and_what_is_deprecated_is_marked() -> None:
    """By the latest version alone: an older one that was deleted says nothing of the agent."""
    document = [
        entry("a/dead", status="deleted", version="2"),
        entry("a/dead", latest=False, version="1"),
        entry("a/alive", version="2"),
        entry("a/alive", latest=False, status="deleted", version="1"),
        entry("a/old", status="deprecated", remotes=[{"type": "sse", "url": "https://h.example/sse"}]),
        {**TODAY, "name": "a/own-word", "status": "deprecated"},
    ]
    intake = taken(document)
    assert intake.gone == ["a/dead"]
    tags = {found.key: found.agent.tags for found in intake.entries}
    assert tags == {"a/alive": (), "a/old": ("deprecated", "remote"), "a/own-word": ("deprecated", "npm")}


@pytest.mark.parametrize(
    ("package", "kept"),
    [
        (
            {"registryType": "npm", "identifier": "@a/b", "version": "1.2"},
            {"command": "npx", "args": ["-y", "@a/b@1.2"]},
        ),
        ({"registry_name": "npm", "name": "b", "version": ""}, {"command": "npx", "args": ["-y", "b"]}),
        ({"registryType": "npm", "identifier": "@a/b@2"}, {"command": "npx", "args": ["-y", "@a/b@2"]}),
        ({"registryType": "pypi", "identifier": "b", "version": "1"}, {"command": "uvx", "args": ["b@1"]}),
        (
            {"registryType": "oci", "identifier": "ghcr.io/a/b:1", "environmentVariables": [{"name": "KEY"}]},
            {
                "command": "docker",
                "args": ["run", "-i", "--rm", "-e", "KEY", "ghcr.io/a/b:1"],
                "env": {"KEY": "${KEY}"},
            },
        ),
        ({"registry_name": "docker", "name": "a/b"}, {"command": "docker", "args": ["run", "-i", "--rm", "a/b"]}),
        ({"registryType": "nuget", "identifier": "B", "version": "1"}, {"command": "dnx", "args": ["--yes", "B@1"]}),
        (
            {"registryType": "mcpb", "identifier": "https://h/x.mcpb", "fileSha256": "ab"},
            {"package": {"registryType": "mcpb", "identifier": "https://h/x.mcpb", "fileSha256": "ab"}},
        ),
        (
            {"registry_name": "unknown", "name": "a/b", "version": ""},
            {"package": {"registryType": "unknown", "identifier": "a/b"}},
        ),
        ({"registryType": "npm", "identifier": "b", "runtimeHint": "rm -rf"}, {"command": "npx", "args": ["-y", "b"]}),
    ],
    ids=str,
)
def test_a_package_is_kept_as_the_command_that_runs_it(package: object, kept: object) -> None:
    """By the type of its registry; what nothing is known to run is kept as it is told."""
    assert transport(packages=[package]) == kept


@pytest.mark.parametrize(
    "place",
    [
        {"packages": [{"environmentVariables": [{"name": "A", "value": SECRET}]}]},
        {"packages": [{"environmentVariables": [{"name": "A", "default": SECRET, "isSecret": True}]}]},
        {"packages": [{"packageArguments": [{"type": "named", "name": "--x", "value": SECRET, "isSecret": True}]}]},
        {"packages": [{"packageArguments": [{"type": "named", "name": "--token", "value": SECRET}]}]},
        {"packages": [{"packageArguments": [{"type": "named", "name": "--t", "value": f"--token={SECRET}"}]}]},
        {"packages": [{"runtimeArguments": [{"type": "named", "name": "-e", "value": f"KEY={SECRET}"}]}]},
        {
            "packages": [
                {
                    "runtimeArguments": [
                        {
                            "type": "positional",
                            "value": "{k}",
                            "variables": {"k": {"isSecret": True, "default": SECRET}},
                        }
                    ]
                }
            ]
        },
        {
            "packages": [
                {"packageArguments": [{"type": "positional", "valueHint": "k", "isSecret": True, "default": SECRET}]}
            ]
        },
        {"remotes": [{"type": "http", "url": f"https://u:{SECRET}@h.example/mcp?k={SECRET}#{SECRET}"}]},
        {"remotes": [{"url": "https://h.example/{k}", "variables": {"k": {"isSecret": True, "default": SECRET}}}]},
        {"remotes": [{"url": "https://h.example", "headers": [{"name": "Auth", "value": f"Bearer {SECRET}"}]}]},
        {
            "remotes": [
                {
                    "url": "https://h.example",
                    "headers": [{"name": "X", "value": "Bearer {t}", "variables": {"t": {"default": SECRET}}}],
                }
            ]
        },
    ],
    ids=str,
)
def test_no_secret_of_an_entry_is_kept(place: Mapping[str, list[dict[str, object]]]) -> None:
    """Wherever an entry gives one: values, defaults, variables of variables, addresses."""
    packages = [{"registryType": "npm", "identifier": "b", **package} for package in place.get("packages", [])]
    intake = taken({"name": "a/b", "packages": packages, "remotes": place.get("remotes", [])})
    assert intake.entries[0].agent.transport
    assert SECRET not in repr(intake)
    asked = list(mcp_registry.servers({"name": "a/b", "remotes": place.get("remotes", [])}, "x", intake))
    assert SECRET not in repr(asked)


REMOTE = {"type": "streamable-http", "url": "https://h.example/mcp"}
CLOSED = {**REMOTE, "headers": [{"name": "Authorization", "isRequired": True, "isSecret": True}]}


@pytest.mark.parametrize(
    ("remotes", "launch"),
    [
        ([REMOTE], HttpLaunch(url="https://h.example/mcp")),
        ([{"type": "sse", "url": "https://h.example/x"}], HttpLaunch(url="https://h.example/x", form="sse")),
        ([{"transport_type": "sse", "url": "https://h.example/x"}], HttpLaunch(url="https://h.example/x", form="sse")),
        ([{"transport_type": "", "url": "https://h.example/sse"}], HttpLaunch(url="https://h.example/sse", form="sse")),
        ([{**REMOTE, "headers": [{"name": "A"}]}], HttpLaunch(url="https://h.example/mcp")),
        (
            [{**REMOTE, "headers": [{"name": "A", "default": "b", "isRequired": True}]}],
            HttpLaunch(url="https://h.example/mcp", headers={"A": "b"}),
        ),
        ([CLOSED], None),
        (
            [CLOSED, {"type": "sse", "url": "https://h.example/sse"}],
            HttpLaunch(url="https://h.example/sse", form="sse"),
        ),
        ([{"url": "https://{t}.example/"}], None),
        ([{"url": "https://{t}.example/", "variables": {"t": {"isRequired": True}}}], None),
        (
            [{"url": "https://{t}.example/", "variables": {"t": {"default": "eu"}}}],
            HttpLaunch(url="https://eu.example/"),
        ),
        ([{"url": "http://localhost:3000/sse"}], None),
        ([{"url": "http://127.0.0.1/mcp"}], None),
        ([{"url": "http://169.254.169.254/latest"}], None),
        ([{"url": "http://10.1.2.3/mcp"}], None),
        ([{"url": "http://[::1]/mcp"}], None),
        ([{"url": "http://[::ffff:10.1.2.3]/mcp"}], None),
        ([{"url": "http://127.1/mcp"}], None),
        ([{"url": "http://2130706433/mcp"}], None),
        ([{"url": "http://0x7f.1/mcp"}], None),
        ([{"url": "http://localhost./mcp"}], None),
        ([{"url": "http://8.8.8.8/mcp"}], HttpLaunch(url="http://8.8.8.8/mcp")),
        ([{"url": "http://printer.local/mcp"}], None),
        ([{"url": "https://[x/"}], None),
        ([{"url": "file:///etc/passwd"}], None),
        ([{"url": 5}], None),
        ([], None),
    ],
    ids=str,
)
def test_a_remote_is_open_if_nothing_that_it_requires_is_missing(remotes: object, launch: HttpLaunch | None) -> None:
    """And if it is no address of our own machine or network, which a list from elsewhere must not have us ask.

    Where a name leads is judged when it is looked up.
    """
    assert launches({"remotes": remotes}) == ({"a/0": replace(launch, public=True)} if launch else {})


def test_the_open_remote_is_how_it_is_kept() -> None:
    """What is asked and what is kept are one; then comes a package, then a remote that needs something."""
    npm = {"registryType": "npm", "identifier": "b"}
    assert transport(remotes=[CLOSED, REMOTE], packages=[npm]) == {"type": "http", "url": "https://h.example/mcp"}
    assert transport(remotes=[CLOSED], packages=[npm]) == {"command": "npx", "args": ["-y", "b"]}
    assert transport(remotes=[CLOSED]) == {
        "type": "http",
        "url": "https://h.example/mcp",
        "headers": {"Authorization": "${Authorization}"},
    }
    assert transport(remotes=[{"url": "http://localhost:3000/sse"}]) is None
    assert transport() is None


@pytest.mark.parametrize(
    ("wrong", "reason", "partial"),
    [
        (5, "expected an entry of the MCP registry, found a number", True),
        ({"server": 5}, "expected an entry of the MCP registry, found a number", True),
        ({"description": "x"}, "name: a name must be a non-empty string", True),
        (
            {"name": "", "description": "", "packages": [], "version_detail": {"is_latest": False}},
            "an empty entry",
            False,
        ),
        ({**TODAY, "name": "a/x", "description": 5}, "description: expected a string, found a number", False),
        ({**TODAY, "name": "a/x", "version": "\x00"}, "version: a name must not hold control characters", False),
    ],
    ids=str,
)
def test_a_faulty_entry_costs_itself_alone(wrong: object, reason: str, partial: bool) -> None:
    """Told with its place; only one that nobody can tell the agent of holds others back from being removed."""
    intake = taken([TODAY, wrong])
    assert [found.key for found in intake.entries] == ["io.example/shop"]
    [rejected] = intake.rejected
    assert rejected.where == "list.json#/1"
    assert rejected.reason.startswith(reason)
    assert intake.partial == partial


scalars = st.none() | st.booleans() | st.integers() | st.just(SECRET) | st.text(max_size=3)
FIELDS = (
    "name description version title status packages remotes registryType identifier environmentVariables url type "
    "packageArguments value default variables headers isRequired isSecret version_detail _meta server"
)
values = st.recursive(
    scalars | st.sampled_from(["npm", "https://{a}.example/mcp", "{a}", "named", "docker"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", *FIELDS.split()]), inner, max_size=5)
    ),
    max_leaves=20,
)


@given(values | st.lists(values, max_size=3) | st.fixed_dictionaries({"servers": st.lists(values, max_size=3)}))
def test_whatever_a_list_holds_it_is_read_or_rejected(document: Any) -> None:
    if not mcp_registry.fits(document):
        return
    intake = taken(document)
    list(mcp_registry.servers(document, HERE, intake))
    assert all(fault.reason and fault.where for fault in intake.rejected)


ASKS: Mapping[str, object] = {
    "url": "https://{tenant}.example/{area-code}/mcp",
    "variables": {"tenant": {"isRequired": True}, "area-code": {"default": "eu"}},
    "headers": [
        {"name": "X-Api-Key", "isRequired": True, "isSecret": True},
        {"name": "Authorization", "value": "Bearer {token}", "variables": {"token": {"isSecret": True}}},
        {"name": "X-Trace"},
    ],
}
GIVEN = {"tenant": "acme", "X_Api_Key": "key-4711", "token": "t-4711"}


@pytest.mark.parametrize(
    ("environ", "missing"),
    [
        ({}, "tenant, X_Api_Key, token"),
        ({"tenant": "acme", "token": "t-4711"}, "X_Api_Key"),
        (GIVEN, ""),
        ({**GIVEN, "X_Trace": "on"}, ""),
    ],
    ids=str,
)
def test_what_one_server_asks_for_is_taken_from_the_environment(environ: Mapping[str, str], missing: str) -> None:
    """By the names that the reference of each has; what is missing is named, and no variable is read for a list."""
    around = Surroundings(environ=environ)
    one = {"name": "a/b", "remotes": [ASKS]}
    intake = Intake(where="server.json", surroundings=around)
    asked = list(mcp_registry.servers(one, "server.json", intake))
    if missing:
        assert (asked, [each.reason for each in intake.cut]) == (
            [],
            [f"not asked: not set in the environment: {missing}"],
        )
    else:
        [server] = asked
        assert isinstance(server.launch, HttpLaunch)
        assert server.launch.url == "https://acme.example/eu/mcp"
        trace = {"X-Trace": "on"} if "X_Trace" in environ else {}
        assert server.launch.headers == {"X-Api-Key": "key-4711", "Authorization": "Bearer t-4711", **trace}
        assert {"key-4711", "t-4711"} <= server.launch.confidential
        assert "4711" not in repr(server)
    listed = Intake(where="server.json", surroundings=around)
    assert list(mcp_registry.servers([one], "server.json", listed)) == []
    assert not listed.cut
