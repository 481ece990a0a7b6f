"""Which agent each entry of a manifest is: one that the source ids_by_key before, one of the same launch, or a new one.

Different agents of one id are kept apart by the later source's namespace; of one source, by the document of each.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath

from waygraph.ingest.manifest.records import Manifest
from waygraph.registry.graph.read import GraphView, Part, StoredAgent
from waygraph.registry.model.changes import AgentEntry, Claim, OperatorSettings, Rejected, plain_key
from waygraph.registry.model.identity import agent_id as id_of
from waygraph.registry.model.identity import namespaced_id, place_under
from waygraph.registry.model.nouns import JsonText


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """`entries`: under the ids that are theirs. `renamed`: key and id of those whose id is not the one they asked for.

    `withheld`: ids that an operator removed; no entry is of them.
    """

    entries: Sequence[AgentEntry]
    rejected: Sequence[Rejected]
    renamed: Sequence[tuple[str, str]]
    withheld: Sequence[str]


def place(graph: GraphView, manifest: Manifest, mine: Mapping[str, Claim], *, is_apart: bool = False) -> Placement:
    """`mine`: the source's own claims, by agent id. `is_apart`: what is new is no agent of another source, and is
    called in its namespace, whichever ids are free: where it goes tells nothing of what its writer may not see.
    """
    ids_by_key = {claim.key: claim.agent_id for claim in mine.values()}
    entries, rejections = _distinct(manifest)
    entries = _tell_apart(graph, entries, ids_by_key)
    ids = _Ids(graph, manifest, ids_by_key, is_apart)
    pairs = ids.choose_ids(entries)
    return Placement(
        entries=_unasked_as_held(graph, [_under(i, e) for i, e in pairs if not ids.is_removed(i)]),
        rejected=rejections,
        renamed=[(entry.key, agent_id) for agent_id, entry in pairs if agent_id != entry.agent.id],
        withheld=[agent_id for agent_id, _ in pairs if ids.is_removed(agent_id)],
    )


def part_of(manifest: Manifest) -> Part:
    """The agents by which entries are placed: of the ids that may be theirs, claimed already, of the same launch."""
    ids = {setting.agent_id for setting in manifest.operator}
    for entry in manifest.entries:
        for key in {entry.key, entry.key_in_document}:
            ids |= {entry.agent.id, *_other_ids(manifest, replace(entry, key=key))}
    launches = {entry.agent.transport for entry in manifest.entries}
    return Part(agent_ids=ids, transports={each for each in launches if tells_apart(each)}, sources=[manifest.source])


def _distinct(manifest: Manifest) -> tuple[list[AgentEntry], list[Rejected]]:
    """The first entry of each key in each document; the others are rejected."""
    first: dict[tuple[str, str], AgentEntry] = {}
    rejections: list[Rejected] = []
    for entry in manifest.entries:
        if first.setdefault((entry.key, entry.document), entry) is not entry:
            where = f"{manifest.source}/{entry.document}" if entry.document else manifest.source
            reason = f"this source lists agent {entry.key!r} twice; the first one is kept"
            rejections.append(Rejected(where=where, reason=reason, key=entry.key))
    return list(first.values()), rejections


def _tell_apart(graph: GraphView, entries: Sequence[AgentEntry], ids_by_key: dict[str, str]) -> list[AgentEntry]:
    """Those of one key in several documents get each a key of its own; what is the same word for word is one.

    `ids_by_key`: key → agent id. Of an agent that had the plain key it is noted there which of them it is.
    """
    by_key: dict[str, dict[str, AgentEntry]] = {}
    for entry in entries:
        by_key.setdefault(entry.key, {}).setdefault(entry.bundle_hash if entry.document else "", entry)
    apart_before = {plain_key(key) for key in ids_by_key if plain_key(key) != key}
    result: list[AgentEntry] = []
    for key, different in by_key.items():
        if len(group := list(different.values())) > 1 or key in apart_before:
            group = [replace(entry, key=entry.key_in_document) for entry in group]
            new = [entry for entry in group if entry.key not in ids_by_key]
            if new and key in ids_by_key and (heir := _most_like(graph, ids_by_key[key], new)):
                ids_by_key[heir.key] = ids_by_key[key]
        result += group
    return result


def _most_like(graph: GraphView, agent_id: str, entries: Sequence[AgentEntry]) -> AgentEntry | None:
    """The entry that the agent most likely is; None if it has nothing in common with any."""
    if (former := graph.agents.get(agent_id)) is None:
        return None
    names = {item.tool.name for item in graph.tools_of([agent_id]).get(agent_id, ())}

    def likeness(entry: AgentEntry) -> tuple[bool, bool, int]:
        same_transport = bool(entry.agent.transport) and entry.agent.transport == former.agent.transport
        in_common = len(names & {tool.name for tool in entry.tools})
        return entry.bundle_hash == former.bundle_hash, same_transport, in_common

    best = max(entries, key=likeness)
    return best if any(likeness(best)) else None


def _under(agent_id: str, entry: AgentEntry) -> AgentEntry:
    """With its tools in the graph's order: the agent's text names them, and must be the same when embedded anew."""
    agent, tools = place_under(entry.agent, tuple(sorted(entry.tools, key=lambda tool: tool.name)), agent_id)
    return replace(entry, agent=agent, tools=tools)


def _unasked_as_held(graph: GraphView, entries: Sequence[AgentEntry]) -> list[AgentEntry]:
    """What is held stands in place of what a source says of servers that were not asked."""
    stay = {entry.agent.id for entry in entries if entry.unasked} & graph.agents.keys()
    tools = graph.tools_of(sorted(stay)) if stay else {}
    return [
        replace(
            entry,
            agent=graph.agents[entry.agent.id].agent,
            tools=tuple(item.tool for item in tools.get(entry.agent.id, ())),
        )
        if entry.unasked and entry.agent.id in stay
        else entry
        for entry in entries
    ]


@dataclass(slots=True)
class _Ids:
    """`ids_by_key`: key → the agent that this source ids_by_key by it."""

    graph: GraphView
    manifest: Manifest
    ids_by_key: Mapping[str, str]
    is_apart: bool
    ids_by_transport: dict[str, list[str]] = field(default_factory=dict)
    """Ids of the agents held, by transport."""
    settings: dict[str, OperatorSettings] = field(default_factory=dict)
    """What operators said, the manifest's own word included."""

    def __post_init__(self) -> None:
        self.settings = {**self.graph.settings, **{setting.agent_id: setting for setting in self.manifest.operator}}
        for agent_id, item in self.graph.agents.items():
            self.ids_by_transport.setdefault(item.agent.transport, []).append(agent_id)

    def choose_ids(self, entries: Sequence[AgentEntry]) -> list[tuple[str, AgentEntry]]:
        """An id for each, all different."""
        other_ids = {self.ids_by_key[entry.key] for entry in entries if entry.key in self.ids_by_key}
        counts = Counter(entry.agent.transport for entry in entries)
        pairs: list[tuple[str, AgentEntry]] = []
        for entry in entries:
            agent_id = self.ids_by_key.get(entry.key) or self._new(entry, counts[entry.agent.transport] == 1, other_ids)
            other_ids.add(agent_id)
            pairs.append((agent_id, entry))
        return pairs

    def is_removed(self, agent_id: str) -> bool:
        """Whether an operator removed it."""
        setting = self.settings.get(agent_id)
        return setting is not None and setting.removed

    def _new(self, entry: AgentEntry, alone: bool, other_ids: set[str]) -> str:
        if self.manifest.restores and self._is_free(entry.agent.id, entry, other_ids):
            return entry.agent.id  # the id that it had, whichever others are ids_by_transport like it
        if self.is_apart:
            long_id, own = _other_ids(self.manifest, entry)
            return own if self._has_settings(own) or {long_id} & {*self.graph.agents, *other_ids} else long_id
        free = self._free_id(entry, other_ids)
        # The one agent that is reached like this entry, if the entry is also the only one of its source.
        same = self.ids_by_transport.get(entry.agent.transport, []) if tells_apart(entry.agent.transport) else []
        is_same = alone and len(same) == 1 and same[0] not in other_ids and not self.is_removed(free)
        return same[0] if is_same else free

    def _free_id(self, entry: AgentEntry, other_ids: set[str]) -> str:
        """The entry's own id, unless a different agent has it."""
        plain_id = entry.agent.id
        long_id, own = _other_ids(self.manifest, entry)
        if self._has_settings(own):  # no other entry has it: what an operator removed does not come back beside it
            return own
        # What an operator said of the namespaced id holds on, also when the plain one has become free.
        has_namespaced = self._has_settings(long_id) and not self._has_settings(plain_id)
        candidates = (long_id, plain_id) if has_namespaced else (plain_id, long_id)
        return next((candidate for candidate in candidates if self._is_free(candidate, entry, other_ids)), own)

    def _is_free(self, candidate: str, entry: AgentEntry, other_ids: set[str]) -> bool:
        """Whether no other agent has this id."""
        item = self.graph.agents.get(candidate)
        return candidate not in other_ids and (item is None or same_agent(item, entry))

    def _has_settings(self, agent_id: str) -> bool:
        """Whether operators said anything that holds: a word that was taken back counts no more."""
        return self.settings.get(agent_id, OperatorSettings(agent_id=agent_id)) != OperatorSettings(agent_id=agent_id)


