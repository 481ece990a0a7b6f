"""Trees of categories over agents or tools: how they are built, kept current and walked."""
