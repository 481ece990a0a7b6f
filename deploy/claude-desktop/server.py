"""For hosts that run a bundle by uv themselves: the same as the command of manifest.json."""

from waygraph.api.cli.app import main

main(["mcp"])
