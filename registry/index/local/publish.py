"""From the graph to a generation: reads one revision whole and publishes it."""

import json
import logging
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from waygraph.registry.graph.contents import Contents, GraphNoun
from waygraph.registry.graph.engine import Copying, GraphEngine, GraphSession
from waygraph.registry.graph.read import (
    RegistryState,
    StoredAgent,
    StoredTool,
    read_claims,
    read_sources,
    read_state,
    read_vectors,
)
from waygraph.registry.index.call_graph import CallGraph, counted_tools, fitting_tools, near_tools, usable_transitions
from waygraph.registry.index.local import generation
from waygraph.registry.index.local.incremental import (
    GenerationCache,
    IndexedEntities,
    IndexedTool,
    Snapshot,
    index_order,
    make_entities,
)
from waygraph.registry.index.local.local_index import write_names
from waygraph.registry.index.local.scoring import write_postings
from waygraph.registry.index.search_index import agent_record, tool_record
from waygraph.registry.model.changes import IndexState, SourceSummary
from waygraph.registry.model.errors import RegistryError
from waygraph.registry.model.tool_settings import overlay_tools, settings_of_tools

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Rows = Mapping[str, NDArray[np.float32]]


def build_generation(folder: Path, snapshot: Snapshot, entities: IndexedEntities | None = None) -> None:
    """Everything but the graph's copy. `entities`: of this snapshot, if it was. Raises OSError."""
    entities = entities or make_entities(snapshot, IndexedEntities())
    _write_json(folder / generation.STATE, asdict(snapshot.state))
    _write_json(folder / generation.TABLES, _tables(snapshot))
    write_names(folder / generation.NAMES, _names(entities))
    write_sources(folder, snapshot.sources)
    document = {"settings": list(map(asdict, snapshot.settings)), "tools": list(map(tool_record, snapshot.stated))}
    _write_json(folder / generation.SETTINGS, document)
    if snapshot.calls:
        _write_json(folder / generation.CALLS, snapshot.calls.as_json())
    for file, documents in snapshot.nouns.items():
        if documents:
            _write_json(folder / file, documents)
    _write_json(folder / generation.KEYS, list(snapshot.vector_keys))
    np.save(folder / generation.VECTORS, snapshot.vectors)
    _write_records(folder, entities.tools.values())
    _write_texts(folder, entities)


def write_sources(folder: Path, sources: Iterable[SourceSummary]) -> None:
    """Apart from the rest, since a sync that changes nothing else still confirms its claims."""
    _write_json(folder / generation.SOURCES, [asdict(source) for source in sources])


def _tables(snapshot: Snapshot) -> dict[str, Any]:
    position = {agent.id: row for row, agent in enumerate(snapshot.agents)}
    pending = [row for row, tool in enumerate(snapshot.tools) if tool.pending]
    return {
        "agents": [agent_record(agent) for agent in snapshot.agents],
        "tool_ids": [tool.id for tool in snapshot.tools],
        "owners": [position[tool.agent_id] for tool in snapshot.tools],
        **({generation.PENDING_TOOLS: pending} if pending else {}),
    }


def _names(entities: IndexedEntities) -> dict[str, list[int]]:
    """Folded name → rows of the entities that bear it."""
    names: dict[str, list[int]] = {}
    of_entities = [
        *(agent.names for agent in entities.agents.values()),
        *(tool.names for tool in entities.tools.values()),
    ]
    for row, forms in enumerate(of_entities):
        for form in forms:
            names.setdefault(form, []).append(row)
    return names


def _write_records(folder: Path, tools: Iterable[IndexedTool]) -> None:
    """One JSON line a tool, and where each starts: a reader parses only those it shows."""
    offsets = [0]
    with (folder / generation.RECORDS).open("wb") as file:
        for entity in tools:
            file.write(entity.record)
            offsets.append(offsets[-1] + len(entity.record))
    np.save(folder / generation.OFFSETS, np.asarray(offsets, dtype=np.int64))


