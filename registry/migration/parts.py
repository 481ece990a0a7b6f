"""A whole registry in parts of bounded size, in the order in which they are written."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import NamedTuple

from waygraph.cypher import load
from waygraph.registry.changes import Change, Claim, OperatorSettings, SourceSummary
from waygraph.registry.graph.batches import batches
from waygraph.registry.graph.change_log import put_changes, read_changes
from waygraph.registry.graph.engine import GraphSession
from waygraph.registry.graph.reading import StoredAgent, StoredTool
from waygraph.registry.graph.writing import NewVectors, agent_props, put_setting, tool_props
from waygraph.registry.migration.holdings import Holdings


class Part(NamedTuple):
    """So many rows (an agent, a tool, a source, a claim or an operator's word each), which change only these agents
    and their tools."""

    rows: int
    agent_ids: Collection[str]
    write: Callable[[GraphSession], None]


def parts_of(whole: Holdings, held: Collection[str]) -> list[Part]:
    """All but the agents and tools that are `held`, each of which is whole.

    Operators' words come first: an index that is kept with the agents lays them over. They, sources and claims are put
    again: an ingest that changes nothing else still confirms its claims.
    """
    return [
        *_setting_parts(whole.settings),
        *_entity_parts(whole, held),
        *_source_parts(whole),
        *_change_parts(whole.changes),
    ]


def _setting_parts(settings: Sequence[OperatorSettings]) -> Iterator[Part]:
    for batch in batches(settings):
        yield Part(len(batch), (), partial(_put_settings, batch))


def _put_settings(settings: Sequence[OperatorSettings], session: GraphSession) -> None:
    for said in settings:
        put_setting(session, said)


def _entity_parts(whole: Holdings, held: Collection[str]) -> Iterator[Part]:
    """Agents, each before its tools."""
    owned: dict[str, list[StoredTool]] = {item.agent.id: [] for item in whole.agents}
    for tool in whole.tools:
        owned[tool.tool.agent_id].append(tool)
    entities: list[StoredAgent | StoredTool] = []
    for item in whole.agents:
        entities += [item, *owned[item.agent.id]]
    missing = [entity for entity in entities if _id(entity) not in held]
    vectors = _vectors(whole)
    for batch in batches(missing):
        agents = [entity for entity in batch if isinstance(entity, StoredAgent)]
        tools = [entity for entity in batch if isinstance(entity, StoredTool)]
        touched = {item.agent.id for item in agents} | {item.tool.agent_id for item in tools}
        yield Part(len(batch), touched, partial(_put_entities, agents, tools, vectors))


def _id(entity: StoredAgent | StoredTool) -> str:
    return entity.agent.id if isinstance(entity, StoredAgent) else entity.tool.id


def _vectors(whole: Holdings) -> NewVectors:
    keys = {entity: key for entity, key in whole.vector_keys.items() if key or entity in whole.vectors}
    return NewVectors(vectors={entity: whole.vectors.get(entity) for entity in keys}, keys=keys)


def _put_entities(
    agents: Sequence[StoredAgent], tools: Sequence[StoredTool], vectors: NewVectors, session: GraphSession
) -> None:
    if agents:
        session.run(load("sync/put_agents"), rows=[_agent_row(item, vectors) for item in agents])
    if tools:
        session.run(load("sync/create_tools"), rows=[_tool_row(item, vectors) for item in tools])


def _agent_row(item: StoredAgent, vectors: NewVectors) -> Mapping[str, object]:
    agent = item.agent
    return {"id": agent.id, "props": agent_props(agent, item.bundle_hash) | vectors.props(agent.id)}


def _tool_row(item: StoredTool, vectors: NewVectors) -> Mapping[str, object]:
    return {"agent_id": item.tool.agent_id, "props": tool_props(item.tool, vectors)}


def _source_parts(whole: Holdings) -> Iterator[Part]:
    for sources in batches(whole.sources):
        yield Part(len(sources), (), partial(_put_sources, sources))
    for claims in batches(whole.claims):
        yield Part(len(claims), (), partial(_put_claims, claims))


def _put_sources(sources: Sequence[SourceSummary], session: GraphSession) -> None:
    for source in sources:
        session.run(
            load("sync/put_source"),
            name=source.name,
            namespace=source.namespace,
            rank=source.rank,
            policy=source.policy,
            seen_at=source.seen_at,
        )


def _put_claims(claims: Sequence[Claim], session: GraphSession) -> None:
    for source, of_source in groupby(claims, key=lambda claim: claim.source):
        rows = [
            {"agent_id": c.agent_id, "key": c.key, "hash": c.hash, "since": c.since, "seen_at": c.seen_at}
            for c in of_source
        ]
        session.run(load("sync/put_claims"), source=source, rows=rows)


def _change_parts(changes: Sequence[Change]) -> Iterator[Part]:
    for batch in batches(changes):
        yield Part(len(batch), (), partial(_put_changes, batch))


def _put_changes(changes: Sequence[Change], session: GraphSession) -> None:
    """Those that an earlier attempt has not put."""
    held = {change.id for change in read_changes(session)}
    put_changes(session, [change for change in changes if change.id not in held])
