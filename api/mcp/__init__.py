"""The registry and its tools over MCP: the official SDK's server, on standard input and output and over HTTP."""

from collections.abc import Mapping
from typing import Literal

Surface = Literal["default", "rfc", "router"]
"""`rfc`: `find_tools` alone, with the parameters that RFC 0001 gives it. `router`: `route` and `execute` alone. A light
routing agent of ToolACE-MCP (section 3.5) has two such tools over a trained router, which `rerank` may name."""
USE_TOOL, EXECUTE = "use_tool", "execute"
RUNNERS: Mapping[Surface, str] = {"default": USE_TOOL, "rfc": "", "router": EXECUTE}
"""The meta-tool that runs a found tool; empty: tools are called by their own names."""
