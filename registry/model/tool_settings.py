"""What operators say of a tool: another name or description, parameters with other words, a fixed value, or hidden; and
what they rejected.

It is kept apart from what the source says, and laid over it wherever the tool is embedded, searched, listed or called.
A setting of a parameter that the source does not have (any more) changes nothing.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from typing import Any

from waygraph.registry.model import identity
from waygraph.registry.model.changes import AgentEntry, OperatorSettings
from waygraph.registry.model.errors import InvalidArguments, InvalidSetting
from waygraph.registry.model.nouns import Agent, JsonText, Tool, canonical_json, parse_field
from waygraph.registry.model.numbers import show_value

MAX_TEXT_CHARS = 20_000
"""Of a description."""
MAX_PIN_CHARS = 100_000
"""Of a fixed value, as JSON."""
MAX_REASON_CHARS = 1_000
"""Why something was rejected."""
MAX_QUESTIONS, MAX_QUESTION_CHARS = 50, 500
"""Of a tool: more would drown what it is in what may be asked of it."""
_FIELDS = ("name", "description", "parameters", "hidden", "questions")
_HIDING_REASON = "hidden from callers"
"""What stands for the reason of a rejection."""
_HOST_REASON = "hidden from callers, as a source of it keeps it from models"
_PARAMETER_FIELDS = ("name", "description", "pin", "hidden")
_ABOUT_PROPERTIES = (
    "allOf", "anyOf", "default", "dependencies", "dependentRequired", "dependentSchemas", "else", "examples", "if",
    "maxProperties", "minProperties", "not", "oneOf", "patternProperties", "propertyNames", "then",
)  # fmt: skip
"""What a schema may say of its properties elsewhere: left out where one has another name or is not shown."""

type Fields = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSetting:
    """Of one tool; empty: as its source says.

    `parameters`: the source's name → `name`, `description`, `pin` (any JSON) and `hidden`, those that are set.
    """

    name: str = ""
    description: str = ""
    parameters: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    hidden: bool | None = None
    """It stays out of routing and calls; None: as its sources have it."""
    hiding_sources: Sequence[str] = ()
    """The sources that keep it from models."""
    questions: Sequence[str] = ()
    """What people asked that it can answer, beside those of its source."""

    def is_shown(self, parameter: str) -> bool:
        setting = self.parameters.get(parameter, {})
        return not setting.get("hidden") and "pin" not in setting

    def shown_name(self, parameter: str) -> str:
        return str(self.parameters.get(parameter, {}).get("name", parameter))


@lru_cache(maxsize=4096)
def _parse(text: JsonText) -> Mapping[str, ToolSetting]:
    return {name: ToolSetting(**setting) for name, setting in (parse_field(text) or {}).items()}


def settings_of_tools(settings: OperatorSettings | None) -> Mapping[str, ToolSetting]:
    """By the source's name of the tool."""
    return _parse(settings.tools) if settings else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejection:
    """Of an agent or tool whose text, as its source states it, has this hash (`telling_hash`). `by`: the caller's id;
    empty: whoever runs commands here. `at`: ISO 8601 in UTC.
    """

    hash: str
    reason: str
    by: str = ""
    at: str = ""


@lru_cache(maxsize=4096)
def parse_rejections(text: JsonText) -> Mapping[str, Sequence[Rejection]]:
    """By the source's name of the tool (empty: the agent itself) one of each text, in order."""
    return {name: [Rejection(**each) for each in rows] for name, rows in (parse_field(text) or {}).items()}


def telling_hash(entity: Agent | Tool) -> str:
    """Of its texts: who may see it, tags and questions are lists, and others of them lift no rejection."""
    values = (getattr(entity, name) for name in sorted(identity.stated_fields(entity)))
    return identity.digest(*(value for value in values if isinstance(value, str)))


def rejections_of(entity: Agent | Tool, settings: OperatorSettings | None) -> Sequence[Rejection]:
    """Those of its name, whatever it says now."""
    rejections = parse_rejections(settings.rejections) if settings else {}
    return rejections.get(entity.name if isinstance(entity, Tool) else "", ())


def merge_rejections(
    settings: OperatorSettings, entities: Iterable[Agent | Tool], rejection: Rejection | None
) -> OperatorSettings:
    """With these rejected as their source states them, or no more; other texts of the same names stay rejected."""
    rejections = {**parse_rejections(settings.rejections)}
    for each in entities:
        text = telling_hash(each)
        others = [row for row in rejections_of(each, settings) if row.hash != text]
        more = [replace(rejection, hash=text)] if rejection else []
        rejections[each.name if isinstance(each, Tool) else ""] = [*others, *more]
    rows = {name: list(map(asdict, some)) for name, some in rejections.items() if some}
    return replace(settings, rejections=canonical_json(rows) if rows else "")


