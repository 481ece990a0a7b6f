"""The commands `eval`, `generate`, `learn embedder`, `learn ranker` and `learn suspicion`."""
