"""Rows of the graph to nouns: what is held, by whom it is claimed, what operators said of it."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import batched
from typing import TYPE_CHECKING, Any, NamedTuple

from waygraph.cypher import Statement, load
from waygraph.registry.access.visibility import Shows, visible
from waygraph.registry.graph.engine import BATCH_ROWS, GraphSession, Rows
from waygraph.registry.model.changes import Change, Claim, OperatorSettings, Policy, SourceSummary, read_failures
from waygraph.registry.model.identity import is_broken
from waygraph.registry.model.nouns import Agent, Principal, TextForm, Tool
from waygraph.registry.model.tool_settings import mark_rejection, overlay_tools
from waygraph.registry.model.transitions import Transition

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_READ_AGENTS = load("read/agents")
_READ_AGENTS_ALIKE = load("read/agents_alike")
_READ_AGENTS_CLAIMED = load("read/agents_claimed")
_READ_AGENTS_LAUNCHED = load("read/agents_launched")
_READ_AGENTS_OF = load("read/agents_of")
_READ_AGENT_VECTORS = load("read/agent_vectors")
_READ_CHANGES = load("read/changes")
_READ_CHANGES_OF = load("read/changes_of")
_READ_CLAIMS = load("read/claims")
_READ_CLAIMS_OF = load("read/claims_of")
_READ_DOUBTFUL_TOOLS = load("read/doubtful_tools")
_READ_SETTINGS = load("read/settings")
_READ_SETTINGS_OF = load("read/settings_of")
_READ_SOURCES = load("read/sources")
_READ_TOOLS = load("read/tools")
_READ_TOOLS_NAMED = load("read/tools_named")
_READ_TOOLS_OF = load("read/tools_of")
_READ_TOOL_VECTORS = load("read/tool_vectors")
_READ_TRANSITIONS = load("read/transitions")
_STATE_READ = load("state/read")
_SYNC_COUNT_ALL_CHANGES = load("sync/count_all_changes")
_SYNC_COUNT_CHANGES = load("sync/count_changes")
_SYNC_OLDEST_ARRIVALS = load("sync/oldest_arrivals")
_SYNC_OLDEST_CHANGES = load("sync/oldest_changes")
_SYNC_PUT_CHANGES = load("sync/put_changes")
_SYNC_REMOVE_CHANGES = load("sync/remove_changes")


# The log of changes in the graph: `(:Change)` nodes, written by the transaction that makes the change.
#
# The id begins with the revision, so that the order of ids is that of time.


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """What a transaction makes: its time (ISO 8601 in UTC) and revision."""

    now: str
    revision: int


def stamp_changes(log: Sequence[Change], stamp: Stamp) -> list[Change]:
    """Each with its id, time and revision."""
    return [
        replace(change, id=f"{stamp.revision:012d}-{number:06d}", at=stamp.now, revision=stamp.revision)
        for number, change in enumerate(log)
    ]


def keep_changes(session: GraphSession, log: Sequence[Change], max_kept: int) -> None:
    """Adds to the log, of which at most `max_kept` are kept. Nothing to add costs nothing.

    The oldest arrivals go first: what they tell, claims tell too. Then the oldest changes, of the agents that have the
    most: an agent that changes without end drives out no other's changes.
    """
    if not log:
        return
    changes = _fair_part([each for each in log if not each.is_arrival], max_kept)
    arrivals = [each for each in log if each.is_arrival]
    put_changes(session, [*changes, *arrivals[len(arrivals) - min(len(arrivals), max_kept - len(changes)) :]])
    if (surplus := session.run(_SYNC_COUNT_ALL_CHANGES)[0]["changes"] - max_kept) <= 0:
        return
    _forget_changes(session, session.run(_SYNC_OLDEST_ARRIVALS, rows=surplus))
    counts = {row["agent_id"]: int(row["changes"]) for row in session.run(_SYNC_COUNT_CHANGES)}
    share = _share(counts.values(), max_kept)
    for agent_id, count in counts.items():
        _forget_oldest(session, count - share, [agent_id])
    _forget_oldest(session, sum(min(count, share) for count in counts.values()) - max_kept)


def _fair_part(log: Sequence[Change], most: int) -> list[Change]:
    """The newest, in order, with no more of an agent than its share."""
    share = _share(Counter(change.agent_id for change in log).values(), most)
    changes, of_agent = list[Change](), Counter[str]()
    for change in reversed(log):
        of_agent[change.agent_id] += 1
        if of_agent[change.agent_id] <= share and len(changes) < most:
            changes.append(change)
    return changes[::-1]


def _share(counts: Collection[int], most: int) -> int:
    """How many changes an agent may keep: with the surplus of none above it, `most` or barely more are left."""
    rest = most
    for place, count in enumerate(sorted(counts)):
        agents = len(counts) - place
        if count * agents >= rest:
            return -(-rest // agents)
        rest -= count
    return most


def _forget_oldest(session: GraphSession, number: int, agent_ids: Collection[str] | None = None) -> None:
    """None: of all agents."""
    if number <= 0:
        return
    scope = {"all": agent_ids is None, "agent_ids": list(agent_ids or ())}
    _forget_changes(session, session.run(_SYNC_OLDEST_CHANGES, **scope, rows=number))


def _forget_changes(session: GraphSession, rows: Rows) -> None:
    for batch in batched(rows, BATCH_ROWS):
        session.run(_SYNC_REMOVE_CHANGES, ids=[row["id"] for row in batch])


def put_changes(session: GraphSession, log: Sequence[Change]) -> None:
    for batch in batched(log, BATCH_ROWS):
        rows = [asdict(each) | {name: list(getattr(each, name)) for name in _LISTS_OF_CHANGE} for each in batch]
        session.run(_SYNC_PUT_CHANGES, rows=[{"props": row} for row in rows])


def read_doubtful_tools(session: GraphSession) -> dict[str, str]:
    """The ids of tools that wait, were rejected or are flagged → their agents."""
    return {row["id"]: row["agent_id"] for row in session.run(_READ_DOUBTFUL_TOOLS)}


def read_changes(session: GraphSession) -> list[Change]:
    """All that are kept, the oldest first."""
    return [_change(row) for row in session.run(_READ_CHANGES)]


def read_changes_of(
    session: GraphSession, agent_ids: Collection[str] | None, *, since: str, before: str = "", limit: int
) -> list[Change]:
    """The newest `limit` since a time (ISO 8601 in UTC; empty: ever), the newest first. None: of all agents.

    `before`: only those older than the change of this id.
    """
    everyone, ids = agent_ids is None, list(agent_ids or ())
    rows = session.run(_READ_CHANGES_OF, since=since, before=before, all=everyone, agent_ids=ids, limit=limit)
    return [_change(row) for row in rows]


_LISTS_OF_CHANGE = ("fields", "flags", "covered")


def _change(row: Mapping[str, Any]) -> Change:
    return Change(**{**row, **{name: tuple(row[name]) for name in _LISTS_OF_CHANGE}})


type Vectors = dict[str, NDArray[np.float32]]
"""Entity id → its vector, of shape (dimension,); an entity without one is not in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryState:
    """What the Registry node says."""

    revision: int
    embedder: str
    embedder_spec: str
    texts: TextForm
    schema_version: int
    commit: str
    """Of the last change, and no other's: two files of one revision may hold different graphs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredAgent:
    """An agent as its source states it, before the operator's overlay, and the hashes kept beside it."""

    agent: Agent
    bundle_hash: str
    vector_key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTool:
    tool: Tool
    vector_key: str


