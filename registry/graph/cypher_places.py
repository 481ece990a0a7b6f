"""How many statements that people typed are at work at a time: each is a process with memory of its own."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from waygraph.registry.errors import CypherBusy, InvalidSetting
from waygraph.registry.settings import Settings


class CypherPlaces:
    """As many places as there may be workers of one registry. Threads share it."""

    def __init__(self, settings: Settings) -> None:
        """Raises InvalidSetting for less than one place, or a wait below zero."""
        self._allowed, self._wait_s = settings.cypher_workers, settings.cypher_wait_s
        if self._allowed < 1:
            raise InvalidSetting(f"WAYGRAPH_CYPHER_WORKERS must be 1 or more, not {self._allowed}")
        if not 0 <= self._wait_s <= threading.TIMEOUT_MAX:
            raise InvalidSetting(f"WAYGRAPH_CYPHER_WAIT_S must be 0 or more seconds, not {self._wait_s:g}")
        self._free = threading.BoundedSemaphore(self._allowed)

    @contextmanager
    def taken(self) -> Iterator[None]:
        """A place, given back however the block ends. Raises CypherBusy after `cypher_wait_s`."""
        if not self._free.acquire(timeout=self._wait_s):
            raise CypherBusy(self._allowed)
        try:
            yield
        finally:
            self._free.release()
