"""Whether a registry is well."""
