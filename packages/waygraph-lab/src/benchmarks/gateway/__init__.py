"""The gateway: what a call through it costs, what a host carries, and what it bears."""
