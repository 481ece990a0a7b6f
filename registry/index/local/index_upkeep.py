"""From the graph to the index: the rows of agents and tools, their words, and the parts beside them."""

import hashlib
import logging
import secrets
import shutil
from array import array
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from itertools import batched, groupby
from itertools import count as count_from
from operator import methodcaller
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from waygraph.cypher import load
from waygraph.registry.graph.contents import GraphNoun
from waygraph.registry.graph.engine import GraphSession
from waygraph.registry.graph.read import (
    RegistryState,
    Vectors,
    overlaid,
    read_agents,
    read_agents_of,
    read_claims_of,
    read_settings,
    read_sources,
    read_state,
    read_tools_of,
    read_transitions,
    read_vectors,
)
from waygraph.registry.index.call_graph import (
    Alike,
    counted_tools,
    given_names,
    near_tools,
    required_names,
    usable_transitions,
)
from waygraph.registry.index.local.file import (
    BARE,
    COLUMN_ROWS,
    GIVES,
    IS_HIDDEN,
    IS_PINNED,
    NAME,
    NEEDS,
    PENDING,
    POSTING_ROWS,
    TOOL,
    VECTOR,
    Columns,
    Header,
    IndexFile,
    bucket_of,
    clear_damaged,
    create_file,
    current_path,
    encode,
    number_of,
    path_of,
    seal,
    seal_json,
    unseal,
    unseal_json,
)
from waygraph.registry.index.local.scoring import CODE_TAIL, code_row
from waygraph.registry.index.search_index import (
    agent_document,
    agent_names,
    agent_record,
    tool_document,
    tool_names,
    tool_record,
)
from waygraph.registry.model.changes import IndexState, OperatorSettings
from waygraph.registry.model.errors import StorageFailed
from waygraph.registry.model.files import sync_path
from waygraph.registry.model.nouns import Agent, Tool
from waygraph.registry.model.process import without_collection
from waygraph.registry.model.tool_settings import overlay_tools, settings_of_tools
from waygraph.registry.model.transitions import Transition

if TYPE_CHECKING:
    from numpy.typing import NDArray


logger = logging.getLogger(__name__)

_READ_SOME_VECTOR = load("read/some_vector")

DEAD_ROWS_SPARED = 256
"""An index with fewer dead rows than this is not worth building anew."""
_AGENTS_AT_ONCE = 250
_POSTINGS_AT_ONCE, _BUCKETS_AT_ONCE = 1_000_000, 256
"""Kept before they are written, as each writing looks at every word's terms and last block; and written at a time."""
_TERMS_A_BUCKET = 16
_FEWEST_BUCKETS, _MOST_BUCKETS = 64, 65_536

type Claims = Sequence[tuple[str, str]]
"""(source, the source's own key of the agent), in order."""


class Entry(NamedTuple):
    """An agent and its tools as they hold now, who claims it, and of which texts and model their vectors are."""

    agent: Agent
    tools: Sequence[Tool]
    claims: Claims = ()
    vector_keys: Mapping[str, str] = {}


class Row(NamedTuple):
    """What the index keeps of an agent or a tool. `words`: term → count, names and required parameters among them.

    `length`: of its text, in terms.
    """

    id: str
    flags: int
    record: bytes
    words: Mapping[str, int]
    length: int
    vector_key: str

    @property
    def stamp(self) -> str:
        """Another one where anything of the row is."""
        parts = [self.record, self.vector_key.encode(), b"%d" % self.flags, encode(sorted(self.words.items()))]
        return hashlib.blake2b(b"\0".join(parts), digest_size=12).hexdigest()


def rows_of(entry: Entry) -> Iterator[Row]:
    """Of the agent, then of its tools."""
    agent, tools, keys = entry.agent, entry.tools, entry.vector_keys
    flags = PENDING * agent.pending | IS_HIDDEN * agent.hidden | IS_PINNED * agent.pinned | BARE * (not tools)
    record = encode({"agent": agent_record(agent), "claims": entry.claims})
    document = agent_document(agent, tools)
    words = _words(document, agent_names(agent), ())
    yield Row(agent.id, flags, record, words, len(document), keys.get(agent.id, ""))
    for tool in tools:
        flags = TOOL | PENDING * tool.pending | GIVES * bool(given_names(tool.output_schema))
        document = tool_document(agent, tool)
        words = _words(document, tool_names(agent, tool), required_names(tool.input_schema))
        yield Row(tool.id, flags, encode(tool_record(tool)), words, len(document), keys.get(tool.id, ""))


