"""What stands for a server that says nothing of itself: its tools' names and first sentences."""

import re
from collections.abc import Sequence

from waygraph.ingest.manifest.poisoning import tool_flags
from waygraph.registry.model.nouns import Tool

BESIDE_TOOLS = "Beside its tools: "
"""Begins the last line of a description: how many prompts and resources the server has."""
MAX_CHARS, MAX_SENTENCE_CHARS = 2_000, 160
_SENTENCE_END = re.compile(r"(?<=[.!?])\s|(?<=[。！？])")


def describe_tools(tools: Sequence[Tool]) -> str:
    """`add_note: Add a note. find_notes: …`, by name, at most MAX_CHARS. Suspicious tools are left out."""
    described = ""
    for tool in sorted(tools, key=lambda tool: tool.name):
        if tool_flags(tool, lambda _: {}):
            continue
        part = _describe(tool)
        if len(described) + len(part) + 1 > MAX_CHARS:
            break
        described = f"{described} {part}".lstrip()
    return described


def is_made_of_tools(description: str, tools: Sequence[Tool]) -> bool:
    """Whether it says nothing but what these tools say, and how much there is beside them."""
    text = describe_tools(tools)
    return bool(text) and (description == text or description.startswith(f"{text}\n\n{BESIDE_TOOLS}"))


def _describe(tool: Tool) -> str:
    line = " ".join(tool.description[: 4 * MAX_SENTENCE_CHARS].split())
    sentence = _SENTENCE_END.split(line, maxsplit=1)[0]
    if len(sentence) > MAX_SENTENCE_CHARS:
        sentence = sentence[:MAX_SENTENCE_CHARS].rpartition(" ")[0]
    return f"{tool.name}: {sentence.rstrip('.')}." if sentence else f"{tool.name}."
