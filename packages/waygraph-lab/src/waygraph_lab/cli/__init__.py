"""The commands `eval`, `generate`, `learn embedder` and `learn ranker`."""
