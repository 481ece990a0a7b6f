"""Which texts stand for an agent or a tool. Pure functions.

`plain` is the text of the Agent-as-a-Graph paper, `name: description`. `contextual` says more: whose the tool
is, what it takes, what an agent can do.
"""

import json
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from waygraph.registry.model import Agent, JsonText, TextForm, Tool

if TYPE_CHECKING:
    from waygraph.registry.embedding.protocol import Matrix

TOOL_NAMES_SHOWN = 25
"""More names than these would fill what a model reads of an agent's text."""


def tool_texts(form: TextForm, agent: Agent, tool: Tool, limit_chars: int) -> tuple[str, ...]:
    """The texts whose `unit_mean` is the tool's vector: one if plain, two if contextual; each cut at the limit."""
    plain = _titled(tool.name, tool.description)
    if form == "plain":
        return (plain[:limit_chars],)
    parameters = parameter_text(tool.input_schema)
    owned = f"{agent.name} | {plain}"
    called = f"{plain} Parameters: {parameters}" if parameters else plain
    return owned[:limit_chars], called[:limit_chars]


def agent_texts(form: TextForm, agent: Agent, tool_names: Sequence[str], limit_chars: int) -> tuple[str, ...]:
    """The agent's one text; if contextual, with the names of its first tools."""
    text = _titled(agent.name, agent.description)
    if form == "contextual" and tool_names:
        text = f"{text.rstrip().removesuffix('.')}. Tools: {', '.join(tool_names[:TOOL_NAMES_SHOWN])}"
    return (text[:limit_chars],)


def parameter_text(schema: JsonText, limit: int = 100) -> str:
    """`city (name of the city), limit` from the top-level properties, at most `limit` of them.

    A schema without properties, or one that is not a schema at all, gives an empty text.
    """
    return ", ".join(islice(_parameters(schema), limit))


def unit_mean(matrix: "Matrix", lengths: Sequence[int]) -> "Matrix":
    """The mean of each group of neighbouring rows, scaled to length 1.

    `matrix` is (sum of lengths, dim), the result (len(lengths), dim), float32. An empty group, and one whose
    rows cancel out, gives zeros.
    """
    import numpy as np

    counts = np.asarray(lengths, dtype=np.intp)
    filled = counts > 0
    sums = np.zeros((len(counts), matrix.shape[1]), dtype=np.float32)
    if filled.any():
        sums[filled] = np.add.reduceat(matrix, (np.cumsum(counts) - counts)[filled], axis=0)
    norms = np.linalg.norm(sums, axis=1, keepdims=True)
    return np.divide(sums, norms, out=np.zeros_like(sums), where=norms > 0)


def _titled(name: str, description: str) -> str:
    return f"{name}: {description}" if description.strip() else name


def _parameters(schema: JsonText) -> Iterator[str]:
    for name, parameter in _properties(schema).items():
        description = parameter.get("description") if isinstance(parameter, dict) else None
        told = " ".join(description.split()) if isinstance(description, str) else ""
        yield f"{name} ({told})" if told else name


def _properties(schema: JsonText) -> dict[str, object]:
    try:
        parsed = json.loads(schema)
    except (ValueError, RecursionError):
        return {}
    properties = parsed.get("properties") if isinstance(parsed, dict) else None
    return properties if isinstance(properties, dict) else {}
