"""A whole registry from one place to another, whichever engines keep them; nothing is embedded anew.

The copy is compared with what was read before it counts as a registry: in the transaction that makes it one.
"""

import json
import shutil
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from hashlib import sha256
from itertools import batched, count
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from waygraph.cypher import load
from waygraph.registry.graph.contents import Contents, GraphNoun
from waygraph.registry.graph.engine import BATCH_ROWS, GraphSession
from waygraph.registry.graph.grafeo import log_of
from waygraph.registry.graph.read import (
    RegistryState,
    StoredAgent,
    StoredTool,
    put_changes,
    read_agents,
    read_changes,
    read_state,
    read_tools,
)
from waygraph.registry.graph.schema import SCHEMA_VERSION, link_all_subjects
from waygraph.registry.graph.write import (
    NewVectors,
    create_tools,
    put_agents,
    put_claims,
    put_settings,
    put_source,
    put_transitions,
)
from waygraph.registry.index.local.file import current_path, folder_of, open_to_write
from waygraph.registry.index.local.graph_agreement import refuse_unknown
from waygraph.registry.model.changes import Change, SourceSummary
from waygraph.registry.model.errors import CopyDiffers, InvalidSetting, RegistryNotFound, RegistryUnusable
from waygraph.registry.model.files import lock_of, queue_of, sync_path, write_lock
from waygraph.registry.model.nouns import Tool
from waygraph.registry.model.settings import WRITE_TIMEOUT, Settings
from waygraph.registry.storage.embedded import EmbeddedStore
from waygraph.registry.storage.location import is_server, open_store
from waygraph.registry.storage.noun_list import NOUNS, IndexContents, count_parts, read_parts, read_whole
from waygraph.registry.storage.store import MEMORY, Filling, Origin, Store, refuse_registry

_STATE_CREATE = load("state/create")
_MOST_NAMES = 3
"""So many of the things that differ are named; the others are counted."""


def is_sound(whole: Contents) -> bool:
    """Whether the lists tell of every node and edge: no tool without an owner or with two, no claim twice."""
    counts = count_parts(whole)
    return counts == whole.counts and counts["tools"] == counts["owns"]


def fingerprints(contents: Contents) -> dict[str, dict[str, str]]:
    """Part of the registry → name of what is in it → SHA-256 of all that is stored of that."""
    keys = contents.vector_keys
    return {
        "registry": {name: _sha256(value) for name, value in asdict(contents.state).items()},
        "agents": {agent_id: _sha256(asdict(item)) for agent_id, item in contents.agents.items()},
        "tools": {item.tool.id: _sha256(asdict(item)) for item in contents.tools},
        "sources": {source.name: _sha256(asdict(source)) for source in contents.sources},
        "claims": {f"{claim.source} of {claim.agent_id}": _sha256(asdict(claim)) for claim in contents.claims},
        "changes": {change.id: _sha256(asdict(change)) for change in contents.changes},
        "transitions": {" → ".join(each.key): _sha256(asdict(each)) for each in contents.transitions},
        **{noun.name: _of_noun(noun, contents) for noun in NOUNS},
        "settings": {agent_id: _sha256(asdict(setting)) for agent_id, setting in contents.settings.items()},
        "vectors": {entity: _of_vector(keys.get(entity, ""), vector) for entity, vector in contents.vectors.items()},
        "counts": {name: str(number) for name, number in contents.counts.items()},
    }


def _of_noun(noun: GraphNoun[Any], contents: Contents) -> dict[str, str]:
    values = {each.name: _sha256(each.as_json()) for each in contents.values(noun)}
    return values | {f"vector of {node}": _of_vector("", vector) for node, vector in contents.vectors_of(noun).items()}


def differences(original: Contents, copy: Contents) -> list[str]:
    """A line for each part that is not as it should be, such as `tools: 2 missing (a/x, a/y)`; none if all are."""
    have = fingerprints(copy)
    return [
        f"{part}: {text}"
        for part, rows in fingerprints(original).items()
        if (text := ", ".join(_difference(rows, have[part])))
    ]


def _difference(original: Mapping[str, str], copy: Mapping[str, str]) -> Iterator[str]:
    other = [name for name in original.keys() & copy.keys() if original[name] != copy[name]]
    for what, names in (
        ("missing", original.keys() - copy.keys()),
        ("too many", copy.keys() - original.keys()),
        ("different", other),
    ):
        if names:
            some = ", ".join(sorted(names)[:_MOST_NAMES]) + (", …" if len(names) > _MOST_NAMES else "")
            yield f"{len(names)} {what} ({some})"


def _of_vector(key: str, vector: "NDArray[np.float32]") -> str:
    return sha256(key.encode() + b"\0" + vector.astype("<f4").tobytes()).hexdigest()


def _sha256(value: Any) -> str:
    return sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


class Part(NamedTuple):
    """So many rows (an agent, a tool, a source, a claim or an operator's word each), which change only these agents
    and their tools."""

    rows: int
    agent_ids: Collection[str]
    write: Callable[[GraphSession], None]


