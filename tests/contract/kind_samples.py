"""A small document of every kind of source, in each of its forms, and what must come of it.

Of a new kind: one `Sample` here, and where there are real files of it, a line in `REAL_FILES`.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

type Place = tuple[str | int, ...]
"""The keys and positions that lead to a value in a document."""

PLANTED = "pl4nted-S3CRET"
"""Stands in the samples wherever a kind may write a secret."""


def as_json(document: Any, folder: Path) -> Path:
    path = folder / "source.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def as_lines(document: Any, folder: Path) -> Path:
    path = folder / "source.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in document), encoding="utf-8")
    return path


def as_skill(document: Any, folder: Path) -> Path:
    """`document`: path in the skill's folder → text."""
    for name, text in document.items():
        path = folder / "mooring" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder / "mooring"


@dataclass(frozen=True, kw_only=True)
class Sample:
    """`agents`: key → names of tools. `records`: place of a record in the parsed document → what it alone stands for,
    an agent's key or `key/tool`. `also`: kinds further down the table that would take it too. `secretless`: the form
    has no place where a secret may be written.
    """

    kind: str
    form: str = ""
    document: Any = field(repr=False)
    agents: Mapping[str, tuple[str, ...]]
    records: Mapping[Place, str]
    also: tuple[str, ...] = ()
    secretless: bool = False
    write: Callable[[Any, Path], Path] = as_json

    def __str__(self) -> str:
        return f"{self.kind} {self.form}".strip()


def _tool(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "description": f"Does {name}", "inputSchema": {"type": "object", "properties": {}}, **more}


_LAUNCH = {"command": "npx", "args": ["-y", "harbour", "--token", PLANTED], "env": {"API_KEY": PLANTED}}
_REMOTE = {"type": "http", "url": f"https://pier.example/mcp?key={PLANTED}", "headers": {"Authorization": PLANTED}}

CATALOGUE = Sample(
    kind="catalogue",
    document={
        "waygraph": 1,
        "agents": [
            {"id": "harbour", "description": "Ships", "transport": _LAUNCH, "tools": [_tool("moor"), _tool("tow")]},
            {"id": "pier", "transport": _REMOTE, "tags": ["sea"], "tools": []},
            {"id": "lock", "tools": [_tool("fill")]},
        ],
    },
    agents={"harbour": ("moor", "tow"), "pier": (), "lock": ("fill",)},
    records={
        ("agents", 0): "harbour",
        ("agents", 1): "pier",
        ("agents", 2): "lock",
        ("agents", 0, "tools", 0): "harbour/moor",
        ("agents", 0, "tools", 1): "harbour/tow",
    },
)

SKILL = Sample(
    kind="skill",
    document={
        "SKILL.md": "---\nname: mooring\ndescription: Moors ships. Use it at a quay.\n---\n# Mooring\n\nTie it.\n",
        "scripts/moor.py": '"""Moors a ship."""\n',
        "scripts/tow.sh": "#!/bin/sh\n# Tows a ship.\n",
    },
    agents={"mooring": ("moor.py", "tow.sh")},
    records={("scripts", 0): "mooring/moor.py", ("scripts", 1): "mooring/tow.sh"},
    secretless=True,
    write=as_skill,
)

