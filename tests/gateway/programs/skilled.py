"""A server on the SDK that serves the skill of a folder by the extension of SEP-2640."""

import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

import anyio
from mcp import MCPError, types
from mcp.server import Server
from mcp.server.stdio import stdio_server

ROOT = Path(sys.argv[-1])
URI = "skill://house/pack/"


def entry() -> dict[str, Any]:
    resources = [
        {
            "uri": f"{URI}{path.relative_to(ROOT).as_posix()}",
            "digest": f"sha256:{sha256(path.read_bytes()).hexdigest()}",
            "size": path.stat().st_size,
        }
        for path in sorted(ROOT.rglob("*"))
        if path.is_file()
    ]
    front = {"name": "pack", "description": "How to pack boxes.", "allowed-tools": "tie"}
    return {"uri": f"{URI}SKILL.md", "frontmatter": front, "resources": resources}


async def list_skills(_: Any, __: Any) -> dict[str, Any]:
    astray = {**entry(), "uri": "skill://house/other/SKILL.md"}
    dynamic = {**entry(), "resources": "dynamic"}
    return {"resultType": "complete", "skills": [entry(), astray, dynamic, "none"], "ttlMs": 0, "cacheScope": "private"}


async def read_resource(_: Any, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
    path = ROOT / str(params.uri).removeprefix(URI)
    if not path.is_file():
        raise MCPError(code=types.INVALID_PARAMS, message="unknown resource")
    contents = types.TextResourceContents(uri=params.uri, text=path.read_text())
    return types.ReadResourceResult(contents=[contents])


async def list_tools(_: Any, __: Any) -> types.ListToolsResult:
    tool = types.Tool(name="tie", description="Tie a parcel with string.", input_schema={"type": "object"})
    return types.ListToolsResult(tools=[tool])


async def list_resources(_: Any, __: Any) -> types.ListResourcesResult:
    return types.ListResourcesResult(resources=[])


async def main() -> None:
    server: Server[Any] = Server(
        "skilled", on_list_tools=list_tools, on_read_resource=read_resource, on_list_resources=list_resources
    )
    server.extensions["io.modelcontextprotocol/skills"] = {}
    server.add_request_handler("skills/list", types.PaginatedRequestParams, list_skills)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    anyio.run(main)
