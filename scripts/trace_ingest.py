"""The way of one `waygraph ingest mcp.json` through the files: how many it enters, how often it returns to one.

`python -m scripts.trace_ingest` fails above LIMITS. `--pairs` lists where it turns back: from which file into which,
how often. The file names one real MCP server over stdio, with one tool. Each call of a function of the product is a
step; a step into another file than the last one, which was entered before, is a return. Functions that Python itself
makes (modules, lambdas, comprehensions) are left out.
"""

import argparse
import contextlib
import io
import json
import os
import sys
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import NamedTuple

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
PAIRS_SHOWN = 60


class Way(NamedTuple):
    """Files of the product that were entered, and how often each was entered again from another one."""

    files: int
    returns: Counter[tuple[str, str]]


class Limit(NamedTuple):
    files: int
    returns: int


TRIES = 5
"""So many runs are made until one is within the limits."""
LIMITS = {"waygraph ingest mcp.json": Limit(123, 970), "ingest(registry, ...)": Limit(85, 785)}
"""What is asked are 80 files and 400 returns; these only ever go down. A run differs from the next one by some ten
returns, since each wait for the server's process goes through all that waits: waits only add.
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", action="store_true", help="list the pairs of files with the most returns")
    parser.add_argument("--tries", type=int, default=TRIES, help="run anew above a limit, so often in all")
    options = parser.parse_args()
    with TemporaryDirectory() as name:
        ways = trace_both(Path(name))
    for entry, way in ways.items():
        limit = LIMITS[entry]
        print(LINE(entry, way.files, way.returns.total()), f" (at most {limit.files} and {limit.returns})")
        for (before, file), count in way.returns.most_common(PAIRS_SHOWN if options.pairs else 0):
            print(f"{count:6} {before} -> {file}")
    is_above = any(exceeds(way, LIMITS[entry]) for entry, way in ways.items())
    if is_above and options.tries > 1:
        sys.stdout.flush()
        again = ["-m", "scripts.trace_ingest", f"--tries={options.tries - 1}", *["--pairs"] * options.pairs]
        os.execv(sys.executable, [sys.executable, *again])  # noqa: S606 - a new process imports as the first one did
    return int(is_above)


def trace_both(folder: Path) -> dict[str, Way]:
    """By the command and by the function, in this order, since only the first one imports."""
    config = folder / "mcp.json"
    (folder / "server.py").write_text(SERVER, encoding="utf-8")
    servers = {"teapot": {"command": sys.executable, "args": [str(folder / "server.py")]}}
    config.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    os.environ |= {"WAYGRAPH_DATA_DIR": str(folder / "data"), "WAYGRAPH_EMBEDDER": "none"}
    command, function = LIMITS
    return {
        command: trace(partial(ingest_by_command, folder / "a.grafeo", config)),
        function: trace(partial(ingest_by_call, folder / "b.grafeo", config)),
    }


def exceeds(way: Way, limit: Limit) -> bool:
    return way.files > limit.files or way.returns.total() > limit.returns


def ingest_by_command(registry: Path, config: Path) -> None:
    from waygraph.api.cli.app import main as waygraph

    with contextlib.redirect_stdout(io.StringIO()) as output:
        status = waygraph(["--registry", str(registry), "ingest", str(config)])
    if status or "1 created" not in output.getvalue():
        raise SystemExit(f"nothing was ingested: {output.getvalue()}")


def ingest_by_call(registry: Path, config: Path) -> None:
    from waygraph.ingest import ingest
    from waygraph.registry.registry import Registry

    with Registry.open(registry) as opened:
        reports = ingest(opened, str(config))
    if len(reports) != 1:
        raise SystemExit(f"nothing was ingested: {reports}")


def trace(run: Callable[[], None]) -> Way:
    """Of all threads."""
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
    return way_of(steps.values())


def way_of(threads: Iterable[Sequence[str]]) -> Way:
    """Of the files that each thread stepped into."""
    entered: set[str] = set()
    returns = Counter[tuple[str, str]]()
    for steps in threads:
        for before, file in pairwise(("", *steps)):
            if file != before and file in entered:
                returns[before, file] += 1
            entered.add(file)
    return Way(len(entered), returns)


@cache
def product_file(file: str) -> str:
    """Path of a file of the product from the root; empty for any other."""
    path = Path(file).resolve()
    part = path.relative_to(ROOT).parts[0] if path.is_relative_to(ROOT) else ""
    return str(path.relative_to(ROOT)) if part in PARTS else ""


if __name__ == "__main__":
    sys.exit(main())
