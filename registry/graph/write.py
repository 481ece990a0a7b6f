"""A ChangeSet to statements: nodes, OWNS edges, vectors, claims and revision in one transaction."""

import secrets
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import batched, groupby
from typing import TYPE_CHECKING, Any

from waygraph.cypher import Statement, load
from waygraph.registry.graph.engine import BATCH_ROWS, BATCH_VECTORS, GraphSession, Rows
from waygraph.registry.graph.read import Stamp, StoredAgent, keep_changes, stamp_changes
from waygraph.registry.graph.schema import link_subjects
from waygraph.registry.model.changes import (
    AgentEntry,
    ChangeSet,
    Claim,
    Failure,
    OperatorSettings,
    SourceSummary,
    failures_json,
)
from waygraph.registry.model.errors import WriteConflict
from waygraph.registry.model.identity import STATED_OF_AGENT, STATED_OF_TOOL
from waygraph.registry.model.nouns import Agent, Tool, parse_field
from waygraph.registry.model.transitions import Transition, is_tool

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_PUT_TRANSITIONS = {  # by whether something is before them, and whether they are of tools
    (True, True): load("learning/put_tool_transitions"),
    (True, False): load("learning/put_agent_transitions"),
    (False, True): load("learning/put_first_tools"),
    (False, False): load("learning/put_first_agents"),
}
_LEARNING_REMOVE_SIMILAR = load("learning/remove_similar")
_PUT_SETTING = load("node/put", "Setting")
_STATE_ADVANCE = load("state/advance")
_STATE_HOLD = load("state/hold")
_SYNC_CREATE_TOOLS = load("sync/create_tools")
_SYNC_PUT_AGENTS = load("sync/put_agents")
_SYNC_PUT_CLAIMS = load("sync/put_claims")
_SYNC_PUT_FAILURES = load("sync/put_failures")
_SYNC_PUT_SOURCE = load("sync/put_source")
_SYNC_REMOVE_AGENTS = load("sync/remove_agents")
_SYNC_REMOVE_CLAIMS = load("sync/remove_claims")
_SYNC_REMOVE_TOOLS = load("sync/remove_tools")
_SYNC_UPDATE_TOOLS = load("sync/update_tools")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewVectors:
    """Vectors by entity id, float32 of shape (dimension,), and the key of what each was made of.

    None in place of a vector takes away the one that is held.
    """

    vectors: "Mapping[str, NDArray[np.float32] | None]"
    keys: Mapping[str, str]

    def props(self, entity_id: str) -> dict[str, object]:
        """Nothing for an entity whose vector stays."""
        if entity_id not in self.vectors:
            return {}
        vector = self.vectors[entity_id]
        return {"embedding": None if vector is None else vector.tolist(), "vector_key": self.keys.get(entity_id, "")}


def run_batches(
    session: GraphSession,
    statement: Statement,
    name: str,
    values: Iterable[object],
    *,
    most: int = BATCH_ROWS,
    **params: object,
) -> Rows:
    """Runs a statement once for each `most` of the values, which are its parameter `name`; not at all without any."""
    batches = batched(values, most)
    return [row for batch in batches for row in session.run(statement, **{name: list(batch)}, **params)]


def write_changes(
    session: GraphSession, changes: ChangeSet, vectors: NewVectors, stamp: Stamp, *, max_changes_kept: int
) -> None:
    """Writes all of it."""
    remove_agents(session, changes.removed_agents, changes.removed_tools)
    removals = set(changes.removed_agents)
    others = [agent_id for agent_id in changes.released if agent_id not in removals]
    run_batches(session, _SYNC_REMOVE_CLAIMS, "agent_ids", others, source=changes.source)
    new_tools = set(changes.created_tools)
    put_agents(session, changes.written, vectors)
    tools = [tool for entry in changes.written for tool in entry.tools]
    create_tools(session, [tool for tool in tools if tool.id in new_tools], vectors)
    updates = {update.id for update in changes.updated_tools} | (vectors.vectors.keys() - new_tools)
    for batch in batched([tool for tool in tools if tool.id in updates and tool.id not in new_tools], BATCH_VECTORS):
        rows = [{"id": tool.id, "props": tool_props(tool, vectors)} for tool in batch]
        session.run(_SYNC_UPDATE_TOOLS, rows=rows)
        if with_vector := [tool.id for tool in batch if tool.id in vectors.vectors]:
            session.run(_LEARNING_REMOVE_SIMILAR, ids=with_vector)
    put_source(session, changes.source, changes, stamp.now)
    put_claims(session, [replace(claim, since=stamp.now, revision=stamp.revision) for claim in changes.claims])
    put_settings(session, changes.operator)
    keep_changes(session, stamp_changes(changes.log, stamp), max_changes_kept)
    subjects = {f"source:{changes.source}", *(change.agent_id for change in changes.log)}
    link_subjects(session, touched_agents(changes) | subjects, [changes.source])


def touched_agents(changes: ChangeSet) -> set[str]:
    """Ids of the agents that a change set writes, removes, claims, releases or says something of."""
    writes = {entry.agent.id for entry in changes.written} | {claim.agent_id for claim in changes.claims}
    settings = {setting.agent_id for setting in changes.operator}
    return writes | settings | set(changes.released) | set(changes.removed_agents)


def advance(session: GraphSession, revision: int) -> int:
    """The next revision, which the transaction makes. Raises WriteConflict if `revision` is no longer the graph's."""
    return _still(session.run(_STATE_ADVANCE, expected=revision, commit=secrets.token_hex(8)), revision)


