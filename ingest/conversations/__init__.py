"""Conversations with tool calls, from files, and what was called after what in them."""
