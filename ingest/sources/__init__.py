"""One module a kind of source. `open_source` finds the kind from what a person wrote."""

from waygraph.ingest.sources.files import read_documents, read_path, read_stream

__all__ = ["read_documents", "read_path", "read_stream"]