def mark_rejection[E: Agent | Tool](entity: E, settings: OperatorSettings | None) -> E:
    """An agent or tool as its source states it, with what an operator said of these very words."""
    rejections = rejections_of(entity, settings)
    text = telling_hash(entity) if rejections else ""
    rejection = next((each for each in rejections if each.hash == text), None)
    return replace(entity, pending=True, rejection=rejection.reason) if rejection else entity


def overlay_tools(tools: Iterable[Tool], settings: Mapping[str, OperatorSettings]) -> list[Tool]:
    """The tools as they hold now. Of each agent all are given: a name that its source gives a tool is no other's."""
    tools = list(tools)
    ids = {tool.id for tool in tools}
    overlaid: list[Tool] = []
    for stated_tool in tools:
        tool = mark_rejection(stated_tool, settings.get(stated_tool.agent_id))
        setting = settings_of_tools(settings.get(tool.agent_id)).get(tool.name)
        if setting and f"{tool.agent_id}/{setting.name}" in ids:
            setting = replace(setting, name="")
        overlaid.append(overlay_tool(tool, setting) if setting else tool)
    return overlaid


def overlay_entries(entries: Iterable[AgentEntry], settings: Mapping[str, OperatorSettings]) -> list[AgentEntry]:
    """Entries by the graph's ids, their tools as they hold now."""
    return [replace(entry, tools=tuple(overlay_tools(entry.tools, settings))) for entry in entries]


def overlay_tool(tool: Tool, setting: ToolSetting) -> Tool:
    """It is approved, or in doubt, as its source's text is; another setting makes it another version."""
    if setting.hidden or (setting.hidden is None and setting.hiding_sources):
        tool = replace(tool, pending=True, rejection=_HIDING_REASON if setting.hidden else _HOST_REASON)
    name = setting.name or tool.name
    schema = overlay_schema(tool.input_schema, setting)
    description = setting.description or tool.description
    questions = tuple(dict.fromkeys((*setting.questions, *tool.questions)))
    if (name, description, schema, questions) == (tool.name, tool.description, tool.input_schema, tool.questions):
        return tool
    version = identity.digest(tool.content_hash, name, description, schema, *setting.questions)
    return replace(
        tool,
        name=name,
        call_name=identity.call_name(tool.agent_id, name),
        description=description,
        input_schema=schema,
        questions=questions,
        content_hash=version,
        approved_hash=version if tool.approved_hash == tool.content_hash else "",
    )


def overlay_schema(schema: JsonText, setting: ToolSetting) -> JsonText:
    """Without what is hidden or fixed, and with other words where an operator chose them."""
    properties = _properties(schema) if setting.parameters else {}
    if not setting.parameters.keys() & properties.keys():
        return schema
    shown_properties = {
        setting.shown_name(name): _describe_parameter(each, setting, name)
        for name, each in properties.items()
        if setting.is_shown(name)
    }
    result: Fields = json.loads(schema) | {"properties": shown_properties}
    if shown_properties.keys() != properties.keys():
        result = {name: value for name, value in result.items() if name not in _ABOUT_PROPERTIES}
    required_names = result.get("required")
    if isinstance(required_names, list):
        result["required"] = [
            setting.shown_name(name) for name in required_names if isinstance(name, str) and setting.is_shown(name)
        ]
    return canonical_json(result)


def _describe_parameter(parameter: object, setting: ToolSetting, name: str) -> object:
    if not (description := setting.parameters.get(name, {}).get("description")):
        return parameter
    return (parameter if isinstance(parameter, dict) else {}) | {"description": description}


def source_arguments(setting: ToolSetting, tool: Tool, arguments: Mapping[str, Any]) -> Fields:
    """What the source's tool is sent for a call: its own names, and the fixed values. `tool`: as its source says.

    Raises InvalidArguments for a parameter that callers are not shown, as for one that there is not.
    """
    properties = _properties(tool.input_schema)
    theirs = {setting.shown_name(name): name for name in properties if setting.is_shown(name)}
    names = properties.keys() | setting.parameters.keys()
    if astray := [name for name in arguments if name not in theirs and name in names]:
        raise InvalidArguments(setting.name or tool.call_name, [(f"/{name}", "not known here") for name in astray])
    pins = {name: each["pin"] for name, each in setting.parameters.items() if "pin" in each and name in properties}
    return {theirs.get(name, name): value for name, value in arguments.items()} | pins


