"""The search index of the embedded engine: reads one generation, exact dot products and BM25."""

import json
import mmap
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from cachetools import LRUCache

from waygraph.registry.access.visibility import routable, tools_within
from waygraph.registry.graph.contents import GraphNoun, NounValue
from waygraph.registry.graph.schema import SCHEMA_VERSION
from waygraph.registry.index.analyser import names_in, query_terms
from waygraph.registry.index.call_graph import CallGraph, NextTools
from waygraph.registry.index.local import generation
from waygraph.registry.index.local.generation import Lease, lease_current
from waygraph.registry.index.local.scoring import Postings, VisibleTexts, align_rows, best, cosines
from waygraph.registry.index.search_index import (
    TEXT_LEGS,
    VECTOR_LEGS,
    CallNames,
    Hits,
    Leg,
    LegHits,
    Scope,
    Transitions,
    agent_of_record,
    tool_of_record,
)
from waygraph.registry.model.changes import IndexState
from waygraph.registry.model.errors import RegistryUnusable, WaygraphError
from waygraph.registry.model.nouns import Agent, EntityKind, Principal, Tool
from waygraph.registry.model.settings import HALF_LIFE_DAYS
from waygraph.registry.model.tool_settings import ToolSetting, settings_of_tools
from waygraph.registry.model.tracing import span

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from waygraph.registry.embedding.embedder import Vector
    from waygraph.registry.model.changes import OperatorSettings, SourceSummary

    Mask = NDArray[np.bool_]


# The names of a generation: folded name → rows of the entities that bear it.
#
# One JSON object, a line a name, the lines sorted by their bytes: so a name is found without reading the rest.


_FIRST, _LAST = b"{\n", b"\n}\n"
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def write_names(file: Path, names: Mapping[str, Sequence[int]]) -> None:
    """Raises OSError."""
    lines = sorted(_key(name) + _encode(rows).encode() for name, rows in names.items())
    file.write_bytes(_FIRST + b",\n".join(lines) + _LAST)


