"""What a sync changes of agents that were known before, for the log: which fields, and the texts before and after."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any, Literal, NamedTuple

from waygraph.ingest.policies import differing
from waygraph.registry.changes import TELLING_OF_AGENT, TELLING_OF_TOOL, AgentEntry, Change
from waygraph.registry.identity import canonical_json
from waygraph.registry.model import Agent, JsonText, Tool

MAX_TEXT_CHARS = 1_000
"""Of each text that is kept; it is cut to where the two differ."""
_CONTEXT_CHARS = 80
"""So much is kept of what stands before that."""
_LISTED_TOOLS = 100
LOGGED_OF_AGENT = tuple(sorted(TELLING_OF_AGENT))
LOGGED_OF_TOOL = (*sorted(TELLING_OF_TOOL), "tags")
_OF_JSON = frozenset({"input_schema", "output_schema", "annotations", "transport"})

Tools = Mapping[str, Tool]
"""By name."""


def changes_of(source: str, held: Agent, tools: Tools, entry: AgentEntry) -> Iterator[Change]:
    """The agent first, then its tools by name."""
    fields = differing(held, entry.agent, LOGGED_OF_AGENT)
    if fields:
        yield _change(_Place(source, held.id), held, entry.agent, fields)
    now = {tool.name: tool for tool in entry.tools}
    for name in sorted({*tools, *now}):
        old, new = tools.get(name), now.get(name)
        changed = differing(old, new, LOGGED_OF_TOOL) if old and new else _said(old or new, LOGGED_OF_TOOL)
        if changed or not (old and new):
            yield _change(_Place(source, held.id, name), old, new, changed)


def removal(source: str, held: Agent, tools: Iterable[str]) -> Change:
    """Of a whole agent, which takes its tools along."""
    change = _change(_Place(source, held.id), held, None, _said(held, LOGGED_OF_AGENT))
    named = sorted(tools)[:_LISTED_TOOLS]
    return replace(change, before=canonical_json(json.loads(change.before) | {"tools": named})) if named else change


class _Place(NamedTuple):
    """Who says it, and of whom. `tool` empty: of the agent itself."""

    source: str
    agent_id: str
    tool: str = ""


def _change(place: _Place, old: Agent | Tool | None, new: Agent | Tool | None, fields: Sequence[str]) -> Change:
    what: Literal["added", "changed", "removed"] = "added" if old is None else "changed" if new else "removed"
    before, after = _texts(old, new, fields)
    return Change(
        **place._asdict(),
        what=what,
        fields=tuple(fields),
        before_hash=old.content_hash if old else "",
        after_hash=new.content_hash if new else "",
        before=before,
        after=after,
        flags=new.flags if new else (),
    )


def _said(entity: Agent | Tool | None, fields: Iterable[str]) -> tuple[str, ...]:
    """The fields that say anything."""
    return tuple(name for name in fields if entity and getattr(entity, name) not in ("", "{}", ()))


def _texts(old: Agent | Tool | None, new: Agent | Tool | None, fields: Iterable[str]) -> tuple[JsonText, JsonText]:
    """The fields before and after, as JSON objects."""
    before: dict[str, object] = {}
    after: dict[str, object] = {}
    for name in fields:
        one, other = (_text(getattr(entity, name)) if entity else None for entity in (old, new))
        start = _common(one or "", other or "")
        for side, text in ((before, one), (after, other)):
            if text is not None:
                side[name] = _excerpt(name, text, start)
    return canonical_json(before), canonical_json(after)


def _common(one: str, other: str) -> int:
    """How many characters both begin with."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else canonical_json(sorted(value))


def _excerpt(name: str, text: str, start: int) -> object:
    """The value if it is short; else the text from shortly before where it differs."""
    if len(text) <= MAX_TEXT_CHARS:
        return json.loads(text) if text and (name in _OF_JSON or name == "tags") else text
    begin = max(0, start - _CONTEXT_CHARS)
    kept = text[begin : begin + MAX_TEXT_CHARS]
    return f"{'…' if begin else ''}{kept}{'…' if begin + MAX_TEXT_CHARS < len(text) else ''}"
