"""Names and hashes: the one place that makes agent ids, tool ids, call names and content hashes."""

import re
from dataclasses import replace
from hashlib import sha256
from typing import Any

from waygraph.registry.model.nouns import Agent, JsonText, Tool, canonical_json

STATED_OF_AGENT = ("name", "description", "kind", "version", "transport", "tags", "visible_to")
STATED_OF_TOOL = ("description", "input_schema", "output_schema", "annotations", "tags", "questions")
"""What a source says of an entity, its name as a tool apart, which no other has: it is hashed, compared, logged, shown
to reviewers and written. What a model or the ranking reads is among it.
"""
_WITHOUT_WORDS = frozenset({"kind", "transport", "visible_to"})
"""What neither a model nor the ranking reads as text: it is shown to reviewers, and no rule looks for orders in it."""
AGENT_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9 _.-]*")
MAX_NAME_CHARS = 128
_SHORT_HASH_CHARS = 8
_CALL_NAME_CHARS = 64
_KEPT_CHARS = _CALL_NAME_CHARS - 13
"""So much of a call name that is shortened stays readable, before `_` and 12 digits."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_LONE_SURROGATE = re.compile(r"[\ud800-\udfff]")
_HASH_SUFFIX = re.compile(r"_[0-9a-f]{12}")


def stated_fields(entity: Agent | Tool) -> tuple[str, ...]:
    return STATED_OF_TOOL if isinstance(entity, Tool) else STATED_OF_AGENT


def stated_words(entity: Agent | Tool) -> dict[str, str | tuple[str, ...]]:
    """What a model or the ranking reads of an entity, its name included, by field; without fields that say nothing."""
    names = dict.fromkeys(("name", *stated_fields(entity)))
    return {each: value for each in names if each not in _WITHOUT_WORDS and (value := getattr(entity, each))}


def digest(*parts: str) -> str:
    """SHA-256, in hex, of the parts, each set off from the next so that none can run into another."""
    return sha256("\x00".join(f"{len(part)}:{part}" for part in parts).encode("utf-8", "surrogatepass")).hexdigest()


def is_broken(text: str) -> bool:
    """Whether it holds half of a surrogate pair, which no engine keeps and no UTF-8 can say."""
    return _LONE_SURROGATE.search(text) is not None


def replace_surrogates(text: str) -> str:
    """The text with `?` for each half of a surrogate pair."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def copy_text(text: str) -> str:
    """A text of its own: one that stays where its document lay keeps the memory around it from being used again."""
    return text.encode().decode()


def holds_control(text: str) -> bool:
    """Whether a control character is in it, such as a line break."""
    return _CONTROL.search(text) is not None


def name_fault(name: object) -> str:
    """Why this cannot be a name; empty if it can."""
    if not isinstance(name, str) or not name.strip():
        return "a name must be a non-empty string"
    if len(name) > MAX_NAME_CHARS:
        return f"a name has at most {MAX_NAME_CHARS} characters, this has {len(name)}"
    if holds_control(name):
        return "a name must not hold control characters"
    if is_broken(name):
        return "a name must be whole characters, this holds half of a surrogate pair"
    return ""


def sound_names(*names: str) -> list[str]:
    """Each as it is, or empty if it cannot be a name."""
    return ["" if name_fault(name) else name for name in names]


def agent_id(key: str) -> str:
    """The source's own key if it is a legal id (`/` becomes `.`); else what is legal of it and a short hash."""
    plain = key.strip().replace("/", ".")
    if AGENT_ID.fullmatch(plain) and len(plain) <= MAX_NAME_CHARS:
        return plain
    legal = re.sub(r"[^A-Za-z0-9_.-]+", "-", plain).strip("-_. ")[: MAX_NAME_CHARS - _SHORT_HASH_CHARS - 1]
    return f"{legal or 'agent'}-{digest(key)[:_SHORT_HASH_CHARS]}"


def plain_id(name: str) -> str:
    """What is left of a name for who overlooks case, dots, blanks, hyphens and underscores."""
    return re.sub(r"[\s._-]", "", name).lower()


