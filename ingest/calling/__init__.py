"""Tools are run: over the connections of `upstream`, as HTTP operations, as A2A messages; whatever their agent is."""
