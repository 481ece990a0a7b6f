"""A server of the handshake era on stdio that answers as its file says: `python scripted_server.py FILE`.

The file is JSON: `results` by method, `calls` by name of the tool, each with `result` or `error` and, before it, the
messages of `first`, in which TOKEN stands for the call's progress token. A tool without either returns its arguments.
"""

import json
import sys
from pathlib import Path
from typing import Any

CAPABILITIES: dict[str, Any] = {"tools": {}, "prompts": {}, "resources": {}, "logging": {}, "completions": {}}


def answer(script: dict[str, Any], method: str, params: dict[str, Any]) -> dict[str, Any]:
    if method == "initialize":
        server = {"name": "scripted", "version": "1"}
        return {"result": {"protocolVersion": "2025-06-18", "capabilities": CAPABILITIES, "serverInfo": server}}
    if method != "tools/call":
        return {"result": script["results"].get(method, {})}
    call = script["calls"].get(params["name"], {})
    token = json.dumps(params.get("_meta", {}).get("progressToken"))
    for message in call.get("first", []):
        write(json.dumps({"jsonrpc": "2.0", **message}).replace('"TOKEN"', token))
    echo = {"content": [{"type": "text", "text": json.dumps(params["arguments"], sort_keys=True)}]}
    return {key: call[key] for key in ("result", "error") if key in call} or {"result": echo}


def write(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    script = json.loads(Path(sys.argv[1]).read_text())
    for line in sys.stdin:
        asked = json.loads(line)
        if "method" in asked and "id" in asked:
            told = answer(script, asked["method"], asked.get("params", {}))
            write(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **told}))


if __name__ == "__main__":
    main()
