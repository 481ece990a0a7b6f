"""Who is at work with something that is to be closed: the driver must not be closed under a thread that uses it."""

from threading import Condition
from types import TracebackType
from typing import Self

from waygraph.registry.errors import RegistryClosed


class Gate:
    """Entered by each thread for as long as it is at work; it may enter again. Once closed it lets nobody in."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._inside = 0
        self.closed = False

    def __enter__(self) -> Self:
        """Raises RegistryClosed."""
        with self._changed:
            if self.closed:
                raise RegistryClosed
            self._inside += 1
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._changed:
            self._inside -= 1
            self._changed.notify_all()

    def close(self, timeout_s: float) -> None:
        """Returns when nobody is inside any more, at the latest after this time."""
        with self._changed:
            self.closed = True
            self._changed.wait_for(lambda: not self._inside, timeout_s)
