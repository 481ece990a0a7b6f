"""One module a kind of source. `open_source` finds the kind from what a person wrote."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from waygraph.ingest.sources.files import (
        documents,
        list_path,
        list_stream,
        read_documents,
        read_path,
        read_stream,
    )
    from waygraph.ingest.sources.reading import Listing

__all__ = ["Listing", "documents", "list_path", "list_stream", "read_documents", "read_path", "read_stream"]


def __getattr__(name: str) -> object:
    """These bring every kind of source with them; who wants one module of this package need not wait for that."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{'reading' if name == 'Listing' else 'files'}"), name)
