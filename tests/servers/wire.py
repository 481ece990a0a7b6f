"""JSON-RPC over standard input and output, by hand: what a server of MCP says, byte for byte. Standard library alone.

`serve` answers a client of the handshake era; what a method answers is a function of its parameters.
"""

import json
import sys
from collections.abc import Callable, Mapping
from typing import Any

Json = Any
Answer = Callable[[dict[str, Json]], Json]

PROTOCOL = "2025-06-18"


class Refusal(Exception):
    """Becomes a JSON-RPC error."""

    def __init__(self, message: str, code: int = -32603) -> None:
        self.code = code
        super().__init__(message)


def tool(name: str, description: str = "", **more: Json) -> dict[str, Json]:
    return {
        "name": name,
        "description": description or f"The tool {name}.",
        "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}},
        **more,
    }


ALPHA, BETA = tool("alpha"), tool("beta")


def raw(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def say(message: Json) -> None:
    raw(json.dumps(message).encode() + b"\n")


def notify(method: str) -> None:
    say({"jsonrpc": "2.0", "method": method})


def hear() -> dict[str, Json] | None:
    """The next message; None once the client has gone."""
    line = sys.stdin.buffer.readline()
    return json.loads(line) if line else None


def greeting(**more: Json) -> dict[str, Json]:
    return {
        "protocolVersion": PROTOCOL,
        "capabilities": {"tools": {"listChanged": True}},
        "serverInfo": {"name": "misbehaving", "version": "1"},
        **more,
    }


def listing(*tools: Json, **more: Json) -> dict[str, Json]:
    return {"tools": list(tools or (ALPHA, BETA)), **more}


def reply(message: Mapping[str, Json], result: Json) -> None:
    say({"jsonrpc": "2.0", "id": message["id"], "result": result})


def refuse(message: Mapping[str, Json], refusal: Refusal) -> None:
    say({"jsonrpc": "2.0", "id": message["id"], "error": {"code": refusal.code, "message": str(refusal)}})


def answer(message: Mapping[str, Json], answers: Mapping[str, Answer]) -> None:
    """Answers a request with what its method gives; a greeting and a list of two tools where nothing else is said."""
    if "id" not in message or "method" not in message:
        return
    known: dict[str, Answer] = {"initialize": lambda _: greeting(), "tools/list": lambda _: listing(), **answers}
    method = message["method"]
    try:
        if method not in known:
            raise Refusal(f"Method not found: {method}", -32601)
        result = known[method](message.get("params") or {})
    except Refusal as refusal:
        refuse(message, refusal)
    else:
        reply(message, result)


def serve(answers: Mapping[str, Answer] | None = None) -> None:
    """Until the client has gone."""
    while (message := hear()) is not None:
        answer(message, answers or {})
