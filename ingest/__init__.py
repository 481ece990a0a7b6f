"""The outside world → Manifest → graph: `sources` read, `sync` brings the registry in step."""
