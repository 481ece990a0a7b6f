"""What a host's first question would wait for, had before it comes: index, model, the check of arguments."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Thread

from waygraph.registry.arguments import check_arguments
from waygraph.registry.errors import WaygraphError
from waygraph.registry.model import Tool
from waygraph.registry.registry import Registry


@contextmanager
def loading(registry: Registry) -> Iterator[None]:
    """Loads in a thread while the block begins: what it imports meanwhile, the SDK above all, takes as long."""
    thread = Thread(target=_load, args=(registry,), name="load", daemon=True)
    thread.start()
    try:
        yield
    finally:
        thread.join()  # it uses the registry, which is closed next


def _load(registry: Registry) -> None:
    """Why something cannot be had is told to who asks for it."""
    with suppress(WaygraphError):
        if registry.exists:
            registry.route("are you ready")
        check_arguments(Tool(id="", agent_id="", name="", input_schema='{"type":"object"}'), {})
