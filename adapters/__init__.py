"""Agent frameworks over a registry, one module each; a module imports its framework, nothing else here does."""
