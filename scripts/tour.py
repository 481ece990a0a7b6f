"""`make docs`: runs every command of the README's console blocks, in order, and writes what it answers under it.

`tour.py --check` writes nothing; it fails if an answer differs in more than its numbers.
"""

import difflib
import os
import re
import shlex
import shutil
import sys
import tempfile

from demo import ROOT, WAYGRAPH, drawn

README = ROOT / "README.md"
BLOCK = re.compile(r"^```console\n\$ waygraph (?P<command>[^\n]*)\n(?P<answer>.*?)^```$", re.MULTILINE | re.DOTALL)


def main() -> None:
    before = README.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        shutil.copytree(ROOT / "examples", "examples")
        after = BLOCK.sub(answered, before)
    if "--check" not in sys.argv:
        README.write_text(after, encoding="utf-8")
    elif plain(before) != plain(after):
        sys.exit("\n".join(difflib.unified_diff(plain(before), plain(after), "README.md", "now", lineterm="")))


def answered(block: re.Match[str]) -> str:
    command = block["command"]
    environ = {**os.environ, "WAYGRAPH_REGISTRY": "tour.grafeo", "WAYGRAPH_CACHE_DIR": "cache"}
    status, shown = drawn([WAYGRAPH, *shlex.split(command)], environ)
    if status:
        sys.exit(f"{command}: exit {status}\n{shown}")
    answer = shown.strip("\n")
    return f"```console\n$ waygraph {command}\n{answer}\n```"


def plain(text: str) -> list[str]:
    """Lines in which numbers, also those drawn as bars, and the blanks and rules that depend on their width, do not
    count: the last digit of a score is the processor's.
    """
    return [re.sub(r"[ ─]+", " ", re.sub(r"\d+(\.\d+)?|█+", "0", line)).strip() for line in text.splitlines()]


if __name__ == "__main__":
    main()
