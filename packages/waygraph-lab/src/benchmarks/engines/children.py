"""Child processes that end as they may: with an answer, with an error, killed, or by dying."""

import multiprocessing
import os
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from waygraph.registry.model.errors import WaygraphError

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["benchmarks.engines.contents", "grafeo", "kglite"])


@dataclass(frozen=True, slots=True)
class Ended:
    """`how`: answered, refused (by an error of ours), raised (another), hung (and was killed), died."""

    how: str
    value: Any = None


def in_child(program: Callable[..., object], *args: object, timeout_s: float = 120.0) -> Ended:
    """Runs `program(*args)` in a process of its own."""
    ours, theirs = CONTEXT.Pipe()
    process = CONTEXT.Process(target=_answer, args=(theirs, program, args))
    process.start()
    theirs.close()
    try:
        if ours.poll(timeout_s):
            return Ended(*ours.recv())
        return Ended("hung")
    except EOFError:
        process.join()
        return Ended("died", process.exitcode)
    finally:
        process.kill()
        process.join()
        ours.close()


def _answer(pipe: Connection, program: Callable[..., object], args: tuple[object, ...]) -> None:
    with open(os.devnull, "wb") as nowhere:  # an engine that panics writes its stack
        os.dup2(nowhere.fileno(), 2)
    try:
        pipe.send(("answered", program(*args)))
    except WaygraphError as error:
        pipe.send(("refused", str(error)))
    except BaseException as error:  # noqa: BLE001 - a panic is no Exception, and all of them are findings
        pipe.send(("raised", f"{type(error).__name__}: {error}"[:500]))
