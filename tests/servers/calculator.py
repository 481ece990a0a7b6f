"""`python calculator.py NOTES`: an MCP server by the SDK. `evaluate` reads, `erase` destroys, `wait` takes a minute.

Each line of NOTES names a tool that began, or that was cancelled.
"""

import sys
from pathlib import Path

import anyio
from mcp.server import MCPServer
from mcp.types import ToolAnnotations

NOTES = Path(sys.argv[1])
READS, DESTROYS = ToolAnnotations(read_only_hint=True), ToolAnnotations(destructive_hint=True)
server = MCPServer("calculator", version="1")


def note(text: str) -> None:
    with NOTES.open("a", encoding="utf-8") as file:
        file.write(f"{text}\n")


@server.tool(annotations=READS)
def evaluate(expression: str) -> float:
    """Work out an arithmetic expression, such as 17 percent of a number."""
    note("evaluate")
    left, right = expression.split("*")
    return float(left) * float(right)


@server.tool(annotations=DESTROYS)
def erase() -> str:
    """Erase the memory of the calculator."""
    note("erase")
    return "erased"


@server.tool(annotations=READS)
async def wait() -> str:
    """Wait for a minute."""
    note("wait")
    try:
        await anyio.sleep(60)
    except anyio.get_cancelled_exc_class():
        note("cancelled")
        raise
    return "waited"


server.run()