_OPERATION = {"summary": "Moors a ship", "responses": {"200": {"description": "Done"}}}
OPENAPI = Sample(
    kind="openapi",
    form="3.1",
    document={
        "openapi": "3.1.0",
        "info": {"title": "Harbour", "version": "1", "description": "Ships"},
        "servers": [{"url": f"https://me:{PLANTED}@harbour.example/v1?key={PLANTED}"}],
        "paths": {
            "/ships": {
                "get": {**_OPERATION, "operationId": "listShips"},
                "post": {
                    **_OPERATION,
                    "operationId": "moorShip",
                    "requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Ship"}}}},
                },
            },
            "/ships/{id}": {
                "parameters": [{"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}],
                "delete": {**_OPERATION, "operationId": "sinkShip"},
            },
        },
        "components": {"schemas": {"Ship": {"type": "object", "properties": {"name": {"type": "string"}}}}},
    },
    agents={"Harbour": ("listShips", "moorShip", "sinkShip")},
    records={
        ("paths", "/ships", "get"): "Harbour/listShips",
        ("paths", "/ships", "post"): "Harbour/moorShip",
        ("paths", "/ships/{id}", "delete"): "Harbour/sinkShip",
    },
)
SWAGGER = Sample(
    kind="openapi",
    form="Swagger 2",
    document={
        "swagger": "2.0",
        "info": {"title": "Quay", "version": "1"},
        "host": f"me:{PLANTED}@quay.example",
        "basePath": "/v1",
        "schemes": ["https"],
        "paths": {
            "/berths": {
                "get": {**_OPERATION, "operationId": "listBerths"},
                "post": {
                    **_OPERATION,
                    "operationId": "addBerth",
                    "parameters": [{"name": "body", "in": "body", "schema": {"type": "object"}}],
                },
            }
        },
    },
    agents={"Quay": ("addBerth", "listBerths")},
    records={("paths", "/berths", "get"): "Quay/listBerths", ("paths", "/berths", "post"): "Quay/addBerth"},
)


def _skill(name: str) -> dict[str, Any]:
    return {"id": name, "name": name.title(), "description": f"Does {name}", "tags": ["sea"], "examples": [f"{name}?"]}


def _card(name: str, *skills: str) -> dict[str, Any]:
    return {
        "name": name,
        "description": f"The {name}",
        "version": "1.0.0",
        "supportedInterfaces": [
            {
                "url": f"https://me:{PLANTED}@{name}.example/a2a?key={PLANTED}",
                "protocolBinding": "JSONRPC",
                "protocolVersion": "1.0",
            }
        ],
        "capabilities": {"streaming": True},
        "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["text/plain"],
        "skills": [_skill(skill) for skill in skills],
    }


CARD = Sample(
    kind="a2a-card",
    form="one card",
    document=_card("harbour", "moor", "tow"),
    agents={"harbour": ("moor", "tow")},
    records={("skills", 0): "harbour/moor", ("skills", 1): "harbour/tow"},
)
CARDS = Sample(
    kind="a2a-card",
    form="list",
    document=[_card("harbour", "moor", "tow"), _card("pier", "stroll"), _card("lock", "fill")],
    agents={"harbour": ("moor", "tow"), "pier": ("stroll",), "lock": ("fill",)},
    records={(0,): "harbour", (1,): "pier", (2,): "lock", (0, "skills", 1): "harbour/tow"},
)
A2X_CARDS = Sample(
    kind="a2a-card",
    form="of an A2X registry",
    document=[
        {"id": f"agent-{name}", "type": "a2a", "name": name, "description": name, "metadata": _card(name, "moor")}
        for name in ("harbour", "pier", "lock")
    ],
    agents={"agent-harbour": ("moor",), "agent-pier": ("moor",), "agent-lock": ("moor",)},
    records={(0,): "agent-harbour", (1,): "agent-pier", (2,): "agent-lock"},
)

A2X_MIXED = Sample(
    kind="a2a-card",
    form="of an A2X registry, beside a service",
    document=[
        A2X_CARDS.document[0],
        {"id": "quay", "type": "generic", "name": "Quay", "description": "A service", "metadata": {}},
        A2X_CARDS.document[1],
    ],
    agents={"agent-harbour": ("moor",), "quay": (), "agent-pier": ("moor",)},
    records={(0,): "agent-harbour", (1,): "quay", (2,): "agent-pier"},
)

