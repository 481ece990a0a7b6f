"""The ways in: command line, REST, MCP."""
