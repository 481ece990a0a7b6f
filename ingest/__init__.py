"""The outside world → Manifest → graph: `sources` read, `sync` brings the registry in step, `ingest` does both."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from waygraph.ingest.pipeline import ingest

__all__ = ["ingest"]


def __getattr__(name: str) -> object:
    """It brings every kind of source with it; who wants one module of this package need not wait for that."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.pipeline"), name)
