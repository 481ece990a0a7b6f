"""An event loop in whose time nothing but waiting passes: for what is all in memory, and would race a real clock."""

import asyncio
import selectors
from typing import Final


class _Skipping(selectors.DefaultSelector):
    """Waits for nothing: what it was to wait is past at once."""

    passed_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(None if timeout is None else 0)
        if not ready and timeout:
            self.passed_s += timeout
        return ready


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._skipping = _Skipping()
        super().__init__(self._skipping)

    def time(self) -> float:
        return self._skipping.passed_s


MOVED_TIME: Final = ("asyncio", {"loop_factory": _Loop})
"""A backend of tests in such a loop: deadlines and pauses keep their order however slow the machine is."""
