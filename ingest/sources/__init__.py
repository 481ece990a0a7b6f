"""One module a kind of source. `open_source` finds the kind from what a person wrote."""

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