def _words(document: Sequence[str], names: Iterable[str], needs: Collection[str]) -> dict[str, int]:
    return {
        **Counter(document),
        **{NAME + name: 1 for name in names},
        **{NEEDS + name: len(needs) for name in needs},
    }


# -- what the graph holds ---------------------------------------------------------------------------


class GraphReader:
    """The agents of one revision as they hold now, some at a time."""

    def __init__(self, session: GraphSession) -> None:
        self._session = session
        self.settings = read_settings(session)

    def entries(self, agent_ids: Collection[str]) -> Iterator[Entry]:
        """Those of these that are there, in order of id."""
        for ids in batched(sorted(agent_ids), _AGENTS_AT_ONCE):
            agents = read_agents_of(self._session, ids)
            claims: dict[str, list[tuple[str, str]]] = defaultdict(list)
            for claim in read_claims_of(self._session, ids):
                claims[claim.agent_id].append((claim.source, claim.key))
            tools: dict[str, list[Tool]] = {agent_id: [] for agent_id in agents}
            keys = {agent_id: record.vector_key for agent_id, record in agents.items()}
            for item in read_tools_of(self._session, ids):
                tools[item.tool.agent_id].append(item.tool)
                keys[item.tool.id] = item.vector_key
            for agent_id, record in sorted(agents.items()):
                now = overlay_tools(tools[agent_id], self.settings)
                yield Entry(overlaid(record.agent, self.settings), now, claims[agent_id], keys)

    def vectors(self, rows: Iterable[Row]) -> Vectors:
        """By id: float32 of shape (dimension,)."""
        ids = [row.id for row in rows]
        return read_vectors(
            self._session,
            agents=[each for each in ids if "/" not in each],
            tools=[each for each in ids if "/" in each],
        )


_no_postings, _block_of = partial(array, "Q"), methodcaller("__rshift__", 32)


# -- what the file holds ----------------------------------------------------------------------------


