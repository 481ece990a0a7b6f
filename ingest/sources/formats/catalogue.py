"""Waygraph's own catalogue: `waygraph: 1` and `agents`, or a single agent, in JSON or YAML. Format: docs/sources.md.

The pydantic models are the format: docs/catalog.schema.json is generated from them, and each agent is checked
against them before it is taken. What `waygraph export --format json` wrote is read here, too.
"""

import reprlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, ValidationError, create_model

from waygraph.ingest.manifest.records import AgentRecord, Intake, Manifest, ToolRecord, shape_of
from waygraph.ingest.manifest.suspicion.hidden_text import hidden_characters
from waygraph.registry.model.box_wishes import WISH
from waygraph.registry.model.changes import AgentEntry, OperatorSettings, Policy
from waygraph.registry.model.errors import InvalidSetting, SourceError, nearest
from waygraph.registry.model.identity import holds_control, is_broken
from waygraph.registry.model.nouns import Agent, AgentKind, Tool, canonical_json
from waygraph.registry.model.tool_settings import MAX_REASON_CHARS, check_tool_settings
from waygraph.registry.model.validation import MAX_NAME_CHARS, checked_names, reason_of
from waygraph.registry.storage.noun_list import EXPORTED_NOUNS
from waygraph.registry.writer import RegistryNoun

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
        # What an unknown field may have been meant as; its value may be a secret, and is not shown.
        fields = (CatalogueTool if exc.title == CatalogueTool.__name__ else CatalogueAgent).model_fields
        suggestions = nearest(field, (info.alias or name for name, info in fields.items()))
        return f"{pointer}{place}", (
            f"unknown field {reprlib.repr(field)}" + (f"; did you mean {suggestions[0]!r}?" if suggestions else "")
        )
    value = reprlib.repr(fault["input"]) if field in _PLAIN_FIELDS else shape_of(fault["input"])
    return f"{pointer}{place}", f"{reason_of(fault)}, found {value}"


_PLAIN_FIELDS = ("kind", "id", "name")  # any other value may be a secret that slipped into the wrong field


EXPORT_MARK, EXPORT_VERSION, EXPORT_KIND = "waygraph_export", 1, "export"
EXPORT_SHAPE = 'what `waygraph export` wrote as JSON, {"waygraph_export": 1, "agents": […], "sources": […]}'


def _refuse_unreadable(name: str) -> str:
    """Of a name that people read. Raises ValueError."""
    if holds_control(name) or is_broken(name) or any(hidden_characters(name)):
        raise ValueError("expected a name without control or unseen characters")
    return name


_Name = Annotated[str, StringConstraints(min_length=1, max_length=MAX_NAME_CHARS), AfterValidator(_refuse_unreadable)]


def fits_export(document: Any) -> bool:
    return isinstance(document, Mapping) and EXPORT_MARK in document


def read_export(document: Mapping[str, Any], where: str, *, restore: bool = False) -> list[Manifest]:
    """A manifest for each source of the export. What operators had set and approved comes back, and the policies,

    only if `restore` asks for it: any file may call itself an export, and must not show what an operator hid. What it
    says waits for approval waits. Raises SourceError.
    """
    if document[EXPORT_MARK] != EXPORT_VERSION:
        raise SourceError(
            where,
            f"this Waygraph reads exports of format {EXPORT_VERSION}, found {document[EXPORT_MARK]!r}",
            pointer=f"/{EXPORT_MARK}",
        )
    intake = Intake(where=where)
    rest = _check_export(document, where)
    for record in read({"waygraph": VERSION, "agents": document.get("agents")}, where, intake):
        intake.take(record)
    approval = {row.id: row for row in rest.approval}
    entries = {entry.key: _with_approval(entry, approval, restore=restore) for entry in intake.entries}
    operator = tuple(_setting(row, where) for row in rest.operator)
    sources = [replace(_manifest(row, entries, restore=restore), partial=bool(intake.rejected)) for row in rest.sources]
    if not sources and operator and restore:
        sources = [Manifest(source="operators")]
    values = {noun.name: rows for noun in EXPORTED_NOUNS if restore and (rows := _read_values(noun, rest, where))}
    if sources:
        # Operators' words, or how many there are, and rejected records ride on the first manifest; the values on the
        # last one: by then all agents are there.
        settings, omitted_count = (operator, 0) if restore else ((), len(operator))
        faults = tuple(intake.rejected)
        sources[0] = replace(sources[0], operator=settings, unrestored=omitted_count, rejected=faults)
        sources[-1] = replace(sources[-1], values=values)
    return sources


class _Row(BaseModel):
    model_config = ConfigDict(strict=True)


class _Source(_Row):
    """`claims`: [key in the source, agent id]."""

    name: _Name
    namespace: _Name | Literal[""]
    rank: int = Field(ge=-1000, le=1000)
    policy: Policy | None = None
    owner: _Name | Literal[""] = ""
    claims: list[Annotated[list[_Name], Field(min_length=2, max_length=2)]]