def namespaced_id(namespace: str, local_id: str, *distinguish: str) -> str:
    """`<namespace>.<id>`, legal; with a short hash of what distinguishes it if that is given."""
    suffix = f"-{digest(*distinguish)[:_SHORT_HASH_CHARS]}" if distinguish else ""
    return agent_id(f"{agent_id(namespace) if namespace else 'other'}.{local_id}{suffix}")


def tool_id(agent: str, tool_name: str) -> str:
    return f"{agent}/{tool_name}"


def call_name(agent: str, tool_name: str) -> str:
    """A name legal for every host, `[A-Za-z_][A-Za-z0-9_-]{0,63}`, and different for different tools.

    `<agent>__<tool>` where that loses nothing and could be no other's; else shortened, with 12 hex digits of the
    tool id's hash.
    """
    full_name = f"{agent}__{tool_name}"
    legal = _legal(full_name)
    plain = legal == full_name and full_name.count("__") == 1 and "___" not in full_name
    if plain and len(legal) <= _CALL_NAME_CHARS and not _HASH_SUFFIX.fullmatch(legal[-13:]):
        return legal
    return f"{legal[:_KEPT_CHARS]}_{digest(agent, tool_name)[:12]}"


def call_prefix(agent: str) -> str:
    """What the call names of all tools of an agent begin with; other agents may have the same."""
    return _legal(f"{agent}__")[:_KEPT_CHARS]


def _legal(name: str) -> str:
    legal = re.sub(r"[^A-Za-z0-9_-]", "_", name)
    return legal if not legal[0].isdigit() and legal[0] != "-" else f"_{legal}"


def sealed_agent(agent: Agent) -> Agent:
    """The agent with its content hash: of all that its source says of it, its id apart."""
    fields = (agent.name, agent.description, agent.kind, agent.version, agent.transport)
    lists = (digest(*sorted(agent.tags)), digest(*sorted(agent.visible_to)))
    return replace(agent, content_hash=digest(*fields, *lists))


def sealed_tool(tool: Tool) -> Tool:
    """The tool with its content hash (ScaleMCP, Algorithm 1, line 3: name, description, arguments) and call name."""
    fields = (tool.name, tool.description, tool.input_schema, tool.output_schema, tool.annotations)
    # No tag holds a line break, so that questions are never taken for tags.
    questions = (f"\nquestions {digest(*tool.questions)}",) if tool.questions else ()
    return replace(
        tool,
        call_name=call_name(tool.agent_id, tool.name),
        content_hash=digest(*fields, *sorted(tool.tags), *questions),
    )


def place_under(agent: Agent, tools: tuple[Tool, ...], new_id: str) -> tuple[Agent, tuple[Tool, ...]]:
    """The same agent and tools under another agent id."""
    new_tools = tuple(
        with_fields(t, id=tool_id(new_id, t.name), agent_id=new_id, call_name=call_name(new_id, t.name)) for t in tools
    )
    return with_fields(agent, id=new_id), new_tools


def with_fields[T: (Agent, Tool)](entity: T, **fields: Any) -> T:
    """The entity itself where it has these already: copies of a large manifest take as much memory as itself."""
    return (
        entity if all(getattr(entity, name) == value for name, value in fields.items()) else replace(entity, **fields)
    )


MESSAGE, TASK, CONTEXT = "message", "task_id", "context_id"


SKILL_MESSAGE: JsonText = canonical_json(
    {
        "type": "object",
        "properties": {
            MESSAGE: {"type": "string", "minLength": 1, "description": "What the agent is asked, in words."},
            TASK: {"type": "string", "description": "Of a task that asked for more: to go on with it."},
            CONTEXT: {"type": "string", "description": "Of an earlier answer: to go on with that conversation."},
        },
        "required": [MESSAGE],
        "additionalProperties": False,
    }
)
"""No word of it is searched, and none is embedded."""


def describes_object(schema: object) -> bool:
    """Whether an object is among what the schema says to be of."""
    kind = schema.get("type") if isinstance(schema, dict) else None
    return kind == "object" or (isinstance(kind, list) and "object" in kind)
