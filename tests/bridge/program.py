"""The bridge as a program: `python -m tests.bridge.program URL [NAMESPACE]`."""

import sys

from waygraph.api.mcp.bridge import serve_bridge
from waygraph.registry.model.settings import load_settings

if __name__ == "__main__":
    place, *namespace = sys.argv[1:]
    serve_bridge(place, load_settings(), namespace="".join(namespace))
