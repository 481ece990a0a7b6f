"""How entries differ from what the graph holds: changes for the log, the comparison of a sync, approval and flags."""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Any, Literal

from waygraph.ingest.manifest.suspicion.findings import OwnedElsewhere
from waygraph.ingest.sync.checks import Checks, OldTools
from waygraph.ingest.sync.copies import free_texts
from waygraph.registry.access.visibility import NEAR_ID, Shows, of_others, seen_flags
from waygraph.registry.graph.read import GraphView
from waygraph.registry.model.changes import AgentEntry, Change, Flagged, Policy, Updated
from waygraph.registry.model.identity import stated_fields, with_fields
from waygraph.registry.model.nouns import KNOWN, NOTICE, Agent, JsonText, Tool, canonical_json, suspicions
from waygraph.registry.model.tool_settings import ToolSetting, settings_of_tools
from waygraph.registry.model.transitions import owner_of

MAX_TEXT_CHARS = 1_000
"""Of each text that is kept; it is cut to where the two differ."""
_CONTEXT_CHARS = 80
"""So much is kept of what stands before that."""
_LISTED_TOOLS = 100
_DIGEST_CHARS = 16
MAX_ARRIVALS = 1_000
"""New agents of one sync that are logged one by one; of more only their number is."""
_OF_JSON = frozenset({"input_schema", "output_schema", "annotations", "transport", "tags", "questions", "visible_to"})
_HELD_OF_AGENT = frozenset({"name", "tags"})
"""Under `hold`. Its own description and version change with every release of a server, and take all its tools along."""

Tools = Mapping[str, Tool]
"""By name."""


def changes_of(source: str, agent: Agent, tools: Tools, entry: AgentEntry) -> Iterator[Change]:
    """The agent first, then its tools by name."""
    place: dict[str, Any] = {"source": source, "agent_id": agent.id}
    if fields := differing(agent, entry.agent):
        yield _change(place, agent, entry.agent, fields)
    now = {tool.name: tool for tool in entry.tools}
    for name in sorted({*tools, *now}):
        old, new = tools.get(name), now.get(name)
        differences = differing(old, new) if old and new else _filled_fields(old or new)
        if differences or not (old and new):
            yield _change({**place, "tool": name}, old, new, differences)


def removal(source: str, agent: Agent, tools: Iterable[str]) -> Change:
    """Of a whole agent, which takes its tools along."""
    change = _change({"source": source, "agent_id": agent.id}, agent, None, _filled_fields(agent))
    names = sorted(tools)[:_LISTED_TOOLS]
    return replace(change, before=canonical_json(json.loads(change.before) | {"tools": names})) if names else change


def _change(
    place: Mapping[str, Any], old: Agent | Tool | None, new: Agent | Tool | None, fields: Sequence[str]
) -> Change:
    """`place`: the source, and the ids of the agent and the tool, as a change has them."""
    what: Literal["added", "changed", "removed"] = "added" if old is None else "changed" if new else "removed"
    fields = sorted(fields)
    before, after = _texts(old, new, fields)
    return Change(
        **place,
        what=what,
        fields=tuple(fields),
        before_hash=old.content_hash if old else "",
        after_hash=new.content_hash if new else "",
        before=before,
        after=after,
        flags=new.flags if new else (),
    )


def _filled_fields(entity: Agent | Tool | None) -> tuple[str, ...]:
    """The fields in which its source says anything."""
    names = stated_fields(entity) if entity else ()
    return tuple(name for name in names if getattr(entity, name) not in ("", "{}", ()))


def _texts(old: Agent | Tool | None, new: Agent | Tool | None, fields: Iterable[str]) -> tuple[JsonText, JsonText]:
    """The fields before and after, as JSON objects."""
    before: dict[str, object] = {}
    after: dict[str, object] = {}
    for name in fields:
        values: Iterable[object] = [_plain(name, entity) if entity else None for entity in (old, new)]
        if name == "transport" and "skill" in (getattr(old, "kind", ""), getattr(new, "kind", "")):
            was, now = map(_facts_by_file, values)
            sides = zip(values, ((was, now), (now, was)), strict=True)
            values = [text and {k: v for k, v in its.items() if others.get(k) != v} for text, (its, others) in sides]
        one, other = (each if isinstance(each, str | None) else canonical_json(each) for each in values)
        start = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one or "", other or "", strict=False)))
        for side, text in ((before, one), (after, other)):
            if text is not None:
                side[name] = _excerpt(name, text, start)
    return canonical_json(before), canonical_json(after)


def _facts_by_file(transport: object) -> dict[str, object]:
    """Of a skill, with the beginning of each file's digest."""
    facts = json.loads(str(transport or "{}"))
    files = facts.pop("files", {})
    return {**facts, **{f"files/{path}": file["sha256"][:_DIGEST_CHARS] for path, file in files.items()}}


