"""`python with_openai_agents.py REGISTRY QUESTION…`: an agent of the OpenAI Agents SDK, its tools in a registry."""

import asyncio
import sys

from agents import Agent, RunConfig, Runner

from waygraph import Registry
from waygraph.adapters.openai_agents import RegistryServer

NO_TRACES = RunConfig(tracing_disabled=True)  # else the SDK sends the conversation to OpenAI, whoever serves the model


async def main(place: str, *questions: str) -> None:
    async with Registry.open(place) as registry:
        agent = Agent(name="assistant", model="gpt-5-mini", mcp_servers=[RegistryServer(registry)])
        items = []
        for question in questions:
            run = await Runner.run(agent, [*items, {"role": "user", "content": question}], run_config=NO_TRACES)
            items = run.to_input_list()
            print(run.final_output)


asyncio.run(main(*sys.argv[1:]))
