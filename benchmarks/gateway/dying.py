"""`python -m benchmarks.gateway.dying MARK NAME TOOLS`: the server of `upstream.py`, until a file MARK is there.

From then on each new start dies in the way that the file says: `exits` at once with a word on standard error, `silent`
reads all and answers nothing, `rubbish` writes lines that are no messages, `closes` its output and stays.
"""

import itertools
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import anyio

from benchmarks.gateway.upstream import serve


def exits() -> None:
    sys.exit("no licence was found")


def silent() -> None:
    for _ in sys.stdin:
        pass


def rubbish() -> None:
    for number in itertools.count():
        print(f"loading part {number}", flush=True)
        time.sleep(0.05)


def closes() -> None:
    os.close(1)
    silent()


WAYS: Mapping[str, Callable[[], None]] = {"exits": exits, "silent": silent, "rubbish": rubbish, "closes": closes}


def main(mark: str, name: str, tools: str) -> None:
    if Path(mark).exists():
        WAYS[Path(mark).read_text(encoding="utf-8")]()
    else:
        anyio.run(serve, name, int(tools))


if __name__ == "__main__":
    main(*sys.argv[1:4])
