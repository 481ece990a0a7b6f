"""From the graph to the index: the rows of agents and tools, their words, the parts beside them, and how one session of
writes publishes these.

What is about to be committed is written down before the graph's commit: which commits may follow, and the agents that
they change. Whoever finds that note and no writer reads these agents from the graph. Where neither the note nor the
index knows the graph's commit, a log was lost or a file replaced: nothing is written until a person says which of the
two holds.
"""

import hashlib
import logging
import secrets
from array import array
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, replace
from functools import partial
from itertools import batched
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from waygraph.cypher import load
from waygraph.registry.embedding.embedder import Vector
from waygraph.registry.graph.contents import GraphNoun
from waygraph.registry.graph.engine import GraphSession
from waygraph.registry.graph.read import (
    RegistryState,
    StoredAgent,
    StoredTool,
    read_agents,
    read_claims,
    read_entries,
    read_settings,
    read_sources,
    read_state,
    read_tools,
    read_transitions,
    read_vectors,
)
from waygraph.registry.index.call_facts import CallFacts
from waygraph.registry.index.call_graph import (
    Alike,
    counted_tools,
    given_names,
    near_tools,
    required_names,
    usable_transitions,
)
from waygraph.registry.index.local.file import (
    COLUMN_ROWS,
    NAME,
    NEEDS,
    POSTING_ROWS,
    Columns,
    DamagedIndex,
    Flag,
    Header,
    IndexFile,
    Intent,
    bucket_of,
    clear_damaged,
    create_file,
    current_path,
    decode,
    encode,
    is_damaged,
    mark_damaged,
    number_of,
    open_to_write,
    path_of,
    row_type,
    vectors_path,
)
from waygraph.registry.index.local.graph_agreement import refuse_graph
from waygraph.registry.index.local.index_rows import Living, Rows
from waygraph.registry.index.local.scoring import encode_vector
from waygraph.registry.index.search_index import agent_document, agent_names, record_of, tool_document, tool_names
from waygraph.registry.model.changes import IndexState, OperatorSettings
from waygraph.registry.model.errors import RegistryUnusable, StorageFailed
from waygraph.registry.model.files import sync_path
from waygraph.registry.model.nouns import Agent, Tool, notices_of
from waygraph.registry.model.process import without_collection
from waygraph.registry.model.tool_settings import overlay_tools, settings_of_tools
from waygraph.registry.model.transitions import Transition, is_tool

logger = logging.getLogger(__name__)

_READ_SOME_VECTOR = load("read/some_vector")

DEAD_ROWS_SPARED = 256
"""An index with fewer dead rows than this is not worth building anew."""
_AGENTS_AT_ONCE = 250
_POSTINGS_AT_ONCE, _BUCKETS_AT_ONCE = 1_000_000, 256
"""Kept before they are written, as each writing looks at every word's terms and last block; and written at a time."""
_TERMS_A_BUCKET = 16
_FEWEST_BUCKETS, _MOST_BUCKETS = 64, 65_536
_NEAR_BYTES = 6
"""Of the part of a stamp that tells whether tools near to others may be others."""


class Row(NamedTuple):
    """What the index keeps of an agent or a tool. `words`: term → count, names and required parameters among them.

    `length`: of its text, in terms. `audience`: of an agent, who may see it. `tool`: where it is one.
    """

    id: str
    flags: int
    record: bytes
    words: Mapping[str, int]
    length: int
    vector_key: str
    audience: tuple[bool, tuple[str, ...]] | None = None
    tool: Tool | None = None

    @property
    def stamp(self) -> str:
        """Another one where anything of the row is. Its beginning: where other tools may be near to each other."""
        parts = [self.record, self.vector_key.encode(), b"%d" % self.flags, encode(sorted(self.words.items()))]
        near = encode(self.vector_key if is_tool(self.id) else self.audience)
        return _digest(near, _NEAR_BYTES) + _digest(b"\0".join(parts), 12)


def _digest(body: bytes, size: int) -> str:
    return hashlib.blake2b(body, digest_size=size).hexdigest()


