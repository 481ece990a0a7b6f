"""Routing that knows the conversation, on conversations with tool calls and on LiveMCPBench's steps."""
