"""What a service tells of itself: log lines, metrics, traces, and an audit of what was changed or typed."""