class IndexWriter:
    """Appends to an index file, inside one transaction of it."""

    def __init__(self, file: IndexFile, header: Header) -> None:
        self._file, self.header = file, header
        self._parts_before, self._serial = header.parts, header.serial + 1
        self._rows, self._deaths = header.rows, list[int]()
        self._agents, self._tools = header.state.agents, header.state.tools
        self._new_terms = count_from((file.fetch("SELECT max(key) FROM posting")[0][0] or 0) // 2**24 + 1)
        self._lengths = {header.state.dimension}
        self._words: dict[str, array[int]] = defaultdict(_no_postings)
        """Word → its postings not written yet: the block in the upper 32 bits, what is written in the lower."""
        self._postings, self._rows_flushed = 0, header.rows
        self.is_changed = False
        """Whether rows came or went."""

    def put(self, entries: Iterable[Entry], reader: GraphReader) -> None:
        """These agents, whole; what of them is as it was is not written again."""
        for some in batched(entries, _AGENTS_AT_ONCE):
            self._put(some, reader)

    def _put(self, entries: Sequence[Entry], reader: GraphReader) -> None:
        new: list[tuple[int, Row]] = []
        for entry in entries:
            number, before = self._agent(entry.agent.id)
            rows, after = list[tuple[int, Row]](), dict[str, list[Any]]()
            for row in rows_of(entry):
                former, stamp = before.pop(row.id, None), row.stamp
                if former is not None and former[1] == stamp:
                    after[row.id] = former
                    continue
                if former is None:
                    self._count(row.id, 1)
                else:
                    self._deaths.append(former[0])
                after[row.id] = [self._rows + len(new) + len(rows), stamp]
                rows.append((number, row))
            self._bury(before)
            if rows or before:
                self._put_agent(number, entry.agent.id, after)
            new += rows
        self._append(new, reader.vectors(row for _, row in new))

    def remove(self, agent_ids: Iterable[str]) -> None:
        """Those of these that are there, and their tools."""
        for agent_id in agent_ids:
            number, before = self._agent(agent_id)
            if before:
                self._bury(before)
                self._put_agent(number, agent_id, {})

    def _bury(self, entities: Mapping[str, Sequence[Any]]) -> None:
        self.is_changed |= bool(entities)
        for entity_id, (row, _) in entities.items():
            self._deaths.append(row)
            self._count(entity_id, -1)

    def _count(self, entity_id: str, by: int) -> None:
        if "/" in entity_id:
            self._tools += by
        else:
            self._agents += by

    def _agent(self, agent_id: str) -> tuple[int, dict[str, list[Any]]]:
        """Its number, and of each of its living entities the row and stamp; a new one gets the next number."""
        rows = self._file.fetch("SELECT number, body FROM agent WHERE id = ?", agent_id)
        if rows:
            return rows[0][0], unseal_json(rows[0][1], agent_id)
        return (self._file.fetch("SELECT max(number) FROM agent")[0][0] or 0) + 1, {}

    def _put_agent(self, number: int, agent_id: str, entities: Mapping[str, Sequence[Any]]) -> None:
        body = seal_json(entities, agent_id)
        self._file.run("INSERT OR REPLACE INTO agent VALUES (?, ?, ?)", number, agent_id, body)

    def _append(self, new: Sequence[tuple[int, Row]], vectors: Vectors) -> None:
        dimension, first = self.header.state.dimension, self._rows
        codes = np.zeros((len(new), dimension + CODE_TAIL if dimension else 0), np.uint8)
        flags = [row.flags for _, row in new]
        bodies: list[tuple[int, bytes]] = []
        for place, (_, row) in enumerate(new):
            vector = vectors.get(row.id)
            if vector is None or not dimension:
                continue
            if len(vector) != dimension:
                self._lengths.add(len(vector))
                continue
            codes[place] = np.frombuffer(code_row(vector), np.uint8)
            flags[place] |= VECTOR * bool(vector.any())
            bodies.append((first + place, seal(vector.astype("<f4").tobytes(), first + place)))
        self._append_columns(new, flags, codes)
        records = [(first + place, seal(row.record, first + place)) for place, (_, row) in enumerate(new)]
        self._file.run_many("INSERT INTO record VALUES (?, ?)", records)
        self._file.run_many("INSERT INTO vector VALUES (?, ?)", bodies)
        for place, (_, row) in enumerate(new, first):
            block, low = place // POSTING_ROWS << 32, place % POSTING_ROWS
            for word, count in row.words.items():
                self._words[word].append(block | count << 12 | low)
            self._postings += len(row.words)
        self._rows += len(new)
        self.is_changed |= bool(new)
        if self._postings >= _POSTINGS_AT_ONCE:
            self._flush_postings()

    def _append_columns(self, new: Sequence[tuple[int, Row]], flags: Sequence[int], codes: "NDArray[np.uint8]") -> None:
        at, end = self._rows, self._rows + len(new)
        while at < end:
            number, place = at // COLUMN_ROWS, at - self._rows
            some = slice(place, place + min(end, (number + 1) * COLUMN_ROWS) - at)
            block = Columns(
                [row.id for _, row in new[some]],
                np.asarray([agent for agent, _ in new[some]], np.int32),
                np.asarray(flags[some], np.int32),
                np.asarray([row.length for _, row in new[some]], np.int32),
                codes[some],
            )
            if at % COLUMN_ROWS:
                rows = self._file.fetch("SELECT body FROM columns WHERE number = ?", number)
                former = Columns.unseal(rows[0][0] if rows else None, number)
                block = former.extend(block)
            self._file.run("INSERT OR REPLACE INTO columns VALUES (?, ?)", number, block.seal(number))
            at += some.stop - some.start

    def _flush_postings(self) -> None:
        """Of rows that were appended. Only the block of the first of them may be there already."""
        words, first_block = self._words, self._rows_flushed // POSTING_ROWS
        buckets: dict[int, list[str]] = defaultdict(list)
        for word in words:
            buckets[bucket_of(word, self.header.buckets)].append(word)
        for some in batched(sorted(buckets.items()), _BUCKETS_AT_ONCE):
            word_rows, blobs = [], []
            for bucket, its_words in some:
                terms, is_changed = self._file.terms(its_words[0], self.header), False
                for word in its_words:
                    term, before = terms.get(word) or (next(self._new_terms), 0)
                    blocks = before
                    for block, postings in groupby(words.pop(word), _block_of):
                        body = np.asarray([each & 0xFFFFFFFF for each in postings], "<u4").tobytes()
                        key = term << 24 | block
                        query = "SELECT body FROM posting WHERE key = ?"
                        rows = self._file.fetch(query, key) if before and block == first_block else ()
                        blobs.append((key, seal((unseal(rows[0][0], key) if rows else b"") + body, key)))
                        blocks += not rows
                    if blocks != before:
                        terms[word], is_changed = [term, blocks], True
                if is_changed:
                    word_rows.append((bucket, seal_json(terms, bucket)))
            self._file.run_many("INSERT OR REPLACE INTO posting VALUES (?, ?)", blobs)
            self._file.run_many("INSERT OR REPLACE INTO words VALUES (?, ?)", word_rows)
        self._postings, self._rows_flushed = 0, self._rows

    def put_parts(self, parts: Mapping[str, object]) -> bool:
        """Whether one is another than before."""
        before = self.header.parts
        self.header = replace(self.header, parts=self._file.put_parts(parts, before, self._serial))
        return self.header.parts != before

    def near_tools(self, transitions: Sequence[Transition]) -> Alike:
        """The tools like those that are counted."""
        if not transitions:
            return {}
        from waygraph.registry.index.local.index_rows import Rows  # most registries count no calls

        rows = Rows(self.header.state.dimension)
        rows.follow(self._file, self._rows)
        alive = np.ones(self._rows, np.bool_)
        alive[[*self._file.dead_rows(self.header), *self._deaths]] = False
        agents = rows.agent_records(self._file, np.flatnonzero(alive & (rows.flags[: self._rows] & TOOL == 0)).tolist())
        tools = np.flatnonzero(alive & (rows.flags[: self._rows] & TOOL > 0))
        tools = tools[np.argsort(rows.ids[tools], kind="stable")]
        ids: list[str] = rows.ids[tools].tolist()
        sources = tools[rows.flags[tools] & VECTOR > 0]
        vectors = np.zeros((len(tools), self.header.state.dimension), np.float32)
        places = np.searchsorted(rows.ids[tools], rows.ids[sources])
        order = np.argsort(sources)
        vectors[places[order]] = rows.vectors(self._file, sources[order]) if len(sources) else 0
        there = {*ids, *(record.agent.id for record in agents)}
        names = counted_tools(usable_transitions(transitions, there))
        return near_tools(ids, vectors, names, {record.agent.id: record.agent for record in agents})

    def finish(self, state: RegistryState) -> Header:
        """Says which revision the file shows. Its intent has ended."""
        self._flush_postings()
        if len(self._lengths) > 1:  # vectors of another model cannot be compared with the others
            numbers = sorted(self._lengths)
            logger.warning("vectors are of %s numbers: run `waygraph reindex` to embed all texts anew", numbers)
        if not self.is_changed and self.header.parts == self._parts_before and _is_of(self.header.state, state):
            self._file.put_intent(None)
            return self.header
        if self._deaths:
            body = seal_json(sorted(self._deaths), self._serial)
            self._file.run("INSERT INTO death VALUES (?, ?)", self._serial, body)
        dimension = self.header.state.dimension
        index_state = IndexState(**asdict(state), dimension=dimension, agents=self._agents, tools=self._tools)
        dead = self.header.dead + len(self._deaths)
        self.header = replace(self.header, state=index_state, rows=self._rows, dead=dead, serial=self._serial)
        self._file.put_header(self.header)
        self._file.put_intent(None)
        return self.header


def _is_of(index_state: IndexState, state: RegistryState) -> bool:
    return all(getattr(index_state, name) == value for name, value in asdict(state).items())


def empty_header(state: RegistryState, dimension: int, terms: int) -> Header:
    """`terms`: how many different ones there will be, about."""
    buckets = _FEWEST_BUCKETS
    while buckets < min(terms // _TERMS_A_BUCKET, _MOST_BUCKETS):
        buckets *= 2
    return Header(state=IndexState(**asdict(state), dimension=dimension, agents=0, tools=0), buckets=buckets)


def put_empty_buckets(file: IndexFile, header: Header) -> None:
    """All are there from the beginning, so that one that is missing is known as damage."""
    file.run_many("INSERT INTO words VALUES (?, ?)", [(each, seal_json({}, each)) for each in range(header.buckets)])


# -- publication ------------------------------------------------------------------------------------


def publish_whole(folder: Path, session: GraphSession, nouns: Sequence[GraphNoun[Any]]) -> bool:
    """Makes the index of the graph's revision, in place of the one there is; False: there is no registry.

    The caller holds the write lock. A failure leaves the former index as it is. Raises StorageFailed.
    """
    state = read_state(session)
    if state is None:
        return False
    folder.mkdir(parents=True, exist_ok=True)
    before = current_path(folder)
    target = path_of(folder, number_of(before) + 1 if before else 1)
    building = folder / f"building-{secrets.token_hex(4)}"
    try:
        with without_collection():
            _build(building, session, state, nouns)
        sync_path(building)
        building.rename(target)
        sync_path(folder)
        _remove_former(folder, target)
    except OSError as exc:
        raise StorageFailed(f"{folder}: the search index could not be written, the former one stays: {exc}") from exc
    finally:
        building.unlink(missing_ok=True)  # a full disk is not kept full by what could not be finished
    clear_damaged(folder)
    return True


def _build(path: Path, session: GraphSession, state: RegistryState, nouns: Sequence[GraphNoun[Any]]) -> None:
    reader, agent_ids = GraphReader(session), list(read_agents(session))
    some = session.run(_READ_SOME_VECTOR)
    header = empty_header(state, len(some[0]["embedding"]) if some else 0, len(agent_ids) * 40)
    file = create_file(path)
    try:
        with file.at_once():
            put_empty_buckets(file, header)
            writer = IndexWriter(file, header)
            writer.put(reader.entries(agent_ids), reader)
            _put_parts(writer, session, reader, nouns)
            writer.finish(state)
        file.fetch("PRAGMA journal_mode=DELETE")
    finally:
        file.close()


def publish_changes(
    file: IndexFile, session: GraphSession, agent_ids: Collection[str], nouns: Sequence[GraphNoun[Any]]
) -> bool:
    """Brings the index to the graph's revision, of which only these agents and their tools differ from the one shown.

    False: it must be built anew, as its vectors have another length or most of its rows would be dead.
    """
    state, header = read_state(session), file.header()
    if state is None or len(agent_ids) > header.state.agents + _AGENTS_AT_ONCE:
        return False
    if not header.state.dimension and session.run(_READ_SOME_VECTOR):
        return False
    reader = GraphReader(session)
    with file.at_once():
        writer = IndexWriter(file, header)
        entries = list(reader.entries(agent_ids))
        writer.remove(set(agent_ids).difference(entry.agent.id for entry in entries))
        writer.put(entries, reader)
        _put_parts(writer, session, reader, nouns)
        header = writer.finish(state)
    return header.dead <= header.rows - header.dead + DEAD_ROWS_SPARED


def _put_parts(
    writer: IndexWriter, session: GraphSession, reader: GraphReader, nouns: Sequence[GraphNoun[Any]]
) -> None:
    settings, transitions = reader.settings, usable_transitions(read_transitions(session))
    writer.put_parts(
        {
            "sources": [_without_claims(asdict(each)) for each in read_sources(session, ())],
            "settings": [asdict(each) for each in settings.values()],
            "stated": [tool_record(tool) for tool in _stated_tools(session, settings)],
            **{noun.name: [each.as_json() for each in noun.read(session)] for noun in nouns},
        }
    )
    counts = [[each.before, each.first, each.next, each.count, each.last_at] for each in transitions]
    if writer.put_parts({"transitions": counts}) or (transitions and writer.is_changed):
        writer.put_parts({"near": writer.near_tools(transitions)})


def _without_claims(source: dict[str, Any]) -> dict[str, Any]:
    """Each agent's row says who claims it."""
    return {name: value for name, value in source.items() if name != "claims"}


def _stated_tools(session: GraphSession, settings: Mapping[str, OperatorSettings]) -> list[Tool]:
    """The tools of which operators said something, as their sources state them."""
    owners = [agent_id for agent_id, each in settings.items() if settings_of_tools(each)]
    tools = (item.tool for item in read_tools_of(session, owners)) if owners else ()
    return [tool for tool in tools if tool.name in settings_of_tools(settings[tool.agent_id])]


_OF_GENERATIONS = ("gen-", "building-", "removed-", "current", "pending")


def _remove_former(folder: Path, current: Path) -> None:
    """Indexes of lower numbers, and the folders of an older Waygraph. Who reads them keeps them open."""
    for path in folder.iterdir():
        number = number_of(Path(path.name.removesuffix("-wal").removesuffix("-shm")))
        if path.is_dir() and path.name.startswith(_OF_GENERATIONS):
            shutil.rmtree(path, ignore_errors=True)
        elif path.name.startswith(_OF_GENERATIONS) or 0 < number < number_of(current):
            path.unlink(missing_ok=True)
