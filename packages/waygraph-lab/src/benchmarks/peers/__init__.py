"""Waygraph beside other libraries that choose tools, in one run: `make bench-peers`."""
