"""Tools are run: over MCP, HTTP and A2A."""
