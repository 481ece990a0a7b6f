"""The whole registry as one text: JSON that `waygraph ingest` reads, GraphML, or an HTML page."""
