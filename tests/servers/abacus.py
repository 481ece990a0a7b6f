"""`python abacus.py`: an MCP server by the SDK whose tools take a list, and return an image."""

from mcp.server import MCPServer
from mcp.server.mcpserver import Image
from mcp.types import ToolAnnotations

READS = ToolAnnotations(read_only_hint=True)
server = MCPServer("abacus", version="1")


@server.tool(annotations=READS)
def total(numbers: list[int]) -> int:
    """Add up numbers."""
    return sum(numbers)


@server.tool(annotations=READS)
def picture() -> Image:
    """Draw the abacus."""
    return Image(data=b"\x89PNG", format="png")


server.run()
