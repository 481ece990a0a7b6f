"""The engines that are compared, and what each leaves beside its file."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.engines.kglite_engine import KGLiteEngine
from waygraph.registry.graph.grafeo import GrafeoEngine

FILE = "graph"


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """`open` takes a file to write, `open_copy` one to read; `secure` makes what is committed survive a power cut."""

    name: str
    open: Callable[[Path], Any]
    open_copy: Callable[[Path], Any]
    secure: Callable[[Any, Path], None]


def _sync_log(_engine: GrafeoEngine, file: Path) -> None:
    for path in file.with_name(f"{file.name}.wal").rglob("*"):
        with path.open("rb") as log:
            os.fsync(log.fileno())


def _sync_own_log(engine: KGLiteEngine, _file: Path) -> None:
    engine.secure()


CONTENDERS = {
    each.name: each
    for each in (
        Contender(name="Grafeo", open=GrafeoEngine.open, open_copy=GrafeoEngine.open_copy, secure=_sync_log),
        Contender(name="KGLite", open=KGLiteEngine.open, open_copy=KGLiteEngine.open_copy, secure=_sync_own_log),
    )
}
