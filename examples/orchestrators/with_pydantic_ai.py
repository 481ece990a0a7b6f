"""An orchestrator with Pydantic AI: the model finds the tools it needs through Waygraph, and calls them through it.

    python with_pydantic_ai.py --model gpt-5-mini "What time is it in Tokyo?"

OPENAI_BASE_URL and OPENAI_API_KEY say where the model is.
"""

import argparse
import asyncio
import os
import shlex

from fastmcp.client.transports import StdioTransport
from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset

INSTRUCTIONS = (
    "Your tools are found, not listed: ask find_tools for what you need, in words, and call what it gives with "
    "use_tool, by its name and with parameters as its schema says. Answer with what the tool returned."
)
PATIENCE_S = 60
"""Pydantic AI gives a server 5 s to start."""


def gateway(where: str) -> MCPToolset:
    """Waygraph: a service by its URL, or a command to start on stdio."""
    if where.startswith(("http://", "https://")):
        return MCPToolset(where, auth=os.environ.get("WAYGRAPH_API_KEY"), init_timeout=PATIENCE_S)
    command, *args = shlex.split(where)
    return MCPToolset(StdioTransport(command, args), init_timeout=PATIENCE_S)


async def run(task: str, model: str, where: str) -> str:
    agent = Agent(f"openai-chat:{model}", instructions=INSTRUCTIONS, toolsets=[gateway(where)])
    async with agent:
        return (await agent.run(task)).output


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Answer a task with the tools that Waygraph knows.")
    parser.add_argument("task")
    parser.add_argument("--model", required=True, help="its name at the endpoint")
    parser.add_argument("--gateway", default="waygraph mcp", help="a command, or the URL of a service's /mcp")
    given = parser.parse_args()
    print(asyncio.run(run(given.task, given.model, given.gateway)))
