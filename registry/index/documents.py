"""What is searched of an entity, whichever the engine: the words of its text, and the names that it answers to."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict
from typing import Any

from waygraph.registry.embedding.texts import parameter_text
from waygraph.registry.index.analyser import fold, fold_path, terms
from waygraph.registry.model import Agent, Tool


def tool_document(agent: Agent, tool: Tool) -> list[str]:
    """Terms of a tool for BM25: its agent's name, its own twice, description, parameters, questions."""
    told = f"{agent.name} {tool.name} {tool.name} {tool.description} {parameter_text(tool.input_schema)}"
    return terms(" ".join([told, *tool.questions]))


def agent_document(agent: Agent, tools: Iterable[Tool]) -> list[str]:
    """Terms of an agent for BM25: its name twice, description, tags, the names of its tools that are in routing."""
    named = (tool.name for tool in tools if not tool.pending)
    return terms(" ".join([agent.name, agent.name, agent.description, *agent.tags, *named]))


def agent_names(agent: Agent) -> set[str]:
    """Folded; none is empty."""
    return {fold(agent.id), fold(agent.name)} - {""}


def tool_names(owner: Agent, tool: Tool) -> set[str]:
    """Folded, alone and behind the agent's id or name; none is empty."""
    paths = {fold_path(owner.id, tool.name), fold_path(owner.name, tool.name)}
    return ({fold(tool.name), fold(tool.call_name)} | paths) - {""}


def tool_record(tool: Tool) -> dict[str, Any]:
    """The tool as JSON; what few tools have only where it is."""
    return _without_empty(asdict(tool), ("questions", *_APPROVAL))


def tool_of_record(record: Mapping[str, Any]) -> Tool:
    lists = {name: tuple(record.get(name, ())) for name in ("tags", "questions", "flags")}
    return Tool(**{**record, **lists})


def agent_record(agent: Agent) -> dict[str, Any]:
    """The agent as JSON; what few agents have only where it is."""
    return _without_empty(asdict(agent), _APPROVAL)


def agent_of_record(record: Mapping[str, Any]) -> Agent:
    lists = {name: tuple(record.get(name, ())) for name in ("tags", "visible_to", "flags")}
    return Agent(**{**record, **lists})


_APPROVAL = ("pending", "flags", "approved_hash")


def _without_empty(record: dict[str, Any], names: Collection[str]) -> dict[str, Any]:
    return {name: value for name, value in record.items() if value or name not in names}
