"""The property graph: engines, and what is read from and written to them by declared statements."""