class _Rejection(_Row):
    """As `tool_settings.Rejection`."""

    hash: str
    reason: str = Field(max_length=MAX_REASON_CHARS)
    by: str
    at: str


class _Setting(_Row):
    agent_id: _Name
    tags: list[_Name]
    visible_to: list[_Name] | None
    pinned: bool
    hidden: bool
    removed: bool
    tools: dict[str, dict[str, Any]] | None = None
    rejections: dict[str, list[_Rejection]] | None = None
    wishes: dict[Annotated[str, Field(pattern=f"^{WISH}$")], str] | None = None


class _Approval(_Row):
    id: _Name
    pending: bool
    approved_hash: str
    flags: list[str] = []


class _RestOfAgents(_Row):
    """What an export holds beside agents."""

    sources: list[_Source] = []
    operator: list[_Setting] = []
    approval: list[_Approval] = []


_Rest: type[_RestOfAgents] = create_model(
    "_Rest",
    __base__=_RestOfAgents,
    **{noun.name: (list[dict[str, Any]], []) for noun in EXPORTED_NOUNS},  # type: ignore[call-overload]
)


def _check_export(document: Mapping[str, Any], where: str) -> _RestOfAgents:
    """Raises SourceError."""
    try:
        return _Rest.model_validate({name: document[name] for name in _Rest.model_fields if name in document})
    except ValidationError as exc:
        fault = exc.errors(include_url=False)[0]
        pointer = "".join(f"/{part}" for part in fault["loc"])
        raise SourceError(where, f"is not a whole export: {reason_of(fault)}", pointer=pointer) from exc


def _read_values(noun: RegistryNoun[Any], rest: _RestOfAgents, where: str) -> list[Any]:
    """Raises SourceError."""
    try:
        values = [noun.of_export(row) for row in getattr(rest, noun.name)]
        _refuse_hidden(text for each in values for text in noun.texts(each))
    except (AttributeError, LookupError, TypeError, ValueError, InvalidSetting) as error:
        raise SourceError(where, f"holds a damaged {noun.singular}: {error}", pointer=f"/{noun.name}") from error
    return values


def _texts(tool: Mapping[str, Any]) -> Iterator[str]:
    """Of one tool: what a model reads in place of the source's words."""
    for each in (tool, *tool.get("parameters", {}).values()):
        yield from (each[field] for field in ("name", "description") if field in each)


def _refuse_hidden(texts: Iterable[str]) -> None:
    """What operators wrote is shown to models as it is, and nobody flags it. Raises InvalidSetting."""
    for fault in filter(None, (next(hidden_characters(text), "") for text in texts)):
        raise InvalidSetting(f"a text of it {fault}")


def _with_approval(entry: AgentEntry, approvals: Mapping[str, _Approval], *, restore: bool) -> AgentEntry:
    def of[T: Agent | Tool](entity: T) -> T:
        if (row := approvals.get(entity.id)) is None:
            return entity
        approved_hash = row.approved_hash if restore else ""
        return replace(entity, pending=row.pending, approved_hash=approved_hash, flags=tuple(row.flags))

    return replace(entry, agent=of(entry.agent), tools=tuple(map(of, entry.tools)))


def _manifest(row: _Source, entries: Mapping[str, AgentEntry], *, restore: bool) -> Manifest:
    own_entries = [(key, entries[agent_id]) for key, agent_id in row.claims if agent_id in entries]
    return Manifest(
        source=row.name,
        namespace=row.namespace,
        rank=row.rank if restore else min(row.rank, 0),  # any file may say that it speaks before running servers
        policy=row.policy if restore else None,
        owner=row.owner if restore else "",
        restores=restore,
        entries=tuple(AgentEntry(key=key, agent=entry.agent, tools=entry.tools) for key, entry in own_entries),
    )


def _setting(row: _Setting, where: str) -> OperatorSettings:
    """Raises SourceError."""
    try:
        tags = checked_names("tags", row.tags)
        visible_to = None if row.visible_to is None else checked_names("visible_to", row.visible_to)
        check_tool_settings(row.tools or {})
        texts = [each for tool in (row.tools or {}).values() for each in _texts(tool)]
        rejections = {name: [each.model_dump() for each in some] for name, some in (row.rejections or {}).items()}
        texts += [each["reason"] for some in rejections.values() for each in some]
        texts += [each for wish in (row.wishes or {}).items() for each in wish]
        _refuse_hidden((*tags, *(visible_to or ()), *texts))
    except InvalidSetting as error:
        raise SourceError(where, f"holds damaged settings of {row.agent_id!r}: {error}", pointer="/operator") from error
    return OperatorSettings(
        agent_id=row.agent_id,
        tags=tags,
        visible_to=visible_to,
        pinned=row.pinned,
        hidden=row.hidden,
        removed=row.removed,
        tools=canonical_json(row.tools) if row.tools else "",
        rejections=canonical_json(rejections) if rejections else "",
        wishes=canonical_json(row.wishes) if row.wishes else "",
    )
