"""An orchestrator with the OpenAI Agents SDK: the model finds the tools it needs through Waygraph, and calls
them through it.

    python with_openai_agents.py --model gpt-5-mini "What time is it in Tokyo?"

With `--surface router` it carries `route` and `execute` in their place: the gateway chooses the tool, not the model.

OPENAI_BASE_URL and OPENAI_API_KEY say where the model is.
"""

import argparse
import asyncio
import os
import shlex

from agents import Agent, RunConfig, Runner
from agents.mcp import MCPServer, MCPServerStdio, MCPServerStreamableHttp

INSTRUCTIONS = {
    "default": (
        "Your tools are found, not listed: ask find_tools for what you need, in words, and call what it gives with "
        "use_tool, by its name and with parameters as its schema says. Answer with what the tool returned."
    ),
    "router": (
        "Your tools are found, not listed: call route with the one thing that you need next, in words, and run the "
        "tool that it gives with execute, by its name and with parameters as its schema says. If it fails, route "
        "again. Answer with what the tool returned."
    ),
}
PATIENCE_S = 120
"""The SDK gives a tool 5 s; Waygraph has deadlines of its own."""


def gateway(where: str) -> MCPServer:
    """Waygraph: a service by its URL, or a command to start on stdio."""
    if where.startswith(("http://", "https://")):
        key = os.environ.get("WAYGRAPH_API_KEY")
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        return MCPServerStreamableHttp({"url": where, "headers": headers}, client_session_timeout_seconds=PATIENCE_S)
    command, *args = shlex.split(where)
    return MCPServerStdio({"command": command, "args": args}, client_session_timeout_seconds=PATIENCE_S)


async def run(task: str, model: str, where: str, surface: str) -> str:
    async with gateway(where) as waygraph:
        agent = Agent(name="orchestrator", instructions=INSTRUCTIONS[surface], model=model, mcp_servers=[waygraph])
        # Without this the SDK sends a trace of the conversation to OpenAI, whoever serves the model.
        result = await Runner.run(agent, task, run_config=RunConfig(tracing_disabled=True))
        return str(result.final_output)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Answer a task with the tools that Waygraph knows.")
    parser.add_argument("task")
    parser.add_argument("--model", required=True, help="its name at the endpoint")
    parser.add_argument("--gateway", default="", help="a command, or the URL of a service's /mcp")
    parser.add_argument("--surface", choices=INSTRUCTIONS, default="default", help="the gateway's own")
    given = parser.parse_args()
    where = given.gateway or f"waygraph mcp --surface {given.surface}"
    print(asyncio.run(run(given.task, given.model, where, given.surface)))
