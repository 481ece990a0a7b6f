"""Cypher that a user typed: an allow-list first, then a worker process with limits."""
