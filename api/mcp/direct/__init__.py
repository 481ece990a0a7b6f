"""What hosts ask first and most often, answered without the SDK; see docs/architecture.md, The gateway."""
