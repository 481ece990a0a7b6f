"""The way of one `waygraph ingest mcp.json` through the files: how many it enters, how often it returns to one.

`python -m scripts.trace_ingest`. The file names one real MCP server over stdio, with one tool. Each call of a function
of the product is a step; a step into another file than the last one, which was entered before, is a return. Functions
that Python itself makes (modules, lambdas, comprehensions) are left out.
"""

import contextlib
import io
import json
import os
import sys
import threading
from collections import defaultdict
from collections.abc import Callable
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType

from tests.architecture.tree import PARTS, ROOT

SERVER = '''
from mcp.server.mcpserver import MCPServer

server = MCPServer("teapot")


@server.tool()
def brew(tea: str) -> str:
    """Brew a cup of tea."""
    return tea


server.run()
'''
LINE = "{:34} {:>8} files entered {:>8} returns".format


def main() -> None:
    print(LINE("before, by the plan", 133, 636))
    print(LINE("before, waygraph ingest mcp.json", 157, 863))
    print(LINE("before, ingest(registry, ...)", 107, 754))
    with TemporaryDirectory() as name:
        folder = Path(name)
        config = folder / "mcp.json"
        (folder / "server.py").write_text(SERVER, encoding="utf-8")
        servers = {"teapot": {"command": sys.executable, "args": [str(folder / "server.py")]}}
        config.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
        os.environ |= {"WAYGRAPH_DATA_DIR": str(folder / "data"), "WAYGRAPH_EMBEDDER": "none"}
        print(LINE("now, waygraph ingest mcp.json", *trace(partial(ingest_by_command, folder / "a.grafeo", config))))
        print(LINE("now, ingest(registry, ...)", *trace(partial(ingest_by_call, folder / "b.grafeo", config))))
    print(LINE("asked", "<= 60", "<= 200"))


def ingest_by_command(registry: Path, config: Path) -> None:
    from waygraph.api.cli.app import main as waygraph

    with contextlib.redirect_stdout(io.StringIO()) as output:
        status = waygraph(["--registry", str(registry), "ingest", str(config)])
    if status or "1 created" not in output.getvalue():
        raise SystemExit(f"nothing was ingested: {output.getvalue()}")


def ingest_by_call(registry: Path, config: Path) -> None:
    from waygraph.ingest import ingest
    from waygraph.registry import Registry

    with Registry.open(registry) as opened:
        reports = ingest(opened, str(config))
    if len(reports) != 1:
        raise SystemExit(f"nothing was ingested: {reports}")


def trace(run: Callable[[], None]) -> tuple[int, int]:
    """Files of the product that `run` enters, and returns into one of them, over all threads."""
    steps: dict[int, list[str]] = defaultdict(list)

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and not code.co_name.startswith("<") and (file := product_file(code.co_filename)):
            steps[threading.get_ident()].append(file)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    entered: set[str] = set()
    returns = 0
    for way in steps.values():
        for before, file in pairwise(("", *way)):
            returns += file != before and file in entered
            entered.add(file)
    return len(entered), returns


@cache
def product_file(file: str) -> str:
    """Path of a file of the product from the root; empty for any other."""
    path = Path(file).resolve()
    part = path.relative_to(ROOT).parts[0] if path.is_relative_to(ROOT) else ""
    return str(path.relative_to(ROOT)) if part in PARTS else ""


if __name__ == "__main__":
    main()
