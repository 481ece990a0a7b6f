"""Hash-based synchronisation: a Manifest against the graph."""