def read_state(session: GraphSession) -> RegistryState | None:
    """None: the graph is not a registry (yet)."""
    rows = session.run(_STATE_READ)
    return RegistryState(**rows[0]) if rows else None


def read_agents(session: GraphSession, agent_ids: Iterable[str] | None = None) -> dict[str, StoredAgent]:
    """Those of these that are there, by id. None: all, as in what follows."""
    return {
        row["id"]: StoredAgent(
            agent=Agent(**_fields(row)), bundle_hash=row["bundle_hash"], vector_key=row["vector_key"] or ""
        )
        for row in _rows(session, _READ_AGENTS, _READ_AGENTS_OF, agent_ids)
    }


def read_tools(session: GraphSession, agent_ids: Iterable[str] | None = None) -> list[StoredTool]:
    """A row for each owner of a tool: one that has two is here twice."""
    return list(map(_tool, _rows(session, _READ_TOOLS, _READ_TOOLS_OF, agent_ids)))


def read_settings(session: GraphSession, agent_ids: Iterable[str] | None = None) -> dict[str, OperatorSettings]:
    """By agent id."""
    return {row["agent_id"]: _setting(row) for row in _rows(session, _READ_SETTINGS, _READ_SETTINGS_OF, agent_ids)}


def read_claims(session: GraphSession, agent_ids: Iterable[str] | None = None) -> list[Claim]:
    """All sources' claims."""
    return [Claim(**row) for row in _rows(session, _READ_CLAIMS, _READ_CLAIMS_OF, agent_ids)]


