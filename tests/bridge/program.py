"""The bridge as a program: `python -m tests.bridge.program URL [NAMESPACE]`."""

import sys
from functools import partial

import anyio

from waygraph.api.mcp.bridge import run_bridge
from waygraph.registry.settings import load_settings

if __name__ == "__main__":
    place, *namespace = sys.argv[1:]
    anyio.run(partial(run_bridge, place, load_settings(), namespace="".join(namespace)))
