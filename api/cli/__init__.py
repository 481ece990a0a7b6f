"""The program `waygraph`."""