def rows_of(owner: StoredAgent, items: Sequence[StoredTool], claims: Sequence[tuple[str | int, ...]]) -> Iterator[Row]:
    """Of the agent, then of its tools, as they hold now. `claims`: on it, as `AgentRecord` has them."""
    agent, tools = owner.agent, [item.tool for item in items]
    flags = (
        Flag.PENDING * agent.pending
        | Flag.IS_HIDDEN * agent.hidden
        | Flag.IS_PINNED * agent.pinned
        | Flag.BARE * (not tools)
    )
    record = encode({"agent": record_of(agent), "claims": claims})
    document = agent_document(agent, tools)
    words, audience = _words(document, agent_names(agent)), (agent.hidden, agent.visible_to)
    yield Row(agent.id, flags, record, words, len(document), owner.vector_key, audience)
    for tool, item in zip(tools, items, strict=True):
        flags = Flag.TOOL | Flag.PENDING * tool.pending | Flag.HAS_NOTICES * bool(notices_of(tool.flags))
        flags |= Flag.GIVES * bool(given_names(tool.output_schema))
        document = tool_document(agent, tool)
        words = _words(document, tool_names(agent, tool), required_names(tool.input_schema))
        yield Row(tool.id, flags, encode(record_of(tool)), words, len(document), item.vector_key, tool=tool)


def _words(document: Sequence[str], names: Iterable[str], needs: Collection[str] = ()) -> dict[str, int]:
    return {**Counter(document), **{NAME + name: 1 for name in names}, **{NEEDS + name: len(needs) for name in needs}}


