"""Data sets for evaluation, one module a format, and runs over them."""
