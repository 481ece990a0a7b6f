"""The outside world → Manifest → graph."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from waygraph.ingest.sources.files import read_path, read_stream
    from waygraph.ingest.sync import plan, sync

__all__ = ["plan", "read_path", "read_stream", "sync"]

_HOMES = {"plan": "sync", "sync": "sync", "read_path": "sources.files", "read_stream": "sources.files"}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
