"""An MCP server without an SDK, of the handshake era, so that what it sends is exactly what stands here.

Its first argument is a file to which it notes what it is told.
"""

import json
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

READS = {"readOnlyHint": True}
ANY = {"type": "object", "additionalProperties": True}
ADD = {
    "type": "object",
    "required": ["a", "b"],
    "properties": {"b": {"type": "integer", "x-mcp-header": "B"}, "a": {"type": "integer"}},
}
TOOLS: list[dict[str, Any]] = [
    {"name": "add", "description": "Add two whole numbers.", "inputSchema": ADD, "annotations": READS},
    {"name": "erase", "description": "Delete a file.", "inputSchema": ANY, "annotations": {"destructiveHint": True}},
    {"name": "paint", "description": "Paint a picture of a place.", "inputSchema": ANY, "annotations": READS},
    {"name": "wait", "description": "Wait until the clock strikes.", "inputSchema": ANY, "annotations": READS},
    {"name": "tell", "description": "Tell how far it is.", "inputSchema": ANY, "annotations": READS},
    {"name": "ask", "description": "Ask a person for a colour.", "inputSchema": ANY, "annotations": READS},
    {"name": "fail", "description": "Fail to open a door.", "inputSchema": ANY, "annotations": READS},
    {"name": "refuse", "description": "Refuse by an error of MCP.", "inputSchema": ANY, "annotations": READS},
]
PICTURE: dict[str, Any] = {
    "content": [
        {"type": "image", "data": "aGk=", "mimeType": "image/png", "annotations": {"priority": 1}, "camera": "box"},
        {"type": "resource", "resource": {"uri": "file:///harbour.txt", "text": "low tide"}},
        {"type": "hologram", "depth": 3},
    ],
    "structuredContent": {"z": 1, "a": [None, 2]},
    "_meta": {"example.org/brush": "wide"},
    "signature": "toolbox",
}

lock = threading.Lock()
answers: dict[str, Any] = {}
arrived = threading.Condition()


def send(message: dict[str, Any]) -> None:
    with lock:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def note(said: str) -> None:
    with lock, Path(sys.argv[1]).open("a") as notes:
        notes.write(said + "\n")


def asked(method: str, params: dict[str, Any]) -> dict[str, Any]:
    send({"id": method, "method": method, "params": params})
    with arrived:
        arrived.wait_for(lambda: method in answers)
        return dict(answers.pop(method))


def add(params: dict[str, Any]) -> dict[str, Any]:
    total = params["arguments"]["a"] + params["arguments"]["b"]
    time.sleep(params["arguments"].get("after_s", 0))
    return {"content": [{"type": "text", "text": str(total)}], "structuredContent": {"total": total}}


def erase(params: dict[str, Any]) -> dict[str, Any]:
    note("erased")
    return {"content": [{"type": "text", "text": "gone"}]}


def tell(params: dict[str, Any]) -> dict[str, Any]:
    token = params["_meta"]["progressToken"]
    for step in (1, 2):
        told = {"progressToken": token, "progress": step, "total": 2, "message": f"step {step}"}
        send({"method": "notifications/progress", "params": told})
        for level in ("debug", "warning"):
            logged = {"level": level, "logger": "box", "data": {"step": step}}
            send({"method": "notifications/message", "params": logged})
    return {"content": []}


def ask(params: dict[str, Any]) -> dict[str, Any]:
    properties = {"colour": {"type": "string"}}
    question = {"message": "Which colour?", "requestedSchema": {"type": "object", "properties": properties}}
    return {"content": [{"type": "text", "text": json.dumps(asked("elicitation/create", question), sort_keys=True)}]}


def fail(params: dict[str, Any]) -> dict[str, Any]:
    words = params["arguments"].get("words", "the door is locked")
    return {"content": [{"type": "text", "text": words}], "isError": True}


WAYS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "add": add,
    "erase": erase,
    "paint": lambda _: PICTURE,
    "tell": tell,
    "ask": ask,
    "fail": fail,
}


def call(number: Any, params: dict[str, Any]) -> None:
    if params["name"] == "wait":
        note("waits")  # and never answers
    elif params["name"] == "refuse":
        error = {"code": params["arguments"].get("code", 1234), "message": "no paper left", "data": {"tray": 2}}
        send({"id": number, "error": error})
    else:
        send({"id": number, "result": WAYS[params["name"]](params)})


def answer(message: dict[str, Any]) -> None:
    method, number = message.get("method"), message.get("id")
    if method == "initialize":
        info = {"name": "toolbox", "version": "1"}
        version = message["params"]["protocolVersion"]
        abilities: dict[str, Any] = {"tools": {}, "logging": {}}
        send({"id": number, "result": {"protocolVersion": version, "capabilities": abilities, "serverInfo": info}})
    elif method == "tools/list":
        send({"id": number, "result": {"tools": TOOLS}})
    elif method == "tools/call":
        threading.Thread(target=call, args=(number, message["params"]), daemon=True).start()
    elif method == "notifications/cancelled":
        note("cancelled")
    elif method is None:
        with arrived:
            answers[str(number)] = message.get("result", message.get("error"))
            arrived.notify_all()
    elif number is not None and method == "logging/setLevel":
        note(f"level {message['params']['level']}")
        send({"id": number, "result": {}})
    elif number is not None:
        send({"id": number, "error": {"code": -32601, "message": "no such method"}})


if __name__ == "__main__":
    for line in sys.stdin:
        answer(json.loads(line))
