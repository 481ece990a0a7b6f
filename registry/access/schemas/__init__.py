"""Schemas of tools, which strangers write: checked with inside bounds, and their faults put into words."""
