"""Named spans of the work that is going on, for whoever set a tracer; where nobody did, they cost next to nothing.

The core speaks of no tracing library. A span's attributes say how work is done (which recipe, how many rows), never
what was asked: they leave the machine.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

Attribute = str | bool | int | float


class Tracer(Protocol):
    """Makes spans; the one entered last, in the same context, is the parent. Threads may share it."""

    def span(self, name: str, attributes: Mapping[str, Attribute]) -> AbstractContextManager[object]: ...


_NO_SPAN = nullcontext()
_tracer: Tracer | None = None


def span(name: str, **attributes: Attribute) -> AbstractContextManager[object]:
    """A span that lasts as long as the context is entered."""
    return _NO_SPAN if _tracer is None else _tracer.span(name, attributes)


def set_tracer(tracer: Tracer | None) -> None:
    """Who makes the spans of this process from now on; None: nobody."""
    global _tracer  # noqa: PLW0603 - one a process, as a trace crosses every layer of it
    _tracer = tracer
