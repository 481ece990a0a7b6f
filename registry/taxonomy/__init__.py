"""Trees of categories over agents or tools: how they are built and walked."""
