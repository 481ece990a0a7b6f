"""The registry as one text: JSON that `waygraph ingest` reads back, GraphML for other programs, a page for people."""

from waygraph.registry.export.formats import FORMATS, ExportFormat, export

__all__ = ["FORMATS", "ExportFormat", "export"]
