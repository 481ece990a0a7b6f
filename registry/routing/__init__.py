"""From a query to ranked agents and tools."""
