"""An MCP server of the handshake era that answers what no well-meaning server does.

Each tool's answer is written to the wire as it stands here: some of it no JSON library would write.
"""

import json
import sys
from typing import Any

from hostile_answers import ERRORS, NAMES, RESULTS, SAID  # type: ignore[import-not-found] # beside it: it runs as a program


def write(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def call(number: Any, params: dict[str, Any]) -> str:
    name = params["name"]
    if name in ERRORS:
        return f'{{"jsonrpc":"2.0","id":{number},"error":{ERRORS[name]}}}'
    if name in SAID:
        said = SAID[name].replace("%s", str(params["_meta"]["progressToken"]))
        write(f'{{"jsonrpc":"2.0",{said[1:]}')
    result = RESULTS.get(name, '{"content":[{"type":"text","text":"well"}]}')
    return f'{{"jsonrpc":"2.0","id":{number},"result":{result}}}'


def answer(message: dict[str, Any]) -> str:
    method, number = message.get("method"), message["id"]
    if method == "tools/call":
        return call(number, message["params"])
    told: dict[str, Any] = {"jsonrpc": "2.0", "id": number}
    if method == "initialize":
        version = message["params"]["protocolVersion"]
        info = {"name": "hostile", "version": "1"}
        told["result"] = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
    elif method == "tools/list":
        schema, reads = {"type": "object"}, {"readOnlyHint": True}
        tools = [
            {"name": name, "description": name, "inputSchema": schema, "annotations": reads}
            for name in (*NAMES, "well")
        ]
        told["result"] = {"tools": tools}
    else:
        told["error"] = {"code": -32601, "message": "no such method"}
    return json.dumps(told)


for line in sys.stdin:
    received = json.loads(line)
    if "id" in received and "method" in received:
        write(answer(received))
