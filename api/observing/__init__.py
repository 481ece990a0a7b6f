"""What every way in records: log lines, and an audit of what was tried."""
