"""`python with_haystack.py REGISTRY QUESTION…`: an agent of Haystack, whose model finds tools in a registry."""

import sys

from haystack.components.agents import Agent
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.dataclasses import ChatMessage

from waygraph import Registry
from waygraph.adapters.haystack import RegistryToolset

place, *questions = sys.argv[1:]
with Registry.open(place) as registry:
    agent = Agent(chat_generator=OpenAIChatGenerator(model="gpt-5-mini"), tools=RegistryToolset(registry))
    messages = []
    for question in questions:
        messages = agent.run([*messages, ChatMessage.from_user(question)])["messages"]
        print(messages[-1].text)
