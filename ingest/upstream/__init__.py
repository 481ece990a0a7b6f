"""Connections to MCP servers: one supervised connection each, for live ingest and for the gateway's calls."""