DOCKER_LIST = Sample(
    kind="docker-catalog",
    document=[
        {"name": "harbour", "title": "Harbour", "category": "sea", "tags": ["a"], "tools": [_tool("moor")]},
        {
            "name": "pier",
            "title": "Pier",
            "category": "",
            "tags": [],
            "tools": [
                {"name": "stroll", "arguments": [{"name": "to", "type": "string", "desc": "Whereto"}]},
                _tool("fish", annotations={"readOnlyHint": True}),
            ],
        },
        {"name": "lock", "title": "Lock", "tools": []},
    ],
    agents={"harbour": ("moor",), "pier": ("stroll", "fish"), "lock": ()},
    records={(0,): "harbour", (1,): "pier", (2,): "lock", (1, "tools", 0): "pier/stroll", (1, "tools", 1): "pier/fish"},
    secretless=True,
)
TOOLS_LIST = Sample(
    kind="tools-list",
    document={
        "jsonrpc": "2.0",
        "id": 1,
        "result": {"server": {"name": "harbour", "transport": _LAUNCH}, "tools": [_tool("moor"), _tool("tow")]},
    },
    agents={"harbour": ("moor", "tow")},
    records={("result", "tools", 0): "harbour/moor", ("result", "tools", 1): "harbour/tow"},
)

LIVEMCPBENCH = Sample(
    kind="livemcpbench",
    document=[
        {
            "name": name.title(),
            "description": f"The {name}",
            "category": "sea",
            "config": {"mcpServers": {name: _LAUNCH}},
            "tools": {name: {"tools": [_tool("moor"), _tool("tow")]}},
        }
        for name in ("harbour", "pier", "lock")
    ],
    agents={"harbour": ("moor", "tow"), "pier": ("moor", "tow"), "lock": ("moor", "tow")},
    records={
        (0,): "harbour",
        (1,): "pier",
        (2,): "lock",
        (1, "tools", "pier"): "pier",
        (2, "tools", "lock", "tools", 1): "lock/tow",
    },
)

DESKTOP_BUNDLE = Sample(
    kind="desktop-bundle",
    document={
        "manifest_version": "0.3",
        "name": "harbour",
        "description": "Ships",
        "server": {"type": "node", "mcp_config": _LAUNCH},
        "tools": [{"name": "moor", "description": "Does moor"}, {"name": "tow", "description": "Does tow"}],
    },
    agents={"harbour": ("moor", "tow")},
    records={("tools", 0): "harbour/moor", ("tools", 1): "harbour/tow"},
    also=("tools-list",),
)
MCP_CONFIG = Sample(
    kind="mcp-config",
    form="mcpServers",
    document={"mcpServers": {"harbour": _LAUNCH, "pier": _REMOTE, "lock": {"command": "uvx", "args": ["lock"]}}},
    agents={"harbour": (), "pier": (), "lock": ()},
    records={("mcpServers", "harbour"): "harbour", ("mcpServers", "pier"): "pier", ("mcpServers", "lock"): "lock"},
)
VS_CODE_CONFIG = Sample(
    kind="mcp-config",
    form="VS Code",
    document={
        "inputs": [{"id": "key", "type": "promptString", "password": True}],
        "servers": {"harbour": {"type": "stdio", **_LAUNCH}, "pier": _REMOTE, "lock": {"command": "uvx"}},
    },
    agents={"harbour": (), "pier": (), "lock": ()},
    records={("servers", "harbour"): "harbour", ("servers", "pier"): "pier", ("servers", "lock"): "lock"},
)


def _server(name: str) -> dict[str, Any]:
    return {
        "name": f"example.{name}/mcp",
        "description": f"The {name}",
        "version": "1.0.0",
        "packages": [
            {
                "registryType": "npm",
                "identifier": name,
                "version": "1.0.0",
                "transport": {"type": "stdio"},
                "packageArguments": [{"type": "named", "name": "--token", "value": PLANTED}],
                "environmentVariables": [{"name": "API_KEY", "isSecret": True, "value": PLANTED, "default": PLANTED}],
            }
        ],
        "remotes": [
            {
                "type": "streamable-http",
                "url": f"https://{name}.example/mcp",
                "headers": [{"name": "Authorization", "value": PLANTED}],
            }
        ],
    }


