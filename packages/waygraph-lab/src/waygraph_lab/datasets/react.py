"""ReAct (Yao et al., 2023): a model that thinks and acts in plain text, with all tools in its prompt.

The baseline of ToolACE-MCP's Table 1. Its tools are no functions of the endpoint, so any chat model can play it.
"""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

RULES = (
    "Fulfil the user's request with the tools below, one step at a time. In each step write\n"
    "Thought: what to do next\n"
    "Action: the name of one tool\n"
    "Action Input: its arguments, as one JSON object\n"
    "and stop: the result is then given to you as the Observation. When you have what the request needs, write\n"
    "Thought: why it is enough\n"
    "Final Answer: the answer, only with what the tools returned\n"
    "The tools, a line of JSON each:"
)
OBSERVATION = "Observation: "
_ACTION = re.compile(r"^Action:[ \t]*(.*?)[ \t]*\n+Action Input:[ \t]*(.*)", re.MULTILINE | re.DOTALL)
_FINAL = re.compile(r"^Final Answer:[ \t]*(.*)", re.MULTILINE | re.DOTALL)


class Action(NamedTuple):
    """`text`: the step, without what the model invents as its result. `arguments`: as they are written."""

    text: str
    tool: str
    arguments: str


def react_prompt(functions: Iterable[Mapping[str, Any]]) -> str:
    """The system text. `functions`: name, description and parameters of each tool."""
    return "\n".join([RULES, *(json.dumps(each, ensure_ascii=False) for each in functions)])


def read_step(text: str) -> Action | str:
    """The action of a step; or the final answer, which is the whole text where nothing is marked."""
    step = text.split(f"\n{OBSERVATION.strip()}", 1)[0]
    if action := _ACTION.search(step):
        return Action(step, action[1].strip("`\"'"), _object_in(action[2]))
    final = _FINAL.search(text)
    return final[1].strip() if final else text.strip()


def _object_in(text: str) -> str:
    """The JSON object at the beginning, without a fence around it or words behind it; else the text itself."""
    text = text.strip().removeprefix("```json").removeprefix("```").strip()
    try:
        _, end = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return text
    return text[:end]