def _write_texts(folder: Path, entities: IndexedEntities) -> None:
    agents, tools = list(entities.agents.values()), list(entities.tools.values())
    profiles = [(row, agent.words) for row, agent in enumerate(agents)]
    capabilities = [(row, agent.words) for row, agent in enumerate(agents) if not agent.tools]
    capabilities += [(row, tool.words) for row, tool in enumerate(tools, start=len(agents))]
    write_postings(folder / generation.AGENT_TEXT, profiles)
    write_postings(folder / generation.CAPABILITY_TEXT, capabilities)


def _write_json(path: Path, value: object) -> None:
    path.write_text(
        json.dumps(value, ensure_ascii=False, separators=(",", ":")), encoding="utf-8", errors="surrogatepass"
    )


logger = logging.getLogger(__name__)


class PublishingEngine(GraphEngine, Copying, Protocol):
    """An engine whose graph can be read, and copied as a file."""


def publish_graph(
    folder: Path,
    engine: PublishingEngine,
    nouns: Sequence[GraphNoun[Any]],
    *,
    trust_index: bool = True,
    cache: GenerationCache | None = None,
    meanwhile: Callable[[], None] = lambda: None,
) -> bool:
    """Makes the graph's revision the current generation; False if it already is.

    `nouns`: the kinds of values beside agents and tools. `cache`: what is known of the generation before. `meanwhile`
    is done in a thread beside the work, before the generation becomes the current one.
    """
    cache = cache or GenerationCache()
    state = read_state(engine)
    if state is None:
        return False
    current = published_state(folder)
    # The commit too: a graph file that was restored from a copy may have come to the same revision another way.
    target = (state.revision, state.commit, state.schema_version)
    is_shown = current is not None and (current.revision, current.commit, current.schema_version) == target
    if is_shown and not generation.is_outdated(folder) and _sources_of(folder) is not None:
        meanwhile()
        return _publish_confirmations(folder, engine, state.revision)
    vectors = (cache.vectors or known_vectors(folder)) if trust_index else {}
    snapshot = read_snapshot(engine, state, vectors, cache.tools_now(engine, state), nouns=nouns)

    def copy(to: Path) -> None:
        engine.save(to)
        meanwhile()

    generation.publish(folder, state.revision, partial(_build, copy=copy, snapshot=snapshot, cache=cache))
    return True


def _build(folder: Path, *, copy: Callable[[Path], None], snapshot: Snapshot, cache: GenerationCache) -> None:
    """The graph is copied beside the rest: the engine holds no lock of Python while it writes."""
    with ThreadPoolExecutor(1, "copy") as beside:
        copying = beside.submit(copy, folder / generation.GRAPH)
        build_generation(folder, snapshot, cache.make_entities(snapshot))
        copying.result()


def _publish_confirmations(folder: Path, engine: PublishingEngine, revision: int) -> bool:
    """The same revision, with sources as they were last seen; all other files are shared where that is possible."""
    current = folder / generation.current_name(folder)
    sources = read_sources(engine, read_claims(engine))
    if sources == _sources_of(folder):
        return False

    def link(new: Path) -> None:
        ignore = shutil.ignore_patterns(generation.SOURCES, generation.GRAPH, generation.LEASE)
        shutil.copytree(current, new, ignore=ignore, copy_function=_link_or_copy, dirs_exist_ok=True)
        write_sources(new, sources)
        engine.save(new / generation.GRAPH)

    generation.publish(folder, revision, link)
    return True


