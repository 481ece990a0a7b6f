"""What a caller sees of a registry: lists in parts, the log of changes, the forms of tools, and `find_tools`."""
