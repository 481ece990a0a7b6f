"""Where a registry lives: a file with its index, or a graph server."""