class Names:
    """Reads what `write_names` wrote. Threads may share it. Raises OSError, ValueError for damage."""

    def __init__(self, file: Path) -> None:
        with file.open("rb") as handle:
            self._lines = mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ)
        if self._lines[: len(_FIRST)] != _FIRST or self._lines[-len(_LAST) :] != _LAST:
            raise ValueError("the names are cut short")

    def rows(self, name: str) -> Sequence[int]:
        """Of a folded name, by bisection; none for a name that nobody bears. Raises ValueError for a damaged line."""
        key = _key(name)
        # Both are where a line begins. No name's line is behind the last one, `}`: it begins with a quote.
        low, high = len(_FIRST), len(self._lines)
        while low < high:
            begin = self._lines.rfind(b"\n", low, (low + high) // 2) + 1 or low
            end = self._lines.find(b"\n", begin)
            line = self._lines[begin:end]
            if line.startswith(key):
                rows: list[int] = json.loads(line[len(key) :].removesuffix(b","))
                return rows
            low, high = (end + 1, high) if line < key else (low, begin)
        return ()


def _key(name: str) -> bytes:
    """What the name's line begins with, and no other's: a quote inside a name is escaped."""
    return f"{_encode(name)}:".encode("utf-8", "surrogatepass")


_MASKS_KEPT = 64
_TOOL_BYTES_KEPT = 32 * 1024 * 1024
"""Of the records of tools that were shown: once there are more, they are read anew."""
_TEXTS: Mapping[Leg, tuple[str, EntityKind]] = {
    "agent_text": (generation.AGENT_TEXT, "agent"),
    "capability_text": (generation.CAPABILITY_TEXT, "tool"),
}
"""Where a text leg's postings are, and whose texts they are of."""


class _Within(NamedTuple):
    """The rows of a scope, and those that its principal may find whatever it filters: bool of shape (rows,), None: all.

    Words are counted in the latter, of which `populations` tells how many there are.
    """

    mask: "Mask | None"
    visible: "Mask | None"
    populations: Mapping[EntityKind, int]
    principal: Principal | None


class LocalIndex:
    """Implements SearchIndex over a generation's files; threads may share it. Rows are agents, then tools."""

    def __init__(self, lease: Lease, half_life_days: float = HALF_LIFE_DAYS) -> None:
        """`half_life_days`: of counted calls."""
        self._lease, self._half_life_days = lease, half_life_days
        self.path = lease.path
        self._folder = lease.path.parent
        self.state = IndexState(**_read_json(self.path / generation.STATE))
        if self.state.schema_version > SCHEMA_VERSION:
            raise RegistryUnusable(self.path, "a newer Waygraph wrote it. Upgrade waygraph.")
        if generation.is_of_before(self.path):
            raise RegistryUnusable(self.path, "an older Waygraph wrote it. The next write here makes it anew.")
        tables = _read_json(self.path / generation.TABLES)
        self._agents = [agent_of_record(row) for row in tables["agents"]]
        self._by_id = {agent.id: agent for agent in sorted(self._agents, key=lambda agent: agent.id)}
        self._pinned = [agent for agent in self._by_id.values() if agent.pinned]
        self._tool_ids: list[str] = tables["tool_ids"]
        _refuse_strays(self._agents, tables["tool_ids"], tables["owners"])
        first = len(self._agents)
        self._with_tools = len(set(tables["owners"]))
        capabilities = len(self._tool_ids) + first - self._with_tools
        self._populations: Mapping[EntityKind, int] = {"agent": first, "tool": capabilities}
        self._pending_rows = np.asarray(tables.get(generation.PENDING_TOOLS, ()), dtype=np.int64) + first
        self._owners = np.asarray([*range(first), *tables["owners"]], dtype=np.int64)
        self._ids = np.asarray([*(agent.id for agent in self._agents), *self._tool_ids], dtype=object)
        self._owner_ids = self._ids[self._owners] if len(self._ids) else self._ids
        if self.state.dimension:
            self._mapped_rows()  # damage is found now, not by a search
        self._masks = LRUCache[Scope, "Mask | None"](_MASKS_KEPT)
        self._texts_cache = LRUCache[tuple[Leg, Principal | None], VisibleTexts](_MASKS_KEPT)
        self._text_indexes: dict[Leg, Postings] = {}
        self._lock = threading.Lock()
        self._tools: dict[str, Tool] = {}
        self._tool_bytes = 0
        self._values: dict[str, Sequence[Any]] = {}

    @classmethod
    def open(cls, folder: Path, half_life_days: float = HALF_LIFE_DAYS) -> "LocalIndex":
        """The current generation. Raises RegistryNotFound, RegistryUnusable."""
        lease = lease_current(folder)
        with readable(folder):
            return cls(lease, half_life_days)

    @property
    def graph_copy(self) -> Path:
        """A copy of this revision's graph, for statements that people type."""
        return self.path / generation.GRAPH

    # -- search ------------------------------------------------------------------------------------

    def search(
        self,
        legs: Iterable[Leg],
        vector: "Vector | None",
        text: str,
        depth: int,
        scope: Scope,
        *,
        raw_text: str = "",
        before: str = "",
    ) -> Hits:
        """As the protocol says; `vector` is float32 of shape (dimension,)."""
        within = self._within(scope)
        mask = within.mask
        hits: dict[Leg, LegHits] = {}
        # In the order asked: what is built from the hits must not depend on the order of a set.
        chosen_legs = tuple(legs)
        with readable(self._folder):
            similarity = self._vector_legs(
                hits, [leg for leg in chosen_legs if leg in VECTOR_LEGS], vector, depth, mask
            )
            words = query_terms(text, before)
            text_legs = [leg for leg in chosen_legs if leg in TEXT_LEGS]
            coverage = self._text_legs(hits, text_legs, words, depth, within)
            if "name" in chosen_legs:
                with span("names"):
                    hits["name"] = self._name_hits(raw_text or text, mask)
        legs = {leg: hits[leg] for leg in chosen_legs if leg in hits}
        return Hits(legs, similarity, coverage, self, within.populations)

    def _within(self, scope: Scope) -> "_Within":
        mask, principal = self._mask(scope), scope.principal
        visible = None if principal is None else self._mask(Scope(principal=principal))
        if visible is None:
            return _Within(mask, None, self._populations, principal)
        agents, capabilities = visible[: len(self._agents)], visible[self._with_tools :]
        return _Within(mask, visible, {"agent": int(agents.sum()), "tool": int(capabilities.sum())}, principal)

    def _vector_legs(
        self,
        leg_hits: dict[Leg, LegHits],
        legs: Sequence[Leg],
        vector: "Vector | None",
        depth: int,
        mask: "Mask | None",
    ) -> float:
        """Fills the vector legs; returns the highest cosine."""
        if vector is None or not self.state.dimension or not legs or not len(self._ids):
            return 0.0
        with span("vectors"):
            scores = cosines(self._rows, vector)
            if mask is not None:
                scores[~mask] = -np.inf
            for leg in legs:
                first, last = self._spans[leg]
                rows = best(scores[first:last], depth) + first
                leg_hits[leg] = self._hits(rows, scores[rows])
        return max((hits.scores[0] for hits in leg_hits.values() if hits.scores), default=0.0)

    @cached_property
    def _rows(self) -> "Vector":
        """Read by the first question that has a vector: not every process asks one."""
        return align_rows(self._mapped_rows())

    def _mapped_rows(self) -> "Vector":
        rows: Vector = np.load(self.path / generation.VECTORS, mmap_mode="r")
        return rows

    @cached_property
    def _spans(self) -> dict[Leg, tuple[int, int]]:
        """The rows of each vector leg: agents with tools, agents without, tools lie in this order."""
        agents, rows = len(self._agents), len(self._ids)
        return {
            "agent_vector": (0, agents),
            "tool_vector": (agents, rows),
            "capability_vector": (self._with_tools, rows),
        }

    def _text_legs(
        self, hits: dict[Leg, LegHits], legs: Sequence[Leg], words: Sequence[str], depth: int, within: "_Within"
    ) -> float:
        """Fills the text legs; returns the best coverage of the query's words."""
        if not legs:
            return 0.0
        coverage = 0.0
        with span("words"):
            for leg in legs:
                index = self._text_index(leg)
                visible_texts = self._visible_texts(leg, index, within)
                rows, scores = index.search(words, depth, within.mask, visible_texts)
                hits[leg] = self._hits(rows, scores)
                if len(scores):
                    coverage = max(coverage, float(scores[0]) / index.best_possible(words, visible_texts))
        return coverage

    def _visible_texts(self, leg: Leg, index: Postings, within: "_Within") -> VisibleTexts | None:
        """Kept for those that asked last."""
        if within.visible is None:
            return None
        key = leg, within.principal
        with self._lock:
            texts = self._texts_cache.get(key)
        if texts is None:
            texts = index.count_visible(within.visible, within.populations[_TEXTS[leg][1]])
            with self._lock:
                self._texts_cache[key] = texts
        return texts

    def _text_index(self, leg: Leg) -> Postings:
        """Opened when it is first asked: not every recipe needs both."""
        index = self._text_indexes.get(leg)
        if index is None:
            folder, kind = _TEXTS[leg]
            texts = self._populations[kind]
            index = self._text_indexes[leg] = Postings(self.path / folder, rows=len(self._ids), texts=texts)
        return index

    def _name_hits(self, text: str, mask: "Mask | None") -> LegHits:
        rows = np.asarray(list(dict.fromkeys(chain.from_iterable(map(self._names.rows, names_in(text))))), np.int64)
        visible_rows = rows if mask is None else rows[mask[rows]]
        return self._hits(visible_rows, np.ones(len(visible_rows), dtype=np.float32))

    @cached_property
    def _names(self) -> Names:
        return Names(self.path / generation.NAMES)

    def _hits(self, rows: "NDArray[np.int64]", scores: "NDArray[np.float32]") -> LegHits:
        return LegHits(self._ids[rows].tolist(), self._owner_ids[rows].tolist(), scores.tolist())

    def _mask(self, scope: Scope) -> "Mask | None":
        """Which rows may be found; None: all. Kept for the scopes asked last."""
        with self._lock:
            if scope in self._masks:
                return self._masks[scope]
        mask = self._new_mask(scope)
        with self._lock:
            self._masks[scope] = mask
        return mask

    def _new_mask(self, scope: Scope) -> "Mask | None":
        mask = np.fromiter(
            (routable(agent, scope.principal, scope.filters) for agent in self._agents),
            dtype=np.bool_,
            count=len(self._agents),
        )
        tools = tools_within(scope.filters)
        if mask.all() and not len(self._pending_rows) and tools is None:
            return None
        rows = mask[self._owners]
        rows[self._pending_rows] = False
        if tools is not None:
            rows[len(self._agents) :] &= np.fromiter((each in tools for each in self._tool_ids), dtype=np.bool_)
        return rows

    # -- records -----------------------------------------------------------------------------------

    def agents(self) -> Mapping[str, Agent]:
        return self._by_id

    def pinned_agents(self) -> Sequence[Agent]:
        return self._pinned

    def tools(self, ids: Sequence[str]) -> list[Tool]:
        return [self._tools.get(tool_id) or self._read_tool(tool_id) for tool_id in ids]

    def tool_ids(self, agent_id: str) -> Sequence[str]:
        return self._tools_by_agent.get(agent_id, ())

    def tool_ids_of(self, agent_ids: Sequence[str]) -> Mapping[str, Sequence[str]]:
        return {agent_id: self.tool_ids(agent_id) for agent_id in agent_ids}

    def pending_tools(self) -> Sequence[str]:
        return sorted(self._ids[self._pending_rows].tolist())

    def owners_called(self, call_name: str) -> Sequence[str]:
        return self._call_names.owners(call_name)

    @property
    def transitions(self) -> "Transitions | None":
        return self._transitions

    @cached_property
    def _transitions(self) -> "Transitions | None":
        """Read by the first question that has a history."""
        file = self.path / generation.CALLS
        if not file.exists():
            return None
        with readable(self._folder):
            return NextTools(CallGraph.of_json(_read_json(file)), self._by_id, self._half_life_days)

    def values[T: NounValue](self, noun: GraphNoun[T]) -> Sequence[T]:
        """Read when they are first asked for."""
        values = self._values.get(noun.name)
        if values is None:
            file = self.path / generation.file_of(noun)
            with readable(self._folder):
                values = [noun.kind.of_json(each) for each in _read_json(file)] if file.exists() else ()
            self._values[noun.name] = values
        return values

    def sources(self) -> "Sequence[SourceSummary]":
        with readable(self._folder):
            return generation.read_sources(self.path)

    def settings(self) -> "Mapping[str, OperatorSettings]":
        return self._settings

    def stated_tool(self, tool_id: str) -> "tuple[Tool, ToolSetting] | None":
        setting = settings_of_tools(self._settings.get(tool_id.partition("/")[0])).get(tool_id.partition("/")[2])
        if setting is None or not (self.path / generation.SETTINGS).exists():
            return None
        records = {record["id"]: record for record in self._operator["tools"]}
        return (tool_of_record(records[tool_id]), setting) if tool_id in records else None

    @cached_property
    def _operator(self) -> "dict[str, Any]":
        with readable(self._folder):
            document: dict[str, Any] = _read_json(self.path / generation.SETTINGS)
            return document

    @cached_property
    def _settings(self) -> "Mapping[str, OperatorSettings]":
        """Of a generation of before they are read from the graph's copy, which takes a while."""
        from waygraph.registry.graph.grafeo import GrafeoEngine
        from waygraph.registry.graph.read import read_settings
        from waygraph.registry.model.changes import OperatorSettings

        if not (self.path / generation.SETTINGS).exists():
            with closing(GrafeoEngine.open_copy(self.graph_copy)) as engine:
                return read_settings(engine)
        setting: list[dict[str, Any]] = self._operator["settings"]
        rows = [OperatorSettings(**{name: _as_kept(value) for name, value in row.items()}) for row in setting]
        return {setting.agent_id: setting for setting in rows}

    @cached_property
    def _call_names(self) -> CallNames:
        return CallNames(self._by_id)

    @cached_property
    def _tools_by_agent(self) -> dict[str, list[str]]:
        by_agent: dict[str, list[str]] = {}
        for tool_id in self._tool_ids:
            by_agent.setdefault(tool_id.partition("/")[0], []).append(tool_id)
        return by_agent

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {tool_id: position for position, tool_id in enumerate(self._tool_ids)}

    @cached_property
    def _records(self) -> Callable[[int], bytes]:
        offsets = np.load(self.path / generation.OFFSETS)
        with (self.path / generation.RECORDS).open("rb") as file:
            lines = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return lambda position: lines[int(offsets[position]) : int(offsets[position + 1])]

    def _read_tool(self, tool_id: str) -> Tool:
        position = self._positions[tool_id]
        with readable(self._folder):
            record = self._records(position)
            tool = tool_of_record(json.loads(record.decode("utf-8", "surrogatepass")))
            if tool.id != tool_id:
                raise ValueError(f"the record of {tool_id} is another's")
        if self._tool_bytes > _TOOL_BYTES_KEPT:
            self._tools.clear()
            self._tool_bytes = 0
        self._tools[tool_id] = tool
        self._tool_bytes += len(record)
        return tool

    def close(self) -> None:
        self._lease.close()


def _as_kept(value: Any) -> Any:
    """JSON has no tuples."""
    return tuple(value) if isinstance(value, list) else value


@contextmanager
def readable(folder: Path) -> Iterator[None]:
    """Turns what damaged or missing files lead to into RegistryUnusable. `folder` holds the generations."""
    try:
        yield
    except (WaygraphError, MemoryError):
        raise
    except Exception as error:  # parsers of files raise what they like
        raise RegistryUnusable(
            folder,
            f"the search index cannot be read ({str(error)[:200]}). "
            "If it is damaged, remove this folder: the index is built anew from the graph.",
        ) from error


def _refuse_strays(agents: Sequence[Agent], tool_ids: Sequence[str], owners: Sequence[int]) -> None:
    """Raises ValueError if a tool's id is not of the agent that the table gives it: then one of them is damaged."""
    prefixes = [f"{agent.id}/" for agent in agents]
    if not all(tool_id.startswith(prefixes[owner]) for tool_id, owner in zip(tool_ids, owners, strict=True)):
        raise ValueError("a tool is not its owner's")


def _read_json(path: Path) -> Any:
    return json.loads(path.read_bytes().decode("utf-8", "surrogatepass"))
