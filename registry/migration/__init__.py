"""A registry, copied to another place."""