class IndexWriter:
    """Appends to an index file, inside one transaction of it, what the graph has now."""

    def __init__(self, file: IndexFile, header: Header, session: GraphSession) -> None:
        self._file, self._former, self._session = file, header, session
        self._settings = read_settings(session)
        self._rows, self._owners, self._terms = header.rows, header.owners, header.terms
        self._deaths: list[int] = []
        self._has_others_near = False
        """Whether tools may be near to others than before."""
        self._counts = {False: header.state.agents, True: header.state.tools}
        """How many entities live, by whether they are tools."""
        self._dimensions = {header.state.dimension}
        self._postings: dict[tuple[str, int], array[int]] = defaultdict(partial(array, "I"))
        """Of a word and a block of rows, what is not written yet."""
        self._posting_count, self._rows_flushed = 0, header.rows

    def put(self, agent_ids: Iterable[str]) -> None:
        """These agents, whole, or that they are gone; what of them is as it was is not written again."""
        for ids in batched(sorted(agent_ids), _AGENTS_AT_ONCE):
            claims: dict[str, list[tuple[str | int, ...]]] = defaultdict(list)
            for claim in read_claims(self._session, ids):
                claims[claim.agent_id].append((claim.source, claim.key, claim.hash, claim.since, claim.revision))
            rows = {
                owner.agent.id: rows_of(owner, tools, claims[owner.agent.id])
                for owner, tools in read_entries(self._session, ids, self._settings)
            }
            new: list[tuple[int, Row]] = []
            for agent_id in ids:
                new += self._put_agent(agent_id, rows.get(agent_id, ()), self._rows + len(new))
            self._append(new)

    def _put_agent(self, agent_id: str, rows: Iterable[Row], next_row: int) -> list[tuple[int, Row]]:
        """Those of its rows that are to be appended from `next_row` on, each with its number; former ones die.

        The file keeps of each agent its number and, of each of its living entities, row, stamp and the vector's key.
        """
        body = self._file.find("agent", agent_id)
        number, before = decode(body) if body else (self._owners + 1, {})
        new: list[tuple[int, Row]] = []
        after: dict[str, list[Any]] = {}
        for row in rows:
            former, stamp = before.pop(row.id, None), row.stamp
            if former is not None and former[1] == stamp:
                after[row.id] = former
                continue
            if former is None:
                self._counts[is_tool(row.id)] += 1
            else:
                self._deaths.append(former[0])
            self._has_others_near |= former is None or former[1][: 2 * _NEAR_BYTES] != stamp[: 2 * _NEAR_BYTES]
            after[row.id] = [next_row + len(new), stamp, row.vector_key]
            new.append((number, row))
        for entity_id, (dead, *_) in before.items():
            self._deaths.append(dead)
            self._counts[is_tool(entity_id)] -= 1
        self._has_others_near |= bool(before)
        if new or before:
            self._owners = max(self._owners, number)
            self._file.put("agent", [(agent_id, encode([number, after]))])
        return new

    def _append(self, new: Sequence[tuple[int, Row]]) -> None:
        dimension, first = self._former.state.dimension, self._rows
        ids = [row.id for _, row in new]
        vectors = read_vectors(
            self._session,
            agents=[each for each in ids if not is_tool(each)],
            tools=[each for each in ids if is_tool(each)],
        )
        numbers = np.zeros(len(new), row_type(dimension))
        new_vectors = dict[int, Vector]()
        for place, (owner, row) in enumerate(new):
            vector, flags = vectors.get(row.id), row.flags
            if vector is not None and dimension:
                self._dimensions.add(len(vector))
                if len(vector) == dimension:
                    numbers["codes"][place], numbers["scale"][place], numbers["error"][place] = encode_vector(vector)
                    flags |= Flag.VECTOR * bool(vector.any())
                    new_vectors[first + place] = vector
            numbers["owner"][place], numbers["flags"][place], numbers["length"][place] = owner, flags, row.length
            block, low = divmod(first + place, POSTING_ROWS)
            for word, count in row.words.items():
                self._postings[word, block].append(count << 12 | low)
            self._posting_count += len(row.words)
        numbers["check"][[row - first for row in new_vectors]] = self._file.put_vectors(new_vectors)
        facts = [CallFacts.of(row.tool).pack() if row.tool else "" for _, row in new]
        self._append_columns(Columns(ids, facts, numbers))
        self._file.put("record", ((first + place, row.record) for place, (_, row) in enumerate(new)))
        self._rows += len(new)
        if self._posting_count >= _POSTINGS_AT_ONCE:
            self._flush_postings()

    def _append_columns(self, new: Columns) -> None:
        first, end = self._rows, self._rows + len(new.ids)
        for number in range(first // COLUMN_ROWS, -(-end // COLUMN_ROWS)):
            at = number * COLUMN_ROWS
            some = slice(max(at - first, 0), at - first + COLUMN_ROWS)
            block = Columns(new.ids[some], new.facts[some], new.numbers[some])
            if at < first:
                block = Columns.unpack(self._file.read("columns", number), self._former.state.dimension).extend(block)
            self._file.put("columns", [(number, block.pack())])

    def _flush_postings(self) -> None:
        """Of rows that were appended. Only the block of the first of them may be there already."""
        first_block = self._rows_flushed // POSTING_ROWS
        buckets: dict[int, list[tuple[str, int]]] = defaultdict(list)
        for word, block in self._postings:
            buckets[bucket_of(word, self._former.buckets)].append((word, block))
        for some in batched(sorted(buckets.items()), _BUCKETS_AT_ONCE):
            # Of a bucket: word → its term's number, and how many blocks of postings it has.
            words = {key: decode(body) for key, body in self._file.read_rows("words", [key for key, _ in some]).items()}
            terms_before = [
                words[key].get(word, (0,))[0] for key, blocks in some for word, at in blocks if at == first_block
            ]
            former = self._file.find_rows("posting", [term << 24 | first_block for term in terms_before])
            changed_buckets, bodies = set[int](), []
            for bucket, blocks_of_words in some:
                terms = words[bucket]
                for word, block in blocks_of_words:
                    term, blocks = terms.get(word) or (self._new_term(), 0)
                    key = term << 24 | block
                    body = np.asarray(self._postings.pop((word, block)), "<u4").tobytes()
                    bodies.append((key, former.get(key, b"") + body))
                    if key not in former:
                        terms[word] = [term, blocks + 1]
                        changed_buckets.add(bucket)
            self._file.put("posting", bodies)
            self._file.put("words", ((bucket, encode(words[bucket])) for bucket in sorted(changed_buckets)))
        self._posting_count, self._rows_flushed = 0, self._rows

    def _new_term(self) -> int:
        self._terms += 1
        return self._terms

    def finish(self, state: RegistryState, nouns: Sequence[GraphNoun[Any]]) -> Header:
        """Writes the parts, and which revision the file shows. Its intent has ended."""
        self._flush_postings()
        if self._rows > self._former.rows:
            self._file.sync_vectors()
        if len(self._dimensions) > 1:  # vectors of another model cannot be compared with the others
            numbers = sorted(self._dimensions)
            logger.warning("vectors are of %s numbers: run `waygraph reindex` to embed all texts anew", numbers)
        former, dimension = self._former, self._former.state.dimension
        header = replace(
            former,
            state=IndexState(
                **asdict(state), dimension=dimension, agents=self._counts[False], tools=self._counts[True]
            ),
            rows=self._rows,
            dead=former.dead + len(self._deaths),
            serial=former.serial + 1,
            owners=self._owners,
            terms=self._terms,
        )
        self._file.put("death", [(header.serial, encode(sorted(self._deaths)))] if self._deaths else [])
        header = self._put_parts(header, nouns)
        if replace(header, serial=former.serial) != former:
            self._file.put_header(header)
        self._file.put_intent(None)
        self._file.put_graph()
        return header

    def _put_parts(self, header: Header, nouns: Sequence[GraphNoun[Any]]) -> Header:
        session, transitions = self._session, usable_transitions(read_transitions(self._session))
        parts: dict[str, object] = {
            "sources": [asdict(each) for each in read_sources(session, ())],  # each agent's row says who claims it
            "settings": [asdict(each) for each in self._settings.values()],
            "stated": [record_of(each) for each in _source_records(session, self._settings)],
            "transitions": [asdict(each) for each in transitions],
        }
        for noun in nouns:
            stamp, name = noun.stamp(session), f"stamp of {noun.name}"
            if stamp is None or self._file.part(name, header) != encode(stamp):
                parts[noun.name] = [each.as_json() for each in noun.read(session)]
                parts |= {} if stamp is None else {name: stamp}
        before = header.parts.get("transitions")
        header = self._file.put_parts(parts, header)
        if header.parts["transitions"] != before or (transitions and self._has_others_near):
            header = self._file.put_parts({"near": _near_tools(self._file, header, transitions)}, header)
        return header


def _near_tools(file: IndexFile, header: Header, transitions: Sequence[Transition]) -> Alike:
    """The tools like those that are counted. In the transaction that wrote the header's rows."""
    if not transitions:
        return {}
    rows = Rows()
    living = Living(file, header, rows)
    records = rows.agent_records(file, np.flatnonzero(living.profiles).tolist())
    tools = living.tools_by_id[living.directed[living.tools_by_id]]
    ids = dict.fromkeys(living.ids[tools].tolist())
    counted_ids = counted_tools(usable_transitions(transitions, {*living.ids[living.alive].tolist()}))
    agents = {each.agent.id: each.agent for each in records}
    return near_tools([*ids], rows.vectors(file, tools), [each for each in counted_ids if each in ids], agents)


def _source_records(session: GraphSession, settings: Mapping[str, OperatorSettings]) -> list[Agent | Tool]:
    """The agents and tools of which operators said what hides a text of their sources, as these state them."""
    agent_ids = [at for at, each in settings.items() if each.tags or each.visible_to is not None or each.rejections]
    owners = [at for at, each in settings.items() if settings_of_tools(each) or each.rejections]
    tools = [item.tool for item in read_tools(session, owners)]
    return [
        *(each.agent for each in read_agents(session, agent_ids).values()),
        *(
            tool
            for tool, now in zip(tools, overlay_tools(tools, settings), strict=True)
            if now != tool or tool.name in settings_of_tools(settings[tool.agent_id])
        ),
    ]


def shows(index: IndexState, state: RegistryState | None) -> bool:
    """The commit too: a graph file that was restored from a copy may have come to the same revision another way."""
    return state is not None and all(getattr(index, name) == value for name, value in asdict(state).items())


# -- publication ------------------------------------------------------------------------------------


def publish_whole(folder: Path, session: GraphSession, nouns: Sequence[GraphNoun[Any]]) -> bool:
    """Makes the index of the graph's revision, in place of the one there is; False: there is no registry.

    The caller holds the write lock. A failure leaves the former index as it is. Raises StorageFailed.
    """
    if (state := read_state(session)) is None:
        return False
    folder.mkdir(parents=True, exist_ok=True)
    before = current_path(folder)
    target = path_of(folder, number_of(before) + 1 if before else 1)
    building = folder / f"building-{secrets.token_hex(4)}"
    try:
        with without_collection():
            _build(building, session, state, nouns)
        sync_path(building)
        vectors_path(building).rename(vectors_path(target))
        building.rename(target)
        sync_path(folder)
        _remove_former(folder, target)
    except OSError as exc:
        raise StorageFailed(f"{folder}: the search index could not be written, the former one stays: {exc}") from exc
    finally:
        for path in (building, vectors_path(building)):
            path.unlink(missing_ok=True)  # a full disk is not kept full by what could not be finished
    clear_damaged(folder)
    return True


def _build(path: Path, session: GraphSession, state: RegistryState, nouns: Sequence[GraphNoun[Any]]) -> None:
    agent_ids, some = list(read_agents(session)), session.run(_READ_SOME_VECTOR)
    buckets = _FEWEST_BUCKETS
    while buckets < min(len(agent_ids) * 40 // _TERMS_A_BUCKET, _MOST_BUCKETS):
        buckets *= 2
    dimension = len(some[0]["embedding"]) if some else 0
    header = Header(state=IndexState(**asdict(state), dimension=dimension, agents=0, tools=0), buckets=buckets)
    with closing(create_file(path)) as file:
        with file.at_once():
            # All are there from the beginning, so that one that is missing is known as damage.
            file.put("words", ((bucket, encode({})) for bucket in range(buckets)))
            writer = IndexWriter(file, header, session)
            writer.put(agent_ids)
            writer.finish(state, nouns)
        file.fetch("PRAGMA journal_mode=DELETE")


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
    with file.at_once():
        writer = IndexWriter(file, header, session)
        writer.put(agent_ids)
        header = writer.finish(state, nouns)
    return header.dead <= header.rows - header.dead + DEAD_ROWS_SPARED


def _remove_former(folder: Path, current: Path) -> None:
    """Indexes of lower numbers. Who reads them keeps them open."""
    for path in folder.iterdir():
        if 0 < number_of(path) < number_of(current):
            path.unlink(missing_ok=True)


class Publication:
    """Under the registry's write lock, from before the first write to after the last."""

    def __init__(self, folder: Path, session: GraphSession, nouns: Sequence[GraphNoun[Any]], *, whole: bool) -> None:
        """`nouns`: the kinds of values beside agents and tools. `whole`: the index is not to be trusted.

        Raises RegistryUnusable for a graph that the index does not know; StorageFailed where nothing can be written.
        """
        self._folder, self._session, self._nouns = folder, session, nouns
        self._file: IndexFile | None = None
        self._intent = Intent()
        self.state = read_state(session)
        """Of the graph, before the first write."""
        if (path := current_path(folder)) is None:
            return
        try:
            if not whole and not is_damaged(folder):
                self._file = open_to_write(path)
                self._intent = self._begin(self._file)
        except DamagedIndex:
            self.close()
        except RegistryUnusable:
            self.close()
            raise
        if self._file is None or self._intent.agent_ids is None:
            mark_damaged(folder)

    def _begin(self, file: IndexFile) -> Intent:
        """What differs between the index and the graph, if the note of a writer that was killed says so."""
        intent, state = file.intent(), self.state
        if shows(file.header().state, state):
            return Intent()
        if intent and state and state.commit in intent.commits:
            return intent
        graph = (state.revision, state.commit) if state else (0, "")
        if graph != file.graph_version():
            refuse_graph(self._folder, graph, file.graph_version())
        return Intent(agent_ids=None)

    @contextmanager
    def keep(self, session: GraphSession, agent_ids: Collection[str] | None) -> Iterator[None]:
        """Around a transaction that changes these agents, or whose tools; None: any."""
        if self._file is not None:  # else the index is built anew
            state = read_state(session)
            self._intent = self._intent.with_write(state.commit if state else "", agent_ids)
            self._file.put_intent(self._intent)
        yield

    def publish(self) -> None:
        """Brings the index to the graph's revision. Raises StorageFailed."""
        if not self._publish_changes():
            self.close()
            publish_whole(self._folder, self._session, self._nouns)

    def _publish_changes(self) -> bool:
        """Whether that was enough."""
        if self._file is None or self._intent.agent_ids is None or is_damaged(self._folder):
            return False
        try:
            header, state = self._file.header(), read_state(self._session)
            is_explained = shows(header.state, state) or (state and state.commit in self._intent.commits)
            return bool(is_explained) and publish_changes(
                self._file, self._session, self._intent.agent_ids, self._nouns
            )
        except DamagedIndex:
            return False

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
