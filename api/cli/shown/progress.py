"""A progress bar on stderr, for a person who waits: only on a terminal, only when work takes a while."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


@contextmanager
def progress_bar(what: str, after_s: float) -> Iterator[Callable[[int, int], None]]:
    """Gives the function to tell (done, in all). The bar comes after `after_s` and goes at the end."""
    if not sys.stderr.isatty():
        yield lambda done, total: None  # noqa: ARG005
        return
    bar = _Bar(what, time.monotonic() + after_s)
    try:
        yield bar.tell
    finally:
        bar.stop()


class _Bar:
    def __init__(self, what: str, starts_at: float) -> None:
        self._what, self._starts_at = what, starts_at
        self._drawn: tuple[Progress, TaskID] | None = None

    def tell(self, done: int, total: int) -> None:
        if time.monotonic() < self._starts_at:
            return
        progress, task = self._drawn or self._start()
        progress.update(task, completed=done, total=total)

    def _start(self) -> "tuple[Progress, TaskID]":
        from rich.console import Console
        from rich.progress import Progress

        progress = Progress(console=Console(stderr=True), transient=True)
        progress.start()
        self._drawn = (progress, progress.add_task(self._what))
        return self._drawn

    def stop(self) -> None:
        if self._drawn:
            self._drawn[0].stop()