def _rows(session: GraphSession, of_all: Statement, of_some: Statement, agent_ids: Iterable[str] | None) -> Rows:
    if agent_ids is None:
        return session.run(of_all)
    batches = batched(sorted(agent_ids), BATCH_ROWS)
    return [row for ids in batches for row in session.run(of_some, agent_ids=list(ids))]


def read_entries(
    session: GraphSession, agent_ids: Iterable[str] | None, settings: Mapping[str, OperatorSettings]
) -> Iterator[tuple[StoredAgent, list[StoredTool]]]:
    """Agents with their tools as they hold now: those of these that are there, in order of id."""
    agents = read_agents(session, agent_ids)
    tools_by_agent = _read_tools_by_agent(session, agents)
    for agent_id, record in sorted(agents.items()):
        items = tools_by_agent.get(agent_id, [])
        tools = overlay_tools([item.tool for item in items], settings)
        yield (
            replace(record, agent=overlaid(record.agent, settings)),
            [replace(item, tool=tool) for item, tool in zip(items, tools, strict=True)],
        )


def read_vectors(session: GraphSession, *, agents: Sequence[str] = (), tools: Sequence[str] = ()) -> Vectors:
    """Id → vector of the agents and tools with these ids: float32 of shape (dimension,). Those without are left out."""
    import numpy as np

    vectors: Vectors = {}
    for statement, ids in ((_READ_AGENT_VECTORS, agents), (_READ_TOOL_VECTORS, tools)):
        for batch in batched(ids, BATCH_ROWS):
            for row in session.run(statement, ids=list(batch)):
                if row["embedding"] is not None:
                    vectors[row["id"]] = np.asarray(row["embedding"], dtype=np.float32)
    return vectors


def read_sources(session: GraphSession, claims: Iterable[Claim]) -> list[SourceSummary]:
    claims_by_source: dict[str, list[tuple[str, str]]] = {}
    for claim in claims:
        claims_by_source.setdefault(claim.source, []).append((claim.key, claim.agent_id))
    sources = []
    for row in session.run(_READ_SOURCES):
        lists: dict[str, Any] = {"failures": read_failures(row["name"], row["failures"])}
        lists["claims"] = tuple(claims_by_source.get(row["name"], ()))
        sources.append(SourceSummary(**{**row, **lists}))
    return sources


