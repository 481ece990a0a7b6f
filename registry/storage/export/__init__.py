"""The whole registry as one text: JSON that `waygraph ingest` reads, or an HTML page."""
