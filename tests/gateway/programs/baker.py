"""An MCP server on the SDK whose tool `bake` runs as a task (SEP-2663), on stdio or, with a port, over HTTP.

Tasks are files in the folder at its first argument: they outlive the process. Each call is noted there.
"""

import json
import sys
import time
import uuid
from pathlib import Path
from typing import Any

import anyio
import uvicorn
from mcp import MCPError, types
from mcp.server import Server
from mcp.server.stdio import stdio_server
from pydantic import ConfigDict

TASKS = "io.modelcontextprotocol/tasks"
FOLDER = Path(sys.argv[1])
FORM = {"message": "Which flour?", "requestedSchema": {"type": "object", "properties": {"flour": {"type": "string"}}}}


class Params(types.RequestParams):
    model_config = ConfigDict(extra="allow")


def note(word: str) -> None:
    with (FOLDER / "notes.txt").open("a") as notes:
        notes.write(word + "\n")


def state(task_id: str, **more: Any) -> dict[str, Any]:
    file = FOLDER / f"{task_id}.json"
    if not file.exists():
        raise MCPError(code=-32602, message="Task not found")
    task = json.loads(file.read_text()) | more
    file.write_text(json.dumps(task))
    told: dict[str, Any] = {
        "taskId": task_id,
        "createdAt": "2026-11-25T10:30:00Z",
        "lastUpdatedAt": "2026-11-25T10:30:00Z",
    }
    told |= {"ttlMs": None, "pollIntervalMs": 100, "status": "working", "statusMessage": "in the oven"}
    if task.get("cancelled"):
        return told | {"status": "cancelled"}
    if task["asks"] and "flour" not in task:
        return told | {
            "status": "input_required",
            "inputRequests": {"f": {"method": "elicitation/create", "params": FORM}},
        }
    if time.time() < task["until"]:
        return told
    if task["fails"]:
        return told | {"status": "failed", "error": {"code": -32603, "message": "the oven broke"}}
    text = f"bread of {task.get('flour', 'rye')}"
    return told | {"status": "completed", "result": {"content": [{"type": "text", "text": text}], "isError": False}}


async def list_tools(_: Any, __: Any) -> types.ListToolsResult:
    reads = types.ToolAnnotations(read_only_hint=True)
    tool = types.Tool(name="bake", description="Bake bread.", input_schema={"type": "object"}, annotations=reads)
    return types.ListToolsResult(tools=[tool])


async def call_tool(ctx: Any, params: types.CallToolRequestParams) -> Any:
    if TASKS not in ((ctx.session.client_capabilities and ctx.session.client_capabilities.extensions) or {}):
        raise MCPError(code=-32021, message="Missing required client capability")
    asked, task_id = params.arguments or {}, str(uuid.uuid4())
    task = {"until": time.time() + asked.get("seconds", 0), "asks": "asks" in asked, "fails": "fails" in asked}
    (FOLDER / f"{task_id}.json").write_text(json.dumps(task))
    note("began")
    return {"resultType": "task", **state(task_id)}


async def get(_: Any, params: Any) -> Any:
    return state(params.taskId)


async def update(_: Any, params: Any) -> Any:
    state(params.taskId, flour=params.inputResponses["f"]["content"]["flour"])
    return {}


async def cancel(_: Any, params: Any) -> Any:
    state(params.taskId, cancelled=True)
    note("cancelled")
    return {}


def server() -> Server[Any]:
    made: Server[Any] = Server("baker", on_list_tools=list_tools, on_call_tool=call_tool)
    for name, handler in (("get", get), ("update", update), ("cancel", cancel)):
        made.add_request_handler(f"tasks/{name}", Params, handler)
    made.extensions[TASKS] = {}
    return made


async def main() -> None:
    of_stdio = server()
    async with stdio_server() as (reading, writing):
        await of_stdio.run(reading, writing, of_stdio.create_initialization_options())


if len(sys.argv) > 2:
    uvicorn.run(server().streamable_http_app(), port=int(sys.argv[2]), log_level="error")
else:
    anyio.run(main)