def read_transitions(session: GraphSession) -> list[Transition]:
    """In order of their keys: those of agents and of tools."""
    return sorted((Transition(**row) for row in session.run(_READ_TRANSITIONS)), key=lambda each: each.key)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The agents that a write has to know: of these ids, of these transports, and those that these sources claim.

    `plain_ids`: as `plain_id` gives them, of agents whose ids look like others.
    """

    agent_ids: Collection[str] = ()
    plain_ids: Collection[str] = ()
    transports: Collection[str] = ()
    sources: Collection[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphView:
    """What the graph holds, or a part of it, as a write needs it: agents, all claims on them, what operators said of
    them. `sources`: all of them by name, without claims. `tools_of` reads the tools of agents, grouped by agent id;
    `tools_named` those of these names, whoever owns them, and the view of their owners. `part` reads another part.
    """

    agents: Mapping[str, StoredAgent] = field(default_factory=dict)
    claims: tuple[Claim, ...] = ()
    settings: Mapping[str, OperatorSettings] = field(default_factory=dict)
    sources: Mapping[str, SourceSummary] = field(default_factory=dict)
    tools_of: Callable[[Iterable[str]], Mapping[str, list[StoredTool]]] = lambda agent_ids: {}  # noqa: ARG005
    tools_named: "Callable[[Collection[str]], NamedTools]" = lambda names: NamedTools()  # noqa: ARG005
    part: "Callable[[Part], GraphView]" = lambda part: GraphView()  # noqa: ARG005

    def was_read(self, source: str) -> bool:
        """Whether the source ever said anything; one that only failed is known, too."""
        return source in self.sources and bool(self.sources[source].seen_at)

    def policy_of(self, source: str) -> Policy:
        """Of a source that is not known: accept."""
        return self.sources[source].policy if source in self.sources else "accept"

    def settings_of(self, agent_id: str) -> OperatorSettings:
        """What operators said of an agent, which may be nothing."""
        return self.settings.get(agent_id) or OperatorSettings(agent_id=agent_id)

    def shows(self, agent_id: str, principal: Principal | None) -> bool:
        """Whether the agent is held and the principal may see it, as operators' words stand now."""
        return agent_id in self.agents and visible(self.overlaid(agent_id), principal)

    def overlaid(self, agent_id: str) -> Agent:
        """The agent as it holds now. Raises KeyError."""
        return overlaid(self.agents[agent_id].agent, self.settings)

    def view_for(self, principal: Principal | None) -> Shows | None:
        """`shows` as the one whom it is shown to asks it; None: it sees everything."""
        return None if principal is None else lambda agent_id: self.shows(agent_id, principal)

    def part_for(self, principal: Principal | None) -> "GraphView":
        """What would be held if there were nothing else than what the principal sees; None: it sees everything."""
        if principal is None:
            return self
        agents = {agent_id: each for agent_id, each in self.agents.items() if self.shows(agent_id, principal)}
        claims = tuple(claim for claim in self.claims if claim.agent_id in agents)
        sources = {claim.source for claim in claims}

        def tools_named(names: Collection[str]) -> NamedTools:
            tools, owners = self.tools_named(names)
            seen_owners = owners.part_for(principal)
            return NamedTools([item for item in tools if item.tool.agent_id in seen_owners.agents], seen_owners)

        return replace(
            self,
            agents=agents,
            claims=claims,
            settings={agent_id: setting for agent_id, setting in self.settings.items() if agent_id in agents},
            sources={name: source for name, source in self.sources.items() if name in sources},
            tools_named=tools_named,
            part=lambda part: self.part(part).part_for(principal),
        )


class NamedTools(NamedTuple):
    tools: Sequence[StoredTool] = ()
    owners: GraphView = GraphView()


def read_graph_view(session: GraphSession, part: Part | None = None) -> GraphView:
    """None: the whole graph."""
    sources = {source.name: source for source in read_sources(session, ())}
    ids = None if part is None else _agent_ids_of(session, part, sources.keys() & part.sources)
    agents = read_agents(session, ids)
    return GraphView(
        agents=agents,
        claims=tuple(read_claims(session, None if ids is None else agents)),
        settings=read_settings(session, ids),
        sources=sources,
        tools_of=partial(_read_tools_by_agent, session),
        tools_named=partial(_read_tools_named, session),
        part=partial(read_graph_view, session),
    )


def _agent_ids_of(session: GraphSession, part: Part, sources: Iterable[str]) -> set[str]:
    ids = {each for each in part.agent_ids if each and not is_broken(each)}  # else it is no id of an agent
    for source in sources:
        ids |= {row["id"] for row in session.run(_READ_AGENTS_CLAIMED, source=source)}
    if part.plain_ids:
        ids |= {row["id"] for row in session.run(_READ_AGENTS_ALIKE, ids=list(part.plain_ids))}
    if part.transports:
        ids |= {row["id"] for row in session.run(_READ_AGENTS_LAUNCHED, transports=list(part.transports))}
    return ids


