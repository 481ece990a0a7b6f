"""Where a registry is stored: a file with its index, or a graph server."""
