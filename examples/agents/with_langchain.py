"""`python with_langchain.py REGISTRY QUESTION…`: an agent of LangChain, its tools found in a registry at each step."""

import sys

from langchain.agents import create_agent

from waygraph import Registry
from waygraph.adapters.langchain import RegistryMiddleware

place, *questions = sys.argv[1:]
with Registry.open(place) as registry:
    agent = create_agent("openai:gpt-5-mini", middleware=[RegistryMiddleware(registry)])
    messages = []
    for question in questions:
        messages = agent.invoke({"messages": [*messages, ("user", question)]})["messages"]
        print(messages[-1].text)
