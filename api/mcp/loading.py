"""What a host's first question would wait for, had before it comes: index and model; a little later what calls need."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread

from waygraph.registry.arguments import check_arguments
from waygraph.registry.errors import WaygraphError
from waygraph.registry.model import Tool
from waygraph.registry.registry import Registry

FIRST_QUESTIONS_S = 1.0
"""So long what only calls need waits: to import it meanwhile would hold up the first questions."""

_NOT_PLAIN = '{"type":"object","minProperties":0}'
"""Arguments of plain schemas are accepted without the library that is to be imported."""


@contextmanager
def loading(registry: Registry) -> Iterator[None]:
    """Loads in a thread while the block begins: what it imports meanwhile, the SDK above all, takes as long."""
    ended = Event()
    thread = Thread(target=_load, args=(registry, ended), name="load", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()  # it uses the registry, which is closed next


def _load(registry: Registry, ended: Event) -> None:
    """Why something cannot be had is told to who asks for it."""
    with suppress(WaygraphError):
        if registry.exists:
            registry.route("are you ready")
    if not ended.wait(FIRST_QUESTIONS_S):
        check_arguments(Tool(id="", agent_id="", name="", input_schema=_NOT_PLAIN), {})