_OFFICIAL = "io.modelcontextprotocol.registry/official"
MCP_REGISTRY = Sample(
    kind="mcp-registry",
    form="page",
    document={
        "servers": [
            {"server": _server(name), "_meta": {_OFFICIAL: {"status": "active", "isLatest": True}}}
            for name in ("harbour", "pier", "lock")
        ],
        "metadata": {"count": 3},
    },
    agents={"example.harbour/mcp": (), "example.pier/mcp": (), "example.lock/mcp": ()},
    records={
        ("servers", 0): "example.harbour/mcp",
        ("servers", 1): "example.pier/mcp",
        ("servers", 2): "example.lock/mcp",
    },
)
MCP_REGISTRY_SEED = Sample(
    kind="mcp-registry",
    form="seed",
    document=[
        {
            "id": f"0000-{name}",
            "name": f"example.{name}/mcp",
            "description": f"The {name}",
            "repository": {"url": f"https://code.example/{name}", "source": "github", "id": "1"},
            "version_detail": {"version": "0.1", "is_latest": True},
            "packages": [
                {
                    "registry_name": "npm",
                    "name": name,
                    "version": "0.1",
                    "environment_variables": [{"name": "API_KEY", "value": PLANTED, "default": PLANTED}],
                }
            ],
        }
        for name in ("harbour", "pier", "lock")
    ],
    agents={"example.harbour/mcp": (), "example.pier/mcp": (), "example.lock/mcp": ()},
    records={(0,): "example.harbour/mcp", (1,): "example.pier/mcp", (2,): "example.lock/mcp"},
)

SERVICE_LIST = Sample(
    kind="service-list",
    document=[
        {"id": name, "type": "generic", "name": title, "description": "Ships", "metadata": {"inputSchema": {"a": {}}}}
        for name, title in (("harbour", "Harbour"), ("pier", "码头"), ("lock", "Lock"))
    ],
    agents={"harbour": (), "pier": (), "lock": ()},
    records={(0,): "harbour", (1,): "pier", (2,): "lock"},
    secretless=True,
)

SERVER_LINES = Sample(
    kind="server-lines",
    document=[
        {
            "name": name.title(),
            "url": f"https://me:{PLANTED}@code.example/{name}?key={PLANTED}#{PLANTED}",
            "description": f"The {name}",
            "category": "sea",
        }
        for name in ("harbour", "pier", "lock")
    ],
    agents={"code.example/harbour": (), "code.example/pier": (), "code.example/lock": ()},
    records={(0,): "code.example/harbour", (1,): "code.example/pier", (2,): "code.example/lock"},
    write=as_lines,
)

SAMPLES = (
    CATALOGUE,
    SKILL,
    OPENAPI,
    SWAGGER,
    CARD,
    CARDS,
    A2X_CARDS,
    A2X_MIXED,
    DOCKER_LIST,
    TOOLS_LIST,
    LIVEMCPBENCH,
    DESKTOP_BUNDLE,
    MCP_CONFIG,
    VS_CODE_CONFIG,
    MCP_REGISTRY,
    MCP_REGISTRY_SEED,
    SERVICE_LIST,
    SERVER_LINES,
)


@dataclass(frozen=True, kw_only=True)
class RealFile:
    """A file of the shared data, and what of it goes in."""

    path: str
    kind: str
    agents: int
    tools: int = 0
    rejected: int = 0

    def __str__(self) -> str:
        return self.path


# Seven entries of the registry's seed are empty: all their fields are.
REAL_FILES = (
    RealFile(path="livemcpbench/tools.json", kind="livemcpbench", agents=70, tools=527),
    RealFile(path="livemcpbench/mcp.json", kind="mcp-config", agents=70),
    RealFile(path="catalogs/docker_mcp_registry.json", kind="docker-catalog", agents=328, tools=755),
    RealFile(path="catalogs/awesome_mcp.jsonl", kind="server-lines", agents=7796),
    RealFile(path="catalogs/mcp_registry_seed.json", kind="mcp-registry", agents=464, rejected=7),
    RealFile(path="a2x/agent_cards_default.json", kind="a2a-card", agents=21, tools=51),
    RealFile(path="a2x/ToolRet_clean/service.json", kind="service-list", agents=1839),
    RealFile(path="a2x/ToolRet_clean_CN/service.json", kind="service-list", agents=1839),
    RealFile(path="a2x/publicMCP/service.json", kind="service-list", agents=1387),
    RealFile(path="a2x/publicMCP_CN/service.json", kind="service-list", agents=1387),
)