def _properties(schema: JsonText) -> Mapping[str, Any]:
    document = parse_field(schema)
    properties = document.get("properties") if isinstance(document, dict) else None
    return properties if isinstance(properties, dict) else {}


def merge_tool_setting(
    settings: OperatorSettings, tool: Tool, siblings: Sequence[Tool], changes: Mapping[str, Any]
) -> OperatorSettings:
    """With these fields of one tool changed: None takes one back, and what is not there stays. `tool` and `siblings`
    are as their source says. Raises InvalidSetting.
    """
    whole: dict[str, Fields] = parse_field(settings.tools) or {}
    before = whole.get(tool.name, {})
    _refuse_unknown("a tool", changes, _FIELDS)
    new_fields: Fields = {**before, **{name: value for name, value in changes.items() if name != "parameters"}}
    if "parameters" in changes:
        new_fields["parameters"] = _merge_parameters(tool, before.get("parameters", {}), changes["parameters"])
    empty: tuple[object, ...] = (None, {}, []) if "hiding_sources" in before else (None, {}, [], False)
    new_fields = {name: value for name, value in new_fields.items() if value not in empty}
    _check_flag(f"tool {tool.id!r}", new_fields.get("hidden"))
    _check_name(tool, siblings, whole, new_fields.get("name"))
    _check_text("description", new_fields.get("description"))
    _check_questions(new_fields.get("questions", []))
    return _with_tools(settings, {**whole, tool.name: new_fields})


def hide_tools(settings: OperatorSettings, source: str, names: Collection[str]) -> OperatorSettings:
    """With just these tools kept from models by the source."""
    whole: dict[str, Fields] = parse_field(settings.tools) or {}
    for name in {*whole, *names}:
        sources = {*whole.get(name, {}).get("hiding_sources", ())} - {source} | ({source} if name in names else set())
        others = {key: value for key, value in whole.get(name, {}).items() if key != "hiding_sources"}
        whole[name] = others | ({"hiding_sources": sorted(sources)} if sources else {})
    return _with_tools(settings, whole)


def _with_tools(settings: OperatorSettings, whole: Mapping[str, Fields]) -> OperatorSettings:
    """`whole`: what is said of each tool, by name; nothing is kept of one of which nothing is said."""
    whole = {name: fields for name, fields in whole.items() if fields}
    return replace(settings, tools=canonical_json(whole) if whole else "")


def _merge_parameters(tool: Tool, before: Mapping[str, Fields], changes: object) -> Fields:
    if changes is None:
        return {}
    if not isinstance(changes, Mapping):
        raise InvalidSetting(f"parameters takes an object by the parameters' names, not {show_value(changes)}")
    properties = _properties(tool.input_schema)
    new_parameters = dict(before)
    for name, change in changes.items():
        if change is not None and name not in properties:
            parameter_names = ", ".join(properties) or "none"
            raise InvalidSetting(f"{tool.id!r} has no parameter {name!r}; it has: {parameter_names}")
        new_parameters[name] = _merge_parameter(tool, name, new_parameters.get(name, {}), change)
    new_parameters = {name: each for name, each in new_parameters.items() if each}
    names = [str(new_parameters.get(name, {}).get("name", name)) for name in properties]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InvalidSetting(f"{tool.id!r} would have two parameters of the name {twice[0]!r}: choose another")
    return new_parameters


def _merge_parameter(tool: Tool, name: str, before: Fields, change: object) -> Fields:
    if change is None:
        return {}
    both = {**before, **check_parameter_setting(name, change)}
    new_fields = {key: value for key, value in both.items() if value is not None and (key, value) != ("hidden", False)}
    if "pin" in new_fields and new_fields["pin"] != before.get("pin"):
        _check_pin(tool, name, new_fields["pin"])
    required_names = json.loads(tool.input_schema).get("required")
    is_required = isinstance(required_names, list) and name in required_names
    if new_fields.get("hidden") and "pin" not in new_fields and is_required:
        raise InvalidSetting(f"parameter {name!r} of {tool.id!r} is required: to hide it, pin its value")
    return new_fields


