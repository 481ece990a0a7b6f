"""The outside world → Manifest → graph: `sources` read, `sync` brings the registry in step, `ingest` does both.

The package may be called as its function: `waygraph.ingest` is either, whichever was imported first.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from waygraph.ingest.pipeline import ingest

__all__ = ["ingest"]


def __getattr__(name: str) -> object:
    """It brings every kind of source with it; who wants one module of this package need not wait for that."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.pipeline"), name)


def _call(package: ModuleType, *args: Any, **options: Any) -> Any:
    return package.ingest(*args, **options)


sys.modules[__name__].__class__ = type("CallablePackage", (ModuleType,), {"__call__": _call})
