"""`make docs`: runs the examples of README.md and docs/tutorial.md in order, and writes each command's output under it.

A `console` block is run, a `python` block is executed, or saved as the file that its first line names. The model is
waygraph-minilm, from its folder. `tour.py --check` writes nothing; it fails if an output differs in more than its
numbers.
"""

import difflib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from demo import ROOT, WAYGRAPH, drawn

PAGES = (ROOT / "README.md", ROOT / "docs" / "tutorial.md")
BLOCK = re.compile(r"^```(?P<kind>console|python)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = "$ waygraph "
FILE = re.compile(r"# (?P<name>[\w-]+\.py)")


def main() -> None:
    for page in PAGES:
        before = page.read_text(encoding="utf-8")
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            shutil.copytree(ROOT / "examples", "examples")
            after = BLOCK.sub(run_block, before)
            os.chdir(ROOT)
        if "--check" not in sys.argv:
            page.write_text(after, encoding="utf-8")
        elif plain(before) != plain(after):
            sys.exit("\n".join(difflib.unified_diff(plain(before), plain(after), page.name, "now", lineterm="")))


def run_block(block: re.Match[str]) -> str:
    """The block as the page is to show it."""
    environ = {
        **os.environ,
        "PATH": f"{WAYGRAPH.parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT / "packages" / "waygraph-minilm"),
        "WAYGRAPH_REGISTRY": "tools.grafeo",
        "WAYGRAPH_CACHE_DIR": "cache",
    }
    text = block["text"]
    first = text.partition("\n")[0]
    if file := FILE.fullmatch(first):
        Path(file["name"]).write_text(text, encoding="utf-8")
    elif block["kind"] == "python":
        subprocess.run([sys.executable, "-c", text], env=environ, check=True, stdout=subprocess.DEVNULL)
    else:
        command = first.removeprefix(COMMAND)
        status, shown = drawn([WAYGRAPH, *shlex.split(command)], environ, errors=True)
        if status and "\nerror: " not in f"\n{shown}":
            sys.exit(f"{command}: exit {status}\n{shown}")
        return "```console\n{}{}\n{}\n```".format(COMMAND, command, shown.strip("\n"))
    return block[0]


def plain(text: str) -> list[str]:
    """Lines in which numbers, also those drawn as bars, and the blanks and rules that depend on their width, do not
    count: the last digit of a score is the processor's.
    """
    return [re.sub(r"[ ─]+", " ", re.sub(r"\d+(\.\d+)?|█+", "0", line)).strip() for line in text.splitlines()]


if __name__ == "__main__":
    main()