def hold(session: GraphSession, revision: int) -> None:
    """Keeps other writers out till the transaction ends. Raises WriteConflict as above."""
    _still(session.run(_STATE_HOLD, expected=revision), revision)


def _still(rows: Rows, revision: int) -> int:
    if not rows:
        raise WriteConflict(f"the registry is no longer at revision {revision}: another writer was first")
    return int(rows[0]["revision"])


def put_settings(session: GraphSession, settings: Iterable[OperatorSettings]) -> None:
    for setting in settings:
        props = asdict(setting) | {
            "tags": list(setting.tags),
            "restricted": setting.visible_to is not None,
            "visible_to": list(setting.visible_to or ()),
        }
        session.run(_PUT_SETTING, id=props.pop("agent_id"), props=props)


def put_transitions(session: GraphSession, transitions: Iterable[Transition]) -> None:
    """Replaces what is held of these; of entities that are not there nothing is written."""
    rows: dict[tuple[bool, bool], list[dict[str, Any]]] = {kind: [] for kind in _PUT_TRANSITIONS}
    for each in transitions:
        rows[bool(each.first), is_tool(each.next)].append(asdict(each))
    for kind, statement in _PUT_TRANSITIONS.items():
        run_batches(session, statement, "rows", rows[kind])


def write_vectors(session: GraphSession, ids: Collection[str], vectors: NewVectors) -> None:
    """Replaces the vectors of those among these agents and tools that have another one now; of tools the edges to near
    ones go with the old vectors.
    """
    for statement, of_tools in ((_SYNC_PUT_AGENTS, False), (_SYNC_UPDATE_TOOLS, True)):
        entities = [each for each in ids if each in vectors.vectors and is_tool(each) is of_tools]
        for batch in batched(entities, BATCH_VECTORS):
            session.run(statement, rows=[{"id": entity, "props": vectors.props(entity)} for entity in batch])
            if of_tools:
                session.run(_LEARNING_REMOVE_SIMILAR, ids=list(batch))


def remove_agents(session: GraphSession, agent_ids: Sequence[str], tool_ids: Sequence[str]) -> None:
    run_batches(session, _SYNC_REMOVE_TOOLS, "ids", tool_ids)
    run_batches(session, _SYNC_REMOVE_AGENTS, "ids", agent_ids)


def put_agents(session: GraphSession, agents: Iterable[AgentEntry | StoredAgent], vectors: NewVectors) -> None:
    """Creates or replaces them, without their tools."""
    rows = (  # made a batch at a time: as lists of floats all vectors would take gigabytes
        {"id": item.agent.id, "props": agent_props(item.agent, item.bundle_hash) | vectors.props(item.agent.id)}
        for item in agents
    )
    run_batches(session, _SYNC_PUT_AGENTS, "rows", rows, most=BATCH_VECTORS)


def create_tools(session: GraphSession, tools: Iterable[Tool], vectors: NewVectors) -> None:
    """Of agents that exist; there is none of their ids yet."""
    rows = ({"agent_id": tool.agent_id, "props": tool_props(tool, vectors)} for tool in tools)
    run_batches(session, _SYNC_CREATE_TOOLS, "rows", rows, most=BATCH_VECTORS)


def put_source(session: GraphSession, name: str, terms: ChangeSet | SourceSummary, at: str) -> None:
    """Confirms the source, and with it all that it claims."""
    values = {each: getattr(terms, each) for each in ("namespace", "rank", "policy", "owner", "pause_s")}
    session.run(_SYNC_PUT_SOURCE, name=name, seen_at=at, failures=failures_json(terms.failures), **values)


def put_failures(session: GraphSession, source: str, failures: Iterable[Failure], pause_s: int) -> None:
    session.run(_SYNC_PUT_FAILURES, name=source, pause_s=pause_s, failures=failures_json(failures))


def put_claims(session: GraphSession, claims: Iterable[Claim]) -> None:
    """Creates claims, given source by source; of one that is there already `since` and `revision` stay."""
    for source, of_source in groupby(claims, key=lambda claim: claim.source):
        run_batches(session, _SYNC_PUT_CLAIMS, "rows", map(asdict, of_source), source=source)


def agent_props(agent: Agent, bundle_hash: str) -> dict[str, object]:
    props = _entity_props(agent) | {"bundle_hash": bundle_hash}
    return props | ({"names": sorted(map(str.casefold, names_in(agent)))} if agent.kind == "skill" else {})


def names_in(skill: Agent) -> list[str]:
    """What a skill names as a tool or a server may be called."""
    names: list[str] = (parse_field(skill.transport) or {}).get("names", [])
    return names


def tool_props(tool: Tool, vectors: NewVectors) -> dict[str, object]:
    return _entity_props(tool) | {"call_name": tool.call_name} | vectors.props(tool.id)


def _entity_props(entity: Agent | Tool) -> dict[str, object]:
    """What the source states of it, and how that stands."""
    fields = STATED_OF_TOOL if isinstance(entity, Tool) else STATED_OF_AGENT
    names = ("id", "name", *fields, "status", "content_hash", "pending", "flags", "approved_hash")
    values = {name: getattr(entity, name) for name in names}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def put_props(session: GraphSession, props: Mapping[str, Mapping[str, object]]) -> None:
    """Sets properties of agents and tools that exist, by id."""
    for statement, of_tools in ((_SYNC_PUT_AGENTS, False), (_SYNC_UPDATE_TOOLS, True)):
        rows = [{"id": each, "props": dict(values)} for each, values in props.items() if is_tool(each) is of_tools]
        run_batches(session, statement, "rows", rows)
