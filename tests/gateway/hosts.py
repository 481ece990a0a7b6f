"""Hosts for tests: the SDK's client in both eras, over standard input and over HTTP."""

import json
import os
import ssl
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from waygraph.api.cli.app import main

Era = Literal["auto", "legacy"]
ERAS: tuple[Era, ...] = ("auto", "legacy")
"""As the SDK names them: of two sides that can, `auto` is the modern one."""
PROGRAM = Path(__file__).parent / "programs" / "toolbox.py"
PATIENCE_S = 60.0


@dataclass(frozen=True)
class Place:
    """A registry in a folder of its own. `notes`: what its server was told, a line each."""

    folder: Path

    @property
    def registry(self) -> Path:
        return self.folder / "r.grafeo"

    @property
    def notes(self) -> list[str]:
        noted = self.folder / "notes.txt"
        return noted.read_text().splitlines() if noted.exists() else []

    @property
    def audit(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.folder / "audit.jsonl").read_text().splitlines()]


def toolbox_place(folder: Path) -> Place:
    """The server `box` in a config, and its registry."""
    place = Place(folder)
    command = {"command": sys.executable, "args": [str(PROGRAM), str(folder / "notes.txt")]}
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": {"box": command}}))
    assert ingest(place, str(folder / "mcp.json")) == 0
    return place


def ingest(place: Place, *arguments: str) -> int:
    return main(["--registry", str(place.registry), "--embedder", "none", "ingest", *arguments])


def on_stdio(place: Place, *options: str, **environ: str) -> StdioServerParameters:
    """`waygraph mcp` as a host starts it."""
    return StdioServerParameters(
        command=sys.executable,
        args=["-W", "error", "-m", "waygraph.api.cli.app", "--registry", str(place.registry), "mcp", *options],
        env={
            "XDG_DATA_HOME": os.environ["XDG_DATA_HOME"],
            "WAYGRAPH_AUDIT_FILE": str(place.folder / "audit.jsonl"),
            "WAYGRAPH_EMBEDDER": "none",
            **environ,
        },
    )


Open = Callable[..., Any]
"""`(era, **callbacks)` → an asynchronous context with the client; untyped, since its results are unions."""


def opened_by(door: str, url: str, launch: StdioServerParameters) -> Open:
    """Hosts that come over HTTP to the address, or else start the launch."""

    def opened(era: Era, **more: Any) -> AbstractAsyncContextManager[Client]:
        return over_http(url, era, **more) if door == "http" else Client(launch, mode=era, **more)

    return opened


@asynccontextmanager
async def over_http(
    url: str, era: Era = "auto", *, key: str = "", trusts: ssl.SSLContext | bool = True, **more: Any
) -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    async with (
        httpx2.AsyncClient(headers=headers, verify=trusts, timeout=PATIENCE_S) as http,
        Client(streamable_http_client(url, http_client=http), mode=era, **more) as client,
    ):
        yield client


def told(result: Any) -> dict[str, Any]:
    """What a meta-tool answered."""
    assert not result.is_error, result.content
    assert len(result.content) == 1
    answer: dict[str, Any] = json.loads(result.content[0].text)
    return answer


def error_of(result: Any) -> dict[str, Any]:
    """The one shape of errors, which is the same in both places."""
    assert result.is_error
    assert json.loads(result.content[0].text) == result.structured_content
    error: dict[str, Any] = result.structured_content["error"]
    assert error["type"] == f"urn:waygraph:problem:{error['code']}"
    assert error["message"]
    assert error["retryable"] in (True, False)
    return error


def names(found: Mapping[str, Any]) -> Iterator[str]:
    return (tool["name"] for tool in found["tools"])
