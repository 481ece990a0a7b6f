"""`make demo`: the example catalogue into a fresh registry, six requests routed, as a person would type it."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WAYGRAPH = Path(sys.executable).with_name("waygraph")
STYLE = re.compile(r"\x1b\[[0-9;]*m")
REGISTRY = Path(".demo/registry.grafeo")
REQUESTS = (
    "this SELECT on the orders table takes 40 seconds, why??",
    "make it cosy in the living room, warm colours, about a third of full brightness",
    # Two needs.
    "Get us a table for four at Casa Ondina on Friday at eight and put it in everybody's diary.",
    # The agent that fits has no tools.
    "My third chapter drags, and the detective sounds like a lawyer. Help!",
    "帮我看看单号 QN8831 的快递到哪儿了，今天能送到吗？",
    "Il me reste trois courgettes et un bout de chèvre, qu'est-ce que je peux faire ce soir ?",
)


def main() -> None:
    os.chdir(ROOT)
    shutil.rmtree(REGISTRY.parent, ignore_errors=True)
    REGISTRY.parent.mkdir()
    waygraph("ingest", "examples/catalog")
    for request in REQUESTS:
        waygraph("route", request, "--limit", "3")
    print(f"\nAsk it yourself:\n  {WAYGRAPH.relative_to(ROOT)} --registry {REGISTRY} route 'book a table for two'")


def waygraph(*arguments: str) -> None:
    """Runs the command and shows both, drawn as on a terminal also where there is none."""
    print(f"\n$ waygraph {' '.join(map(_quoted, arguments))}", flush=True)
    environ = {**os.environ, "WAYGRAPH_REGISTRY": str(REGISTRY)}
    command: list[str | Path] = [WAYGRAPH, *arguments]
    if sys.stdout.isatty():
        status = subprocess.run(command, env=environ, check=False).returncode
    else:
        status, shown = drawn(command, environ)
        print(shown, end="", flush=True)
    if status:
        sys.exit(status)


def drawn(command: Sequence[str | Path], environ: dict[str, str], *, errors: bool = False) -> tuple[int, str]:
    """Runs the command on a pseudo-terminal: its exit status, and what it shows, without colours.

    `errors`: what it writes to standard error is shown too, where it fails, and is not told elsewhere.
    """
    ours, theirs = os.openpty()
    environ = {**environ, "COLUMNS": "100", "TERM": "xterm"}
    stderr = subprocess.PIPE if errors else None  # some lines: the pipe holds them until the end
    process = subprocess.Popen(command, env=environ, stdin=subprocess.DEVNULL, stdout=theirs, stderr=stderr)
    os.close(theirs)
    shown = bytearray()
    while chunk := _read(ours):
        shown += chunk
    os.close(ours)
    lines = (STYLE.sub("", line).rstrip() for line in shown.decode().splitlines())
    _, said = process.communicate()
    shown_text = "".join(f"{line}\n" for line in lines)
    return process.returncode, shown_text + (said.decode() if said and process.returncode else "")


def _read(terminal: int) -> bytes:
    """What comes next; nothing at the end, which Linux tells by an error."""
    try:
        return os.read(terminal, 65_536)
    except OSError:
        return b""


def _quoted(argument: str) -> str:
    return f'"{argument}"' if " " in argument or not argument.isascii() else shlex.quote(argument)


if __name__ == "__main__":
    main()
