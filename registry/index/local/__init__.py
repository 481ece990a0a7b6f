"""The index of the embedded engine: immutable generations beside the graph file."""