def _link_or_copy(source: str, target: str) -> None:
    """Not every file system has hard links, and some have few for one file."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def _sources_of(folder: Path) -> list[SourceSummary] | None:
    """None if they cannot be read: the generation is then built anew."""
    with suppress(RegistryError, OSError, ValueError, TypeError, KeyError):
        return generation.read_sources(folder / generation.current_name(folder))
    return None


def published_state(folder: Path) -> IndexState | None:
    """What the current generation says of itself; None if there is none that can be read."""
    with suppress(RegistryError, OSError, ValueError, TypeError):
        if current := generation.current_folder(folder):
            return IndexState(**json.loads((current / generation.STATE).read_text(encoding="utf-8")))
    return None


def published_revision(folder: Path) -> int | None:
    """The revision that the current generation shows; None as above."""
    state = published_state(folder)
    return state.revision if state else None


def published_schema(folder: Path) -> int | None:
    """The schema version of the graph that the current generation was built from; None as above."""
    state = published_state(folder)
    return state.schema_version if state else None


def known_vectors(folder: Path) -> "Rows":
    """Vector key → vector of the current generation: float32 of shape (dimension,). Empty without a generation.

    A key is made of model and text, so its vector holds anywhere.
    """
    with suppress(RegistryError, OSError, ValueError, TypeError):
        if current := generation.current_folder(folder):
            keys = json.loads((current / generation.KEYS).read_text(encoding="utf-8"))
            matrix = np.load(current / generation.VECTORS, mmap_mode="r")
            return {key: row for key, row in zip(keys, matrix, strict=True) if key}
    return {}


def read_snapshot(
    session: GraphSession,
    state: RegistryState,
    former_rows: "Rows",
    tools: Sequence[StoredTool] | None = None,
    *,
    nouns: Sequence[GraphNoun[Any]] = (),
) -> Snapshot:
    """The whole revision, its vectors float32 of shape (agents + tools, dimension).

    `former_rows`: vector key → vector, float32 of shape (dimension,). What it holds, and `tools`, are not read again.
    """
    contents = Contents(session).read("agents", "settings", "transitions", "claims", "sources")
    tools = contents.tools if tools is None else tools
    order = index_order(contents.overlaid_agents, {item.tool.agent_id for item in tools})
    vectors, keys = _vectors(session, [contents.agents[agent.id] for agent in order], tools, former_rows)
    tools_of_sources = [item.tool for item in tools]
    # `vectors`: float32 of shape (tools, dimension).
    agents, ids = contents.overlaid_agents, [tool.id for tool in tools_of_sources]
    transitions = usable_transitions(contents.transitions, {*agents, *ids})
    schemas = ((tool.id, tool.input_schema, tool.output_schema) for tool in tools_of_sources)
    near = near_tools(ids, vectors[len(order) :], counted_tools(transitions), agents)
    calls = CallGraph(transitions, near, fitting_tools(schemas, agents))
    settings = contents.settings
    return Snapshot(
        state=IndexState(**asdict(state), dimension=int(vectors.shape[1]), agents=len(order), tools=len(tools)),
        agents=order,
        tools=overlay_tools(tools_of_sources, settings),
        settings=list(settings.values()),
        stated=[tool for tool in tools_of_sources if tool.name in settings_of_tools(settings.get(tool.agent_id))],
        vectors=vectors,
        vector_keys=keys,
        sources=contents.sources,
        calls=calls,
        nouns={generation.file_of(noun): [each.as_json() for each in contents.values(noun)] for noun in nouns},
    )


def _vectors(
    session: GraphSession, agents: list[StoredAgent], tools: Sequence[StoredTool], former_rows: "Rows"
) -> "tuple[NDArray[np.float32], list[str]]":
    """float32 of shape (agents + tools, dimension), a row of zeros for an entity without a vector; and the keys."""
    ids = [item.agent.id for item in agents] + [item.tool.id for item in tools]
    keys = [item.vector_key for item in agents] + [item.vector_key for item in tools]
    read = read_vectors(
        session,
        agents=[a.agent.id for a in agents if a.vector_key and a.vector_key not in former_rows],
        tools=[t.tool.id for t in tools if t.vector_key and t.vector_key not in former_rows],
    )
    rows: list[Any] = [
        former_rows.get(key) if key in former_rows else read.get(entity) for entity, key in zip(ids, keys, strict=True)
    ]
    dimension = _common_length(rows)
    matrix = np.zeros((len(ids), dimension), dtype=np.float32)
    for row, vector in enumerate(rows):
        if vector is not None and len(vector) == dimension:
            matrix[row] = vector
        else:
            keys[row] = ""
    return matrix, keys


def _common_length(vectors: Sequence[Any]) -> int:
    """0 without any. Those of another length are of another model: with the rest they cannot be compared."""
    lengths = Counter(len(vector) for vector in vectors if vector is not None)
    if len(lengths) > 1:
        logger.warning("vectors are of %s numbers: run `waygraph reindex` to embed all texts anew", sorted(lengths))
    return max(lengths, key=lambda length: lengths[length], default=0)
