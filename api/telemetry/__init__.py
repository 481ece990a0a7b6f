"""What is recorded: logs, audit, metrics, traces."""