def parts_of(whole: Contents, present_ids: Collection[str]) -> list[Part]:
    """All but the agents and tools whose ids are `present_ids`: each of them is there whole.

    Operators' words come first: an index that is kept with the agents lays them over. They, sources and claims are put
    again: an ingest that changes nothing else still confirms its claims.
    """
    return [
        *_parts(whole.settings.values(), put_settings),
        *_entity_parts(whole, present_ids),
        *_parts(whole.sources, _put_sources),
        *_parts(whole.claims, put_claims),
        *_parts(whole.changes, _put_changes),
        *_parts([each for each in whole.transitions if each.first], put_transitions),
        *(
            Part(noun.rows(each), (), partial(noun.put, value=each, vectors=whole.vectors_of(noun)))
            for noun in NOUNS
            for each in whole.values(noun)
        ),
    ]


def _parts[T](values: Iterable[T], put: Callable[[GraphSession, Sequence[T]], None]) -> Iterator[Part]:
    """Of what changes no agent."""
    for batch in batched(values, BATCH_ROWS):
        yield Part(len(batch), (), partial(lambda batch, session: put(session, batch), batch))


def _entity_parts(whole: Contents, present_ids: Collection[str]) -> Iterator[Part]:
    """Agents, each before its tools."""
    tools_by_agent: dict[str, list[StoredTool]] = {agent_id: [] for agent_id in whole.agents}
    for tool in whole.tools:
        tools_by_agent[tool.tool.agent_id].append(tool)
    entities: list[StoredAgent | StoredTool] = []
    for agent_id, item in whole.agents.items():
        entities += [item, *tools_by_agent[agent_id]]
    missing = [
        each
        for each in entities
        if (each.agent.id if isinstance(each, StoredAgent) else each.tool.id) not in present_ids
    ]
    keys = {entity: key for entity, key in whole.vector_keys.items() if key or entity in whole.vectors}
    vectors = NewVectors(vectors={entity: whole.vectors.get(entity) for entity in keys}, keys=keys)
    for batch in batched(missing, BATCH_ROWS):
        agents = [entity for entity in batch if isinstance(entity, StoredAgent)]
        tools = [entity.tool for entity in batch if isinstance(entity, StoredTool)]
        agent_ids = {item.agent.id for item in agents} | {tool.agent_id for tool in tools}
        yield Part(len(batch), agent_ids, partial(_put_entities, agents, tools, vectors))


def _put_entities(
    agents: Sequence[StoredAgent], tools: Sequence[Tool], vectors: NewVectors, session: GraphSession
) -> None:
    put_agents(session, agents, vectors)
    create_tools(session, tools, vectors)


def _put_sources(session: GraphSession, sources: Sequence[SourceSummary]) -> None:
    for source in sources:
        put_source(session, source.name, source, source.seen_at)


def _put_changes(session: GraphSession, changes: Sequence[Change]) -> None:
    """Those that an earlier attempt has not put."""
    present_ids = {change.id for change in read_changes(session)}
    put_changes(session, [change for change in changes if change.id not in present_ids])


Progress = Callable[[int, int], None]
"""Called with (rows copied, rows in all)."""

BOLT_PORT = 7687


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationReport:
    """What is at `target` now. `copied`: rows this run wrote, 0 if the copy was there and only compared."""

    source: str
    target: str
    revision: int
    agents: int
    tools: int
    sources: int
    claims: int
    settings: int
    vectors: int
    copied: int
    sha256: str
    """Of everything that is held; equal for equal registries."""
    seconds: float


def migrate_at(source: str, target: str, settings: Settings, progress: Progress | None = None) -> MigrationReport:
    """`migrate` between two locations. Raises InvalidSetting if they are one, or if the target is in memory."""
    # All is read in one transaction, which may take as long as one that writes.
    patient = replace(settings, neo4j_read_timeout_s=max(settings.neo4j_read_timeout_s, settings.neo4j_write_timeout_s))
    if target == MEMORY:
        raise InvalidSetting(f"a copy to {MEMORY} would be gone at once; name a file or a server")
    with closing(open_store(source, patient)) as source_store, closing(open_store(target, patient)) as target_store:
        return migrate(source_store, target_store, progress)


def migrate(source: Store, target: Store, progress: Progress | None = None) -> MigrationReport:
    """Copies one revision of `source` to `target`, which holds no registry; `source` is only read.

    Cut short, it leaves no registry, and the same call goes on with what is there. A target that holds this very
    revision already is compared with it and left as it is. Raises RegistryNotFound without a source, InvalidSetting,
    RegistryUnusable for a target that holds another registry, CopyDiffers.
    """
    start_s = time.perf_counter()
    if _address(source.place) == _address(target.place):
        raise InvalidSetting(f"{target.place} cannot be copied to itself")
    original = _read_sound(source)
    state, rows = _state(target), 0
    if state is None:
        rows = _copy(original, source.place, target, progress)
    elif state == original.state:
        refuse_differences(original, target.read(read_whole), target.place)
    else:
        refuse_registry(target.place, state)
    return _summary(original, source, target, rows, time.perf_counter() - start_s)