def _read_tools_by_agent(session: GraphSession, agent_ids: Iterable[str]) -> dict[str, list[StoredTool]]:
    by_agent: dict[str, list[StoredTool]] = {}
    for tool in read_tools(session, agent_ids):
        by_agent.setdefault(tool.tool.agent_id, []).append(tool)
    return by_agent


def _read_tools_named(session: GraphSession, names: Collection[str]) -> NamedTools:
    if not names:
        return NamedTools()
    tools = list(map(_tool, session.run(_READ_TOOLS_NAMED, names=list(names))))
    return NamedTools(tools, read_graph_view(session, Part(agent_ids={item.tool.agent_id for item in tools})))


def overlaid(agent: Agent, settings: Mapping[str, OperatorSettings]) -> Agent:
    """The agent as it holds now: its source's word overlaid with the operator's."""
    if (setting := settings.get(agent.id)) is None:
        return agent
    return replace(
        mark_rejection(agent, setting),
        tags=tuple(sorted({*agent.tags, *setting.tags})),
        visible_to=agent.visible_to if setting.visible_to is None else setting.visible_to,
        pinned=setting.pinned,
        hidden=setting.hidden,
    )


def _tool(row: Mapping[str, Any]) -> StoredTool:
    return StoredTool(tool=Tool(**_fields(row)), vector_key=row["vector_key"] or "")


def _fields(row: Mapping[str, Any]) -> dict[str, Any]:
    """Of an agent or a tool; null is an empty text or list."""
    texts = {name: value or "" for name, value in row.items() if name not in _BESIDE_FIELDS}
    lists = {name: _strings(row[name]) for name in _LISTS if name in row}
    return {**texts, **lists, "pending": bool(row["pending"])}


_BESIDE_FIELDS = ("bundle_hash", "vector_key")
_LISTS = ("tags", "visible_to", "questions", "flags")


def _setting(row: Mapping[str, Any]) -> OperatorSettings:
    values: dict[str, Any] = {name: bool(row[name]) for name in ("pinned", "hidden", "removed")}
    values |= {name: row[name] for name in ("agent_id", "tools", "rejections", "wishes")}
    groups = _strings(row["visible_to"]) if row["restricted"] else None
    return OperatorSettings(**values, tags=_strings(row["tags"]), visible_to=groups)


def _strings(value: object) -> tuple[str, ...]:
    return tuple(value) if isinstance(value, list) else ()


def speaks(claim: Claim, others: Iterable[Claim]) -> bool:
    """Whether the claim's source speaks for the agent, beside the agent's other claims.

    A live source speaks before a catalogue. Of live ones that asked last speaks: what they tell of is one server.
    Of catalogues it is the earliest claim.
    """
    if claim.rank > 0:
        return all(other.rank <= claim.rank for other in others)
    return all(_turn(claim) <= _turn(other) for other in others)


def outranked_sources(graph: "GraphView", source: str, agent_ids: Collection[str]) -> tuple[str, ...]:
    """The other sources, in order, that speak for one of these agents once `source` claims them no more, and say
    something else than is held. Of what each says the graph keeps only a hash: they must be read again.
    """
    agents, sources = set(agent_ids), set[str]()
    claims_by_agent: dict[str, list[Claim]] = {}
    for claim in graph.claims if agents else ():
        if claim.agent_id in agents and claim.source != source:
            claims_by_agent.setdefault(claim.agent_id, []).append(claim)
    for agent_id, claims in claims_by_agent.items():
        speaking = [each for each in claims if speaks(each, claims)]
        if all(each.hash != graph.agents[agent_id].bundle_hash for each in speaking):
            sources |= {each.source for each in speaking}
    return tuple(sorted(sources))


def _turn(claim: Claim) -> tuple[int, str, str]:
    return -claim.rank, claim.order, claim.source
