"""`python with_google_adk.py REGISTRY QUESTION…`: an agent of Google's ADK, its tools found in a registry."""

import asyncio
import sys

from google.adk.agents import LlmAgent
from google.adk.models.lite_llm import LiteLlm
from google.adk.runners import InMemoryRunner

from waygraph import Registry
from waygraph.adapters.google_adk import RegistryToolset


async def main(place: str, *questions: str) -> None:
    async with Registry.open(place) as registry:
        agent = LlmAgent(name="assistant", model=LiteLlm("openai/gpt-5-mini"), tools=[RegistryToolset(registry)])
        async with InMemoryRunner(agent) as runner:
            for question in questions:
                events = await runner.run_debug(question, quiet=True)
                print(events[-1].content.parts[-1].text)


asyncio.run(main(*sys.argv[1:]))