def _other_ids(manifest: Manifest, entry: AgentEntry) -> tuple[str, str]:
    """What an entry is called where another agent has its id: in its namespace, and one that no other entry has."""
    namespace = _namespace(manifest, entry)
    own = namespaced_id(namespace, entry.agent.id, manifest.source, entry.key)
    return namespaced_id(namespace, entry.agent.id), own


def _namespace(manifest: Manifest, entry: AgentEntry) -> str:
    """That of the source, or of the document of an entry that is told apart by it: `v2` of `v2.json`."""
    if plain_key(entry.key) == entry.key or not entry.document:
        return manifest.namespace
    path = PurePath(entry.document)
    parts = [*path.parts[:-1], *([] if path.name.casefold() == "skill.md" else [path.stem])]
    if parts[1:] and id_of(parts[-1]) == entry.agent.id:
        parts.pop()
    return "/".join(parts) or manifest.namespace


def same_agent(item: StoredAgent, entry: AgentEntry) -> bool:
    """One launch or URL is one agent; so is the same content, word for word."""
    if item.agent.transport and entry.agent.transport:
        return item.agent.transport == entry.agent.transport
    return item.bundle_hash == entry.bundle_hash


def tells_apart(transport: JsonText) -> bool:
    """Whether a transport by itself names one agent: it says where, and no reference in it stands for what differs."""
    fields = json.loads(transport) if transport else {}
    return bool(fields.get("url") or fields.get("command")) and "${" not in transport
