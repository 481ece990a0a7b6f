"""The core: graph, index, routing."""