def refuse_differences(original: Contents, copy: Contents, place: str) -> None:
    """Raises CopyDiffers."""
    if lines := differences(original, copy):
        raise CopyDiffers(place, lines)


def _read_sound(source: Store) -> Contents:
    """Raises RegistryNotFound; RegistryUnusable for one that cannot be copied as it is."""
    if not source.exists:
        raise RegistryNotFound(source.place)
    whole = source.read(read_whole)
    if whole.state.schema_version != SCHEMA_VERSION:
        raise RegistryUnusable(source.place, "its schema is an older one. Any write, such as an ingest, renews it.")
    if not is_sound(whole):
        raise RegistryUnusable(source.place, "it does not agree with itself. Run `waygraph doctor --deep`.")
    for noun in NOUNS:
        for reason in filter(None, map(noun.copy_fault, whole.values(noun))):
            raise RegistryUnusable(source.place, reason)
    return whole


def _state(store: Store) -> RegistryState | None:
    try:
        return store.read(read_state)
    except RegistryNotFound:
        return None


def _copy(original: Contents, place: str, target: Store, progress: Progress | None) -> int:
    """How many rows were missing."""
    dimension = next((len(vector) for vector in original.vectors.values()), 0)
    origin = Origin(place=place, revision=original.state.revision, commit=original.state.commit, dimension=dimension)

    def whole(session: GraphSession) -> None:
        session.run(_STATE_CREATE, props=asdict(original.state))
        # What begins conversations hangs on the Registry node.
        put_transitions(session, [each for each in original.transitions if not each.first])
        link_all_subjects(session)
        refuse_differences(original, read_whole(session), target.place)

    with target.filling(origin) as filling:
        # Agents and tools that an earlier attempt copied, each whole.
        present_ids = {*read_agents(filling.session), *(item.tool.id for item in read_tools(filling.session))}
        rows = _put(parts_of(original, present_ids), filling, progress)
        filling.finish(whole)
    return rows


def _put(parts: Sequence[Part], filling: Filling, progress: Progress | None) -> int:
    total, rows = sum(part.rows for part in parts), 0
    for part in parts:
        filling.put(part.agent_ids, part.write)
        rows += part.rows
        if progress:
            progress(rows, total)
    return total


# -- repair --------------------------------------------------------------------------------------------


def repair_at(location: str, settings: Settings) -> MigrationReport | None:
    """Makes the graph of a file anew from its index, which stays; what was there is kept beside it. None: the index
    knows the graph, so that there is nothing to repair.

    What the index does not hold is gone: the log of changes. Raises InvalidSetting for what is no file,
    RegistryNotFound without an index, RegistryLocked while another process has the graph, StorageFailed.
    """
    start_s = time.perf_counter()
    store = open_store(location, settings)
    if not isinstance(store, EmbeddedStore):
        raise InvalidSetting(f"{store.place} is no file: only a registry in a file is repaired from its index")
    path, fresh = store.path, store.path.with_name(f"{store.path.name}.repair")
    with closing(store), write_lock(path, settings.write_timeout_s, setting=WRITE_TIMEOUT, brief=False):
        with suppress(RegistryUnusable):
            store.read(lambda session: refuse_unknown(store.folder, read_state(session)))
            return None
        original = store.look(lambda index: read_parts(IndexContents(index)))
        _remove(fresh)
        with closing(EmbeddedStore(fresh, settings)) as target:
            rows = _copy(original, store.place, target, None)
            report = _summary(original, store, target, rows, time.perf_counter() - start_s)
        places = (path.with_name(f"{path.name}.before-repair-{number}") for number in count(1))
        aside = next(each for each in places if not each.exists() and not log_of(each).exists())
        for file, place in ((log_of(path), log_of(aside)), (path, aside)):
            with suppress(FileNotFoundError):
                file.rename(place)
        fresh.rename(path)
        sync_path(path.parent)
        if index_path := current_path(store.folder):
            with closing(open_to_write(index_path)) as index:
                index.put_graph()
        _remove(fresh)
    return replace(report, target=str(aside))


def _remove(graph: Path) -> None:
    for folder in (log_of(graph), folder_of(graph)):
        shutil.rmtree(folder, ignore_errors=True)
    for file in (graph, lock_of(graph), queue_of(graph)):
        file.unlink(missing_ok=True)


# -- places --------------------------------------------------------------------------------------------


def _address(place: str) -> object:
    """Equal for two names of one server's database."""
    if not is_server(place):
        return place
    parts = urlsplit(place)
    return parts.hostname, parts.port or BOLT_PORT, parts.path


def _summary(whole: Contents, source: Store, target: Store, rows: int, seconds: float) -> MigrationReport:
    return MigrationReport(
        source=source.place,
        target=target.place,
        revision=whole.state.revision,
        **{part: len(getattr(whole, part)) for part in ("agents", "tools", "sources", "claims", "settings", "vectors")},
        copied=rows,
        sha256=_sha256(fingerprints(whole)),
        seconds=seconds,
    )
