"""The registry and its tools over MCP: the official SDK's server, on standard input and output and over HTTP."""

from typing import Literal

Surface = Literal["default", "rfc", "router"]
"""`rfc`: `find_tools` alone, with the parameters that RFC 0001 gives it. `router`: `route` and `execute` alone. A light
routing agent of ToolACE-MCP (section 3.5) has two such tools over a trained router, which `rerank` may name."""
