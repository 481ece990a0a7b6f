"""Data for a router, made up: mutations of a catalogue, conversations over it, and what a router is trained on.

The pipeline of ToolACE-MCP (section 3 and appendix A), by a language model or by rules.
"""
