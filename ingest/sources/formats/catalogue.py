"""Waygraph's own catalogue: `waygraph: 1` and `agents`, or a single agent, in JSON or YAML. Format: docs/sources.md.

The pydantic models are the format: docs/catalog.schema.json is generated from them, and each agent is checked
against them before it is taken.
"""

import reprlib
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from waygraph.ingest.manifest.records import AgentRecord, Intake, ToolRecord, shape_of
from waygraph.registry.model.errors import nearest
from waygraph.registry.model.nouns import AgentKind
from waygraph.registry.model.validation import reason_of

SHAPE = '{"waygraph": 1, "agents": [{"id": …, "name": …, "tools": […]}]}, or one such agent with "waygraph": 1'
VERSION = 1


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", populate_by_name=True)


class CatalogueTool(_Model):
    """One tool of an agent, in the words of MCP."""

    name: str = Field(description="Unique within the agent; at most 128 characters.")
    description: str | None = Field(default="", description="What it does: the text that routing goes by.")
    input_schema: dict[str, Any] | None = Field(
        default=None, alias="inputSchema", description="JSON Schema of its arguments."
    )
    output_schema: dict[str, Any] | None = Field(
        default=None, alias="outputSchema", description="JSON Schema of its result."
    )
    annotations: dict[str, Any] | None = Field(default=None, description="MCP hints, such as readOnlyHint.")
    tags: list[str] = Field(default_factory=list)
    questions: list[str] = Field(
        default_factory=list, description="What people might ask that it can answer: it is found by them."
    )
    hide: bool = Field(default=False, description="It stays out of routing and calls, unless an operator shows it.")


class CatalogueAgent(_Model):
    """An agent: an MCP server, an A2A agent, a skill, a service."""

    id: str = Field(description="Letters, digits, space, `_`, `.`, `-`; another key is turned into such an id.")
    name: str = Field(default="", description="For people; the id if empty.")
    description: str | None = Field(default="", description="What it can do: the text that routing goes by.")
    kind: AgentKind = Field(default="mcp_server")
    version: str = Field(default="", description="In quotes, so that YAML keeps it a text.")
    transport: dict[str, Any] | None = Field(
        default=None, description="How it is reached. Values in env and headers are references such as ${TOKEN}."
    )
    tags: list[str] = Field(default_factory=list)
    visible_to: list[str] = Field(default_factory=list, description="Groups that may see it; empty: everyone.")
    tools: list[CatalogueTool] = Field(default_factory=list)
    asked: bool = Field(
        default=True, description="false: its server was not asked for its tools; those held of it stay."
    )


class Catalogue(_Model):
    """A catalogue file with many agents."""

    waygraph: Annotated[Literal[1], Field(description="Version of this format.")]
    agents: list[CatalogueAgent]


class SingleAgent(CatalogueAgent):
    """A catalogue file with one agent."""

    waygraph: Annotated[Literal[1], Field(description="Version of this format.")]


def fits(document: Any) -> bool:
    return isinstance(document, Mapping) and "waygraph" in document


def read(document: Any, where: str, intake: Intake) -> Iterator[AgentRecord]:  # noqa: ARG001
    if document["waygraph"] != VERSION:
        intake.reject_agent("/waygraph", f"this Waygraph reads format {VERSION}, found {document['waygraph']!r}")
        return
    if "agents" not in document:
        yield from _check_agent({k: v for k, v in document.items() if k != "waygraph"}, "", intake)
        return
    if not isinstance(document["agents"], list):
        intake.reject_agent("/agents", f"expected a list, found {type(document['agents']).__name__}")
        return
    for number, agent in enumerate(document["agents"]):
        yield from _check_agent(agent, f"/agents/{number}", intake)


def json_schema() -> dict[str, Any]:
    """The JSON Schema of a catalogue file."""
    from pydantic import TypeAdapter

    schema = TypeAdapter(Catalogue | SingleAgent).json_schema(by_alias=True)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Waygraph catalogue", **schema}


def _check_agent(agent: Any, pointer: str, intake: Intake) -> Iterator[AgentRecord]:
    """The agent's record. A tool that does not fit costs that tool, an agent that does not fit the agent."""
    if not isinstance(agent, Mapping):
        intake.reject_agent(pointer, f"expected an agent object, found {type(agent).__name__}")
        return
    key = agent.get("id") if isinstance(agent.get("id"), str) else ""
    if not isinstance(items := agent.get("tools") or [], list):
        intake.reject_agent(f"{pointer}/tools", f"expected a list of tools, found {type(items).__name__}", key=str(key))
        return
    try:
        model = CatalogueAgent.model_validate({**agent, "tools": []})
        tools = list(_tools(items, f"{pointer}/tools", intake))
    except ValidationError as exc:
        intake.reject_agent(*_first_fault(exc, pointer), key=str(key))
        return
    yield AgentRecord(pointer=pointer, key=model.id, **{n: getattr(model, n) for n in _AGENT_FIELDS}, tools=tools)


_AGENT_FIELDS = ("name", "description", "kind", "version", "transport", "tags", "visible_to", "asked")


def _tools(tools: list[Any], pointer: str, intake: Intake) -> Iterator[ToolRecord]:
    for number, tool in enumerate(tools):
        place = f"{pointer}/{number}"
        try:
            model = CatalogueTool.model_validate(tool)
        except ValidationError as exc:
            intake.reject(*_first_fault(exc, place))
            continue
        yield ToolRecord(pointer=place, **dict(model))


def _first_fault(exc: ValidationError, pointer: str) -> tuple[str, str]:
    """JSON pointer and reason of the first thing wrong."""
    fault = exc.errors(include_url=False)[0]
    place = "".join(f"/{part}" for part in fault["loc"])
    field = str(fault["loc"][-1]) if fault["loc"] else ""
    if fault["type"] == "extra_forbidden":
        return f"{pointer}{place}", _unknown_field(field, exc.title)
    value = reprlib.repr(fault["input"]) if field in _PLAIN_FIELDS else shape_of(fault["input"])
    return f"{pointer}{place}", f"{reason_of(fault)}, found {value}"


_PLAIN_FIELDS = ("kind", "id", "name")  # any other value may be a secret that slipped into the wrong field


def _unknown_field(field: str, model: str) -> str:
    """What an unknown field may have been meant as; its value may be a secret, and is not shown."""
    fields = (CatalogueTool if model == CatalogueTool.__name__ else CatalogueAgent).model_fields
    suggestions = nearest(field, (info.alias or name for name, info in fields.items()))
    return f"unknown field {reprlib.repr(field)}" + (f"; did you mean {suggestions[0]!r}?" if suggestions else "")
