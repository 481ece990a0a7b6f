"""`python with_pydantic_ai.py REGISTRY QUESTION…`: an agent of Pydantic AI, its tools found in a registry."""

import asyncio
import sys

from pydantic_ai import Agent

from waygraph import Registry
from waygraph.adapters.pydantic_ai import RegistryToolset


async def main(place: str, *questions: str) -> None:
    async with Registry.open(place) as registry:
        agent = Agent("openai-chat:gpt-5-mini", toolsets=[RegistryToolset(registry)])
        messages = []
        for question in questions:
            run = await agent.run(question, message_history=messages)
            messages = run.all_messages()
            print(run.output)


asyncio.run(main(*sys.argv[1:]))