def check_tool_settings(tools: Mapping[str, Mapping[str, Any]]) -> None:
    """What is said of tools, by the source's name, as far as it can be checked without them. Raises InvalidSetting."""
    for tool, setting in tools.items():
        _refuse_unknown(f"tool {tool[: identity.MAX_NAME_CHARS]!r}", setting, (*_FIELDS, "hiding_sources"))
        sources = setting.get("hiding_sources", [])
        if not isinstance(sources, list) or not all(isinstance(each, str) for each in sources):
            raise InvalidSetting(f"hiding_sources takes a list of sources, not {show_value(sources)}")
        if fault := identity.name_fault(setting.get("name", tool)):
            raise InvalidSetting(f"name of a tool: {fault}")
        _check_text("description", setting.get("description"))
        _check_questions(setting.get("questions", []))
        _check_flag(f"tool {tool[: identity.MAX_NAME_CHARS]!r}", setting.get("hidden"))
        parameters = setting.get("parameters", {})
        if not isinstance(parameters, Mapping):
            raise InvalidSetting(f"parameters takes an object by the parameters' names, not {show_value(parameters)}")
        for name, each in parameters.items():
            check_parameter_setting(name, each)


def check_parameter_setting(name: str, setting: object) -> Fields:
    """The setting itself. Raises InvalidSetting."""
    if not isinstance(setting, Mapping):
        field_names = ", ".join(_PARAMETER_FIELDS)
        raise InvalidSetting(f"parameter {name!r} takes an object of {field_names}, not {show_value(setting)}")
    _refuse_unknown(f"parameter {name!r}", setting, _PARAMETER_FIELDS)
    _check_flag(f"parameter {name!r}", setting.get("hidden"))
    _check_text(f"description of parameter {name!r}", setting.get("description"))
    _check_text(f"name of parameter {name!r}", setting.get("name"))
    try:
        pin_chars = len(canonical_json(setting.get("pin")))
    except (TypeError, ValueError, RecursionError):
        raise InvalidSetting(f"the value of parameter {name!r} is none that JSON can hold") from None
    if pin_chars > MAX_PIN_CHARS:
        raise InvalidSetting(f"the value of parameter {name!r} has at most {MAX_PIN_CHARS:,} characters as JSON")
    return dict(setting)


def _check_pin(tool: Tool, name: str, value: object) -> None:
    """A value that the source's schema refuses would fail every call, in words that may show it."""
    from waygraph.registry.model.arguments import check_arguments

    document = {key: each for key, each in json.loads(tool.input_schema).items() if key not in _ABOUT_PROPERTIES}
    alone = document | {"properties": {name: document["properties"][name]}, "required": []}
    try:
        check_arguments(replace(tool, input_schema=canonical_json(alone)), {name: value})
    except InvalidArguments as error:
        reasons = "; ".join(expectation for _, expectation in error.faults)
        raise InvalidSetting(f"the value of parameter {name!r} does not fit {tool.id!r}: {reasons}") from None


def _check_name(tool: Tool, siblings: Sequence[Tool], whole: Mapping[str, Fields], name: object) -> None:
    if name is None:
        return
    if fault := identity.name_fault(name):
        raise InvalidSetting(f"name of {tool.id!r}: {fault}")
    new_names = {each.get("name") for other, each in whole.items() if other != tool.name}
    if name in ({each.name for each in siblings} | new_names) - {tool.name}:
        raise InvalidSetting(f"{tool.agent_id!r} has a tool of the name {name!r} already: choose another")


def _check_flag(what: str, value: object) -> None:
    if not isinstance(value, bool | None):
        raise InvalidSetting(f"hidden of {what} is true or false, not {show_value(value)}")


def _check_text(what: str, text: object, most: int = MAX_TEXT_CHARS) -> None:
    if text is None:
        return
    if not isinstance(text, str) or not text.strip() or identity.is_broken(text) or len(text) > most:
        raise InvalidSetting(f"{what} is a text of 1 to {most:,} characters")
    if what.startswith("name") and identity.holds_control(text):
        raise InvalidSetting(f"{what} must not hold control characters")


def _check_questions(questions: object) -> None:
    if not isinstance(questions, list) or len(questions) > MAX_QUESTIONS:
        raise InvalidSetting(f"questions takes a list of at most {MAX_QUESTIONS}, not {show_value(questions)}")
    for text in questions:
        _check_text("a question", text, MAX_QUESTION_CHARS)


def _refuse_unknown(what: str, values: Mapping[str, Any], names: Sequence[str]) -> None:
    if unknown := sorted(map(str, values.keys() - set(names))):
        raise InvalidSetting(f"{', '.join(unknown)} cannot be set of {what}; what can is {', '.join(names)}")
