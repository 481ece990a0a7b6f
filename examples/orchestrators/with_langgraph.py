"""An orchestrator with LangGraph: the model finds the tools it needs through Waygraph, and calls them through it.

    python with_langgraph.py --model gpt-5-mini "What time is it in Tokyo?"

OPENAI_BASE_URL and OPENAI_API_KEY say where the model is.
"""

import argparse
import asyncio
import os
import shlex

from langchain_core.messages import HumanMessage, SystemMessage
from langchain_core.tools import BaseTool
from langchain_mcp_adapters.sessions import Connection, create_session
from langchain_mcp_adapters.tools import load_mcp_tools
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.prebuilt import ToolNode, tools_condition

INSTRUCTIONS = (
    "Your tools are found, not listed: ask find_tools for what you need, in words, and call what it gives with "
    "use_tool, by its name and with parameters as its schema says. Answer with what the tool returned."
)


def gateway(where: str) -> Connection:
    """Waygraph: a service by its URL, or a command to start on stdio."""
    if where.startswith(("http://", "https://")):
        key = os.environ.get("WAYGRAPH_API_KEY")
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        return {"transport": "streamable_http", "url": where, "headers": headers}
    command, *args = shlex.split(where)
    return {"transport": "stdio", "command": command, "args": args}


def orchestrator(model: str, tools: list[BaseTool]) -> CompiledStateGraph:
    """The model is asked, its calls are made, and it is asked again, until it answers without a call."""
    chat = ChatOpenAI(model=model).bind_tools(tools)

    async def ask(state: MessagesState) -> MessagesState:
        return {"messages": [await chat.ainvoke([SystemMessage(INSTRUCTIONS), *state["messages"]])]}

    graph = StateGraph(MessagesState)
    graph.add_node("model", ask)
    graph.add_node("tools", ToolNode(tools))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    return graph.compile()


async def run(task: str, model: str, where: str) -> str:
    # One session for all calls: by `MultiServerMCPClient.get_tools` each call would start Waygraph anew.
    async with create_session(gateway(where)) as session:
        await session.initialize()
        graph = orchestrator(model, await load_mcp_tools(session))
        state = await graph.ainvoke({"messages": [HumanMessage(task)]})
        return str(state["messages"][-1].text)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Answer a task with the tools that Waygraph knows.")
    parser.add_argument("task")
    parser.add_argument("--model", required=True, help="its name at the endpoint")
    parser.add_argument("--gateway", default="waygraph mcp", help="a command, or the URL of a service's /mcp")
    given = parser.parse_args()
    print(asyncio.run(run(given.task, given.model, given.gateway)))