def _excerpt(name: str, text: str, start: int) -> object:
    """The value if it is short; else the text from shortly before where it differs."""
    if len(text) <= MAX_TEXT_CHARS:
        return json.loads(text) if text and name in _OF_JSON else text
    begin = max(0, start - _CONTEXT_CHARS)
    part = text[begin : begin + MAX_TEXT_CHARS]
    return f"{'…' if begin else ''}{part}{'…' if begin + MAX_TEXT_CHARS < len(text) else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """`written`: entries as they will be. `old_tools`: of their agents and of those that go. `gone`: ids of agents."""

    source: str
    graph: GraphView
    entries: Sequence[AgentEntry]
    old_tools: OldTools
    gone_agents: Sequence[str]
    shows: Shows | None

    def created_agents(self) -> list[str]:
        return [entry.agent.id for entry in self.entries if entry.agent.id not in self.graph.agents]

    def created_tools(self) -> list[str]:
        return [tool.id for entry in self.entries for tool in entry.tools if tool.name not in self._old(entry)]

    def updated_agents(self) -> list[Updated]:
        pairs = ((old, entry.agent) for entry in self.entries if (old := self._agent(entry)))
        fields = ((new.id, (*differing(old, new), *["status"] * (old.status != new.status))) for old, new in pairs)
        return [Updated(id=agent_id, fields=names) for agent_id, names in fields if names]

    def updated_tools(self) -> list[Updated]:
        pairs = ((self._old(entry).get(tool.name), tool) for entry in self.entries for tool in entry.tools)
        fields = ((new.id, differing(old, new)) for old, new in pairs if old)
        return [Updated(id=tool_id, fields=names) for tool_id, names in fields if names]

    def removed_tools(self) -> list[str]:
        ids = [tool.id for agent_id in self.gone_agents for tool in self.old_tools.get(agent_id, {}).values()]
        for entry in self.entries:
            names = {tool.name for tool in entry.tools}
            ids += [tool.id for name, tool in self._old(entry).items() if name not in names]
        return ids

    def flagged_texts(self) -> Iterator[Flagged]:
        """What is new or says something else, and looks suspicious, with the flags that its sender may read."""
        for entry in self.entries:
            old = self._agent(entry)
            hashes = {tool.id: tool.content_hash for tool in self._old(entry).values()}
            hashes[entry.agent.id] = old.content_hash if old else ""
            for each in entry.entities:
                flags = each.flags if self.shows is None else seen_flags(each.flags, self.shows)
                if flags and hashes.get(each.id) != each.content_hash:
                    yield Flagged(id=each.id, flags=flags)

    def log(self) -> Iterator[Change]:
        """What is new of agents that were known before, and the agents that come and go."""
        new_entries = [entry for entry in self.entries if not self._agent(entry)]
        is_large = len(new_entries) > MAX_ARRIVALS
        if not is_large:
            for entry in new_entries:  # what it says, the graph itself holds
                change = _change({"source": self.source, "agent_id": entry.agent.id}, None, entry.agent, ())
                yield replace(change, after=canonical_json({"tools": len(entry.tools)}))
        if is_large or not self.graph.was_read(self.source):
            counts = {"agents": len(new_entries), "tools": sum(len(entry.tools) for entry in new_entries)}
            what = canonical_json(counts)
            yield Change(source=self.source, agent_id=f"source:{self.source}", what="added", after=what)
        for entry in self.entries:
            if old := self._agent(entry):
                settings = settings_of_tools(self.graph.settings.get(old.id))
                for change in changes_of(self.source, old, self._old(entry), entry):
                    yield replace(change, covered=_covered_fields(change, settings.get(change.tool)))
        for agent_id in self.gone_agents:
            yield removal(self.source, self.graph.agents[agent_id].agent, self.old_tools.get(agent_id, {}))

    def _agent(self, entry: AgentEntry) -> Agent | None:
        item = self.graph.agents.get(entry.agent.id)
        return item.agent if item else None

    def _old(self, entry: AgentEntry) -> Mapping[str, Tool]:
        return self.old_tools.get(entry.agent.id, {})


def _covered_fields(change: Change, setting: ToolSetting | None) -> tuple[str, ...]:
    """The fields of a tool that changed and over which an operator's words stand."""
    if setting is None:
        return ()
    covers = {"description": setting.description, "input_schema": setting.parameters}
    return tuple(name for name in change.fields if covers.get(name))


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """Weighs entries that are to be written. `first`: the source was never read before; `restoring`: it is an export's,
    which says itself what of it waits; `by_address`: it was fetched from the web.
    """

    policy: Policy
    first: bool
    restoring: bool = False
    by_address: bool = False
    checks: Checks = field(default_factory=Checks, repr=False)
    owners_meant: Mapping[str, Collection[str]] = field(default_factory=dict, repr=False)
    """By each name of a tool that the texts put aside or have called: the agents that have one, this one included."""
    shows: Shows | None = field(default=None, repr=False)
    """To who sent the entry: for what that one may not see nothing waits, since that would tell of it."""
    yields: Shows = field(default=lambda _owner: False, repr=False)
    """Whether another agent is known less long, or trusted less, than the one that is judged."""
    alike_ids: Mapping[str, Collection[str]] = field(default_factory=dict, repr=False)
    """By id of agents and tools: others that a person takes for it."""
    copy_flags: Callable[[Tool, Tool | None], Iterable[str]] = field(default=lambda _new, _old: (), repr=False)
    """Of a tool and of what is held of it: why it looks like a copy of another server's."""

    def judge(self, entry: AgentEntry, old: Agent | None, tools: Mapping[str, Tool]) -> AgentEntry:
        """The entry with what is known of its approval; `tools` are the agent's as held, by name."""
        own = {tool.name for tool in entry.tools}

        def owned_elsewhere(names: Collection[str]) -> dict[str, set[str]]:
            return {name: {*self.owners_meant.get(name, ())} - {entry.agent.id} for name in names if name not in own}

        wary = self.by_address or entry.agent.status != KNOWN  # a server that was asked runs code
        new_tools = tuple(self._tool(tool, tools.get(tool.name), owned_elsewhere, wary=wary) for tool in entry.tools)
        return replace(entry, agent=self._agent(entry.agent, old, new_tools, owned_elsewhere), tools=new_tools)

    def _agent(self, new: Agent, old: Agent | None, tools: Collection[Tool], elsewhere: OwnedElsewhere) -> Agent:
        fields = differing(old, new) if old else ()
        if old and not fields:
            return with_fields(new, **_standing(old))
        if fields == ("description",) and not any(tool.pending for tool in tools):
            # What tools say was judged with them.
            fields = () if self.checks.is_made_of_tools(new, tools) else fields
        # A skill is its files: each of them is read by a model, or run by whoever follows it.
        is_changed = self._holds(fields, fields if new.kind == "skill" else _HELD_OF_AGENT.intersection(fields))
        return with_fields(
            new,
            **self._weigh(new, old, is_changed=is_changed, same_words={"visible_to"}.issuperset(fields)),
            flags=tuple(dict.fromkeys(self._flags(new, old, elsewhere))),
        )

    def _tool(self, new: Tool, old: Tool | None, elsewhere: OwnedElsewhere, *, wary: bool) -> Tool:
        fields = differing(old, new) if old else ()
        status = old.status if old and new.status == KNOWN else new.status
        if old and not fields:
            return with_fields(new, **_standing(old), status=status)
        flags = tuple(dict.fromkeys((*self._flags(new, old, elsewhere), *self.copy_flags(new, old))))
        is_changed = self._holds(fields, fields)
        if old and wary and not self.restoring:
            read = flags if self.shows is None else seen_flags(flags, self.shows)
            is_changed |= bool(suspicions(read)) or bool(free_texts(new.input_schema) - free_texts(old.input_schema))
        return with_fields(new, **self._weigh(new, old, is_changed=is_changed), flags=flags, status=status)

    def _holds(self, fields: Collection[str], fields_of_hold: Collection[str]) -> bool:
        """Whether the policy holds an entity back of which these fields changed; `hold` looks at some of them."""
        return bool(
            (fields and self.policy == "strict") or (fields_of_hold and self.policy == "hold" and not self.first)
        )

    def _flags(self, new: Agent | Tool, old: Agent | Tool | None, elsewhere: OwnedElsewhere) -> Iterator[str]:
        """A name that was marked stays so."""
        yield from (*new.flags, *self.checks.flags(new, elsewhere, self.yields))
        if old:
            yield from (flag for flag in old.flags if NEAR_ID in flag)
        elif others := self.alike_ids.get(new.id):
            reason = of_others(NEAR_ID, {*map(owner_of, others)}, canonical_json(new.id))
            yield f"{NOTICE}{'id' if isinstance(new, Agent) else 'name'}: {reason}"

    def _weigh(
        self, new: Agent | Tool, old: Agent | Tool | None, *, is_changed: bool, same_words: bool = False
    ) -> dict[str, Any]:
        """Whether it waits. What was approved word for word once does not, nor what others may see since."""
        is_new = old is None and not self.restoring
        is_added = is_new and (self.policy == "strict" or (self.policy == "hold" and not self.first))
        if self.policy != "accept" and (is_new or (old and not same_words)):
            is_changed |= self.checks.scores_high(new)
        approved_hash = old.approved_hash if old else new.approved_hash
        if old and same_words and not is_changed and approved_hash == old.content_hash:
            approved_hash = new.content_hash
        waits = is_added or is_changed or new.pending or (old is not None and old.pending)
        return {"pending": waits and approved_hash != new.content_hash, "approved_hash": approved_hash}


def _standing(old: Agent | Tool) -> dict[str, Any]:
    """What stays with words that stay."""
    return {"pending": old.pending, "flags": old.flags, "approved_hash": old.approved_hash}


def differing(old: Agent | Tool, new: Agent | Tool) -> tuple[str, ...]:
    """The fields in which their sources say something else."""
    return tuple(name for name in stated_fields(new) if _plain(name, old) != _plain(name, new))


def _plain(name: str, of: Agent | Tool) -> str | tuple[str, ...]:
    """The order of tags says nothing, that of questions which come first."""
    value: str | tuple[str, ...] = getattr(of, name)
    return tuple(sorted(value)) if isinstance(value, tuple) and name != "questions" else value
