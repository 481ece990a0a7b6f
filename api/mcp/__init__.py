"""The gateway: the registry and its tools over MCP."""
