"""MCP-Zero's rewriting (Fei et al., 2025), as A2X has it for a baseline (arXiv 2605.29270, appendix E.4).

A model says which tool it needs without knowing which there are; the vectors of that answer find the services.
"""

import re
from functools import partial

from benchmarks.a2x import route_set
from waygraph.registry.language_model.endpoint import ChatModel
from waygraph.registry.registry import Registry
from waygraph.registry.routing.recipes import AGENTS
from waygraph_lab.evaluation.dataset import Asked
from waygraph_lab.evaluation.sets import SetAnswer

SYSTEM = (
    "You have no tools, and ask for the one that a task needs. You do not know which there are. Answer with this block "
    "alone:\n<tool_assistant>\nserver: the platform or the domain of the service\ntool: the operation and what it is "
    "done to\n</tool_assistant>"
)
USER = "I need to {task}. Please identify the most appropriate tool for this task."
_LINE = re.compile(r"^\s*(?:server|tool)\s*:\s*(.+?)\s*$", re.MULTILINE | re.IGNORECASE)


def read_need(answer: str) -> str:
    """The server and the tool as one text; empty if the answer names neither."""
    return " ".join(_LINE.findall(answer.replace("</tool_assistant>", "")))


def rewrite_set(chat: ChatModel, registry: Registry, size: int, query: Asked) -> SetAnswer:
    """The first `size` services by the vector of what the model asks for; of an answer that names nothing by that of
    the request itself. Raises LanguageModelError.
    """
    messages = [
        {"role": "system", "content": SYSTEM},
        {"role": "user", "content": USER.format(task=query.texts[0])},
    ]
    completion = chat.complete(messages)
    find = partial(route_set, registry, AGENTS, size)
    found = find(_asked(query, read_need(completion.text) or query.texts[0]))
    return SetAnswer(ids=found.ids, calls=1, tokens=completion.prompt_tokens + completion.completion_tokens)


def _asked(query: Asked, text: str) -> Asked:
    return Asked(id=query.id, texts=(text,), gold=query.gold, gold_tools=query.gold_tools)
