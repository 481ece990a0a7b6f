"""A server of one tool on standard input and output, by the standard library alone: it starts in an instant.

`CALLED` of its environment is what it calls itself, `ADVICE` ends its tool's description; each start adds a line to
the file `STARTED`.
"""

import json
import os
import sys


def answered(method: str, version: str) -> dict[str, object] | None:
    if method == "initialize":
        about = {"name": os.environ.get("CALLED", "tides"), "version": "1"}
        return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": about}
    if method == "tools/list":
        text = f"Tides at a harbour. {os.environ.get('ADVICE', '')}"
        return {"tools": [{"name": "tides", "description": text, "inputSchema": {"type": "object"}}]}
    if method == "tools/call":
        return {"content": [{"type": "text", "text": f"told by {os.getpid()}"}], "isError": False}
    return None


if started := os.environ.get("STARTED"):
    with open(started, "a") as file:
        print("started", file=file)
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        told = answered(message["method"], message.get("params", {}).get("protocolVersion", ""))
        answer = {"result": told} if told else {"error": {"code": -32601, "message": "unknown"}}
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}) + "\n")
        sys.stdout.flush()
