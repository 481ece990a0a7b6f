"""An MCP server of 2025-11-25 without an SDK, whose one tool runs as a task alone. It notes what it is asked."""

import json
import sys
from itertools import count
from pathlib import Path
from typing import Any

TOOL = {"name": "bake", "inputSchema": {"type": "object"}, "execution": {"taskSupport": "required"}}
CAPABILITIES: dict[str, Any] = {"tools": {}, "tasks": {"cancel": {}, "requests": {"tools": {"call": {}}}}}
SAID = {"protocolVersion": "2025-11-25", "capabilities": CAPABILITIES, "serverInfo": {"name": "oven", "version": "1"}}
TIME = "2025-11-25T10:30:00Z"
looks = count(1)


def task(look: int) -> dict[str, Any]:
    status = "completed" if look and not look % 2 else "working"
    return {"taskId": "t", "status": status, "createdAt": TIME, "lastUpdatedAt": TIME, "ttl": None, "pollInterval": 50}


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    if method in ("tools/call", "tasks/get", "tasks/result"):
        with Path(sys.argv[1]).open("a") as notes:
            notes.write(method + "\n")
    match method:
        case "tools/call" if "task" in params:
            return {"result": {"task": task(0)}}
        case "tools/call" | "server/discover":
            return {"error": {"code": -32601, "message": "as a task"}}
        case "tasks/get":
            return {"result": task(next(looks))}
        case "tasks/result":
            return {"result": {"content": [{"type": "text", "text": "rolls"}]}}
    return {"result": SAID if method == "initialize" else {"tools": [TOOL]}}


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        said = {"jsonrpc": "2.0", "id": message["id"], **answer(message["method"], message.get("params", {}))}
        sys.stdout.write(json.dumps(said) + "\n")
        sys.stdout.flush()
