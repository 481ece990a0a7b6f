"""The two pipes that a host started us with, taken from all that else would read and write them.

The SDK's transport over standard input and output takes files of any kind, and so reads and writes them in threads:
three changes of thread for each request, which is a large part of what a call costs, and a thread that nothing wakes
while it waits for the host's next line. What a host gives is nearly always a pair of pipes or sockets, which the event
loop itself waits for. For anything else (a terminal, a file) the SDK's transport is used.
"""

import os
import stat
import sys
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import IO

import anyio

from waygraph.ingest.upstream.pipe import Chunks, LinesOut, Pipe

INPUT, OUTPUT, ERRORS = 0, 1, 2


@dataclass(frozen=True, slots=True)
class HostPipes:
    """What the host writes, and the lines that it is to read."""

    asked: Chunks
    told: LinesOut


@asynccontextmanager
async def host_pipes() -> AsyncGenerator[HostPipes | None]:
    """None where they are no pipes.

    Meanwhile standard input is empty and standard output is where errors go, for us and for all that we start.
    """
    if not _is_apart(INPUT) or not _is_apart(OUTPUT):
        yield None
        return
    with _taken(INPUT, _nothing) as asked, _taken(OUTPUT, _errors) as told:
        pipes = HostPipes(Pipe(asked), LinesOut(Pipe(told), sys.stderr.flush))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(pipes.told.run)
            yield pipes
            pipes.asked.wake()
            tasks.cancel_scope.cancel()


def _is_apart(number: int) -> bool:
    """Whether it is a pipe or a socket, and none that standard error shares: what we do to it nobody else feels."""
    here, errors = os.fstat(number), os.fstat(ERRORS)
    is_shared = (here.st_dev, here.st_ino) == (errors.st_dev, errors.st_ino)
    return (stat.S_ISFIFO(here.st_mode) or stat.S_ISSOCK(here.st_mode)) and not is_shared


@contextmanager
def _taken(number: int, instead: Callable[[], int]) -> Iterator[IO[bytes]]:
    """The file that a standard stream is, under a number of its own; in its place stands another, until the end."""
    ours = os.fdopen(os.dup(number), "rb" if number == INPUT else "wb", buffering=0)
    _put(instead(), number)
    try:
        yield ours
    finally:
        os.set_blocking(ours.fileno(), True)
        os.dup2(ours.fileno(), number)
        ours.close()


def _put(descriptor: int, number: int) -> None:
    os.dup2(descriptor, number)
    os.close(descriptor)


def _nothing() -> int:
    return os.open(os.devnull, os.O_RDONLY)


def _errors() -> int:
    return os.dup(ERRORS)
