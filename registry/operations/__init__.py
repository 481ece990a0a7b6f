"""What is asked of a registry: each operation once, as a request that knows its answer and its place in a service."""
