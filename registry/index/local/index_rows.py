"""What a process holds of an index file: all rows, read once, and what it looked up of words and records.

A row never changes, so one `Rows` serves the indexes of all revisions of a file; it only grows.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from cachetools import LRUCache
from numpy.typing import NDArray

from waygraph.registry.embedding.embedder import Vector
from waygraph.registry.index.analyser import kept_lengths
from waygraph.registry.index.call_facts import CallFacts
from waygraph.registry.index.local.file import (
    COLUMN_ROWS,
    POSTING_ROWS,
    DamagedIndex,
    Flag,
    Header,
    IndexFile,
    bucket_of,
    decode,
    unpack_postings,
)
from waygraph.registry.index.local.scoring import Codes, Places, aligned_rows, has_codes
from waygraph.registry.index.search_index import Leg, of_record
from waygraph.registry.model.nouns import Agent, EntityKind, Tool

type Mask = NDArray[np.bool_]
FLOAT_ROWS = 32_768
"""Of more rows the codes are held, and the float32 numbers are read of those few that may be among the best."""
SIGN_ROWS = 200_000
"""Of more rows the signs are looked at first, and the codes of those alone that are near by them."""
_WORDS_KEPT, _TOOLS_KEPT = 4_096, 20_000
_VECTORS_AT_ONCE = 4_096
"""More would be held twice."""
_ROOM = 1.25
"""Rows of vectors grow by so much at a time."""


class Postings(NamedTuple):
    """Of one word, among the first `row_count` rows: those that hold it, in order, and how often, int64 of shape
    (postings,).
    """

    rows: Places
    counts: Places
    row_count: int = 0


_NO_POSTINGS = Postings(np.empty(0, np.int64), np.empty(0, np.int64))


class AgentRecord(NamedTuple):
    """`claims`: (source, the source's own key, hash, since, revision) of each claim on it."""

    agent: Agent
    claims: Sequence[tuple[str, str, str, str, int]]


class Rows:
    """Threads share it: it is changed under the file's lock, and what it gave stays as it was."""

    def __init__(self) -> None:
        self.size = self._room = 0
        self.ids = self.facts = np.empty(0, object)
        self.owner_numbers = self.flags = self.lengths = self.checks = np.empty(0, np.int32)
        self.kept_lengths = np.empty(0, np.int64)
        self.embeddings: Vector | Codes | None = None
        self._by_id = np.empty(0, np.int64)
        self._postings: LRUCache[str, Postings] = LRUCache(_WORDS_KEPT)
        self._tools: dict[int, Tool] = {}
        self._agent_records: dict[int, AgentRecord] = {}

    def follow(self, file: IndexFile, header: Header) -> None:
        """Reads the rows from the last look on, up to the header's. Raises DamagedIndex."""
        if header.rows <= self.size:
            return
        dimension, size = header.state.dimension, self.size
        uses_codes = bool(dimension) and header.rows > FLOAT_ROWS and has_codes()
        outgrows_floats = uses_codes and not isinstance(self.embeddings, Codes)
        first = 0 if outgrows_floats else size // COLUMN_ROWS * COLUMN_ROWS
        codes = self._codes_for(header.rows, dimension) if uses_codes else None
        ids, facts = list[str](), list[str]()
        numbers = list[NDArray[np.int32]]()
        for block in file.columns(header, first // COLUMN_ROWS):
            if codes is not None:
                codes.put(first + len(ids), block.numbers[: header.rows - first - len(ids)])
            ids += block.ids
            facts += block.facts
            # Copies: the bodies, most of which are codes, need not stay.
            numbers.append(np.stack([block.numbers[name] for name in ("owner", "flags", "length", "check")]))
        new = slice(size - first, header.rows - first)
        owner_numbers, flags, lengths, checks = np.concatenate(numbers, axis=1)[:, new]
        if codes is not None:
            self.embeddings = codes
        elif dimension:
            self._take_floats(file, checks, dimension)
        # Up to `size`: what ended amid these lines is done again.
        self.ids = np.concatenate([self.ids[:size], np.asarray(ids[new], object)])
        self.facts = np.concatenate([self.facts[:size], np.asarray(facts[new], object)])
        self.owner_numbers = np.concatenate([self.owner_numbers[:size], owner_numbers])
        self.flags = np.concatenate([self.flags[:size], flags])
        self.lengths = np.concatenate([self.lengths[:size], lengths])
        self.checks = np.concatenate([self.checks[:size], checks])
        self.kept_lengths = np.concatenate([self.kept_lengths[:size], kept_lengths(lengths)])
        self.size = header.rows

    def _codes_for(self, size: int, dimension: int) -> Codes:
        """With room for so many rows. Meanwhile others ask the former, or the floats that they take the place of."""
        codes = self.embeddings if isinstance(self.embeddings, Codes) else Codes.empty(0, dimension)
        return codes if size <= len(codes.codes) else codes.grow(self._room_for(size))

    def _take_floats(self, file: IndexFile, checks: NDArray[np.int32], dimension: int) -> None:
        """Of the rows from the last look on. A vector may be of zeros: then its flag says that it has no direction."""
        size, floats = self.size + len(checks), self.embeddings
        if not isinstance(floats, np.ndarray) or size > len(floats):
            wide = aligned_rows(self._room_for(size), dimension)
            if isinstance(floats, np.ndarray):
                wide[: self.size] = floats[: self.size]
            self.embeddings = floats = wide
        new = np.flatnonzero(checks)
        for at in range(0, len(new), _VECTORS_AT_ONCE):
            some = new[at : at + _VECTORS_AT_ONCE]
            floats[self.size + some] = file.vectors(self.size + some, checks[some], dimension)

    def _room_for(self, size: int) -> int:
        self._room = max(size + 64, int(self._room * _ROOM))
        return self._room

    def ranks(self, size: int) -> Places:
        """Of the first rows the order of agents with tools, those without, and tools, each by id; equal scores take it.

        int64 of shape (size,).
        """
        if len(self._by_id) != size:
            self._by_id = _with_new(self._by_id, self.ids[:size])
        kinds = np.asarray([0, 2, 1])[self.flags[self._by_id] & (Flag.TOOL | Flag.BARE)]
        ranks = np.empty(size, np.int64)
        ranks[self._by_id[np.argsort(kinds, kind="stable")]] = np.arange(size)
        return ranks

    def vectors(self, file: IndexFile, rows: Places) -> Vector:
        """Of these rows, each with a vector: float32 of shape (rows, dimension)."""
        if isinstance(self.embeddings, np.ndarray):
            return self.embeddings[rows]
        dimension = 0 if self.embeddings is None else self.embeddings.codes.shape[1]
        return file.vectors(rows, self.checks[rows], dimension)

    def call_facts(self, rows: Places) -> list[CallFacts]:
        """Of these tools, int64 of shape (tools,): unpacked when they are first asked for."""
        column = self.facts
        for row in rows.tolist():
            if isinstance(column[row], str):
                column[row] = CallFacts.unpack(column[row])
        facts: list[CallFacts] = column[rows].tolist()
        return facts

    def postings(self, file: IndexFile, word: str, header: Header) -> Postings:
        """Among the first rows that the header tells of. Raises DamagedIndex, StorageFailed."""
        with file.lock:
            postings = self._postings.get(word, _NO_POSTINGS)
            if postings.row_count < header.rows:
                postings = self._postings[word] = self._read_postings(file, word, header, postings)
        end = np.searchsorted(postings.rows, header.rows)
        return Postings(postings.rows[:end], postings.counts[:end], header.rows)

    def _read_postings(self, file: IndexFile, word: str, header: Header, former: Postings) -> Postings:
        """Only the last block that was read may hold more now."""
        first = former.row_count // POSTING_ROWS
        with file.at_once():
            term, blocks = decode(file.read("words", bucket_of(word, header.buckets))).get(word, (0, 0))
            bodies = file.scan("posting", term << 24 | first, term << 24 | 0xFFFFFF)
        keep = int(np.searchsorted(former.rows, first * POSTING_ROWS))
        if len(np.unique(former.rows[:keep] // POSTING_ROWS)) + len(bodies) != blocks:
            raise DamagedIndex("words are missing")
        parts = [(former.rows[:keep], former.counts[:keep]), *(unpack_postings(*each) for each in bodies)]
        rows, counts = (np.concatenate(each) for each in zip(*parts, strict=True))
        return Postings(rows, counts, header.rows)

    def agent_records(self, file: IndexFile, rows: Sequence[int]) -> list[AgentRecord]:
        """Of these rows, in order."""
        with file.lock:
            _read_new(file, rows, self._agent_records, _agent_record)
            return [self._agent_records[row] for row in rows]

    def tools(self, file: IndexFile, rows: Sequence[int]) -> list[Tool]:
        """Of these rows, in order."""
        with file.lock:
            tools = self._tools
            _read_new(file, rows, tools, partial(of_record, Tool))
            if len(tools) > _TOOLS_KEPT:  # begun anew: to keep the last asked for in order costs more at each route
                self._tools = {}
            return [tools[row] for row in rows]


def _read_new[T](file: IndexFile, rows: Sequence[int], records: dict[int, T], parse: Callable[[Any], T]) -> None:
    if new := {row for row in rows if row not in records}:
        records.update({row: parse(decode(body)) for row, body in file.read_rows("record", new).items()})


def _with_new(by_id: Places, ids: NDArray[np.object_]) -> Places:
    """Rows in order of their ids, with those that were not among them."""
    if len(by_id) > len(ids):  # an index of an earlier revision
        return by_id[by_id < len(ids)]
    new = np.asarray(sorted(range(len(by_id), len(ids)), key=ids.__getitem__), np.int64)
    order: Places = np.insert(by_id, np.searchsorted(ids[by_id], ids[new]), new) if len(by_id) else new
    return order


def _agent_record(record: Any) -> AgentRecord:
    return AgentRecord(of_record(Agent, record["agent"]), [tuple(each) for each in record["claims"]])


class Living:
    """Of one revision: which rows hold, and what they are; each bool or int32 of shape (rows,)."""

    def __init__(self, file: IndexFile, header: Header, rows: Rows) -> None:
        """In one transaction of the file. Raises DamagedIndex."""
        rows.follow(file, header)
        size = header.rows
        self.alive = np.ones(size, np.bool_)
        self.alive[file.dead_rows(header)] = False
        self.ids = rows.ids[:size]
        self.owner_numbers, self.flags = rows.owner_numbers[:size], rows.flags[:size]
        self.lengths, self.kept_lengths = rows.lengths[:size], rows.kept_lengths[:size]
        self.ranks = rows.ranks(size)
        self.profiles: Mask = self.alive & (self.flags & Flag.TOOL == 0)
        self.tools: Mask = self.alive & (self.flags & Flag.TOOL > 0)
        self.capabilities: Mask = self.tools | (self.alive & (self.flags & Flag.BARE > 0))
        self.directed: Mask = self.flags & Flag.VECTOR > 0
        self.populations: Mapping[EntityKind, int] = {
            "agent": int(np.count_nonzero(self.profiles)),
            "tool": int(np.count_nonzero(self.capabilities)),
        }

    @cached_property
    def owner_rows(self) -> Places:
        """The row of the agent of each, its own for an agent: int64 of shape (rows,)."""
        agents = np.flatnonzero(self.profiles)
        of_number = np.zeros(int(self.owner_numbers.max(initial=0)) + 1, np.int64)
        of_number[self.owner_numbers[agents]] = agents
        owner_rows: Places = of_number[self.owner_numbers]
        return owner_rows

    @cached_property
    def tools_by_id(self) -> Places:
        """Rows of tools in order of id: int64 of shape (tools,)."""
        tools = np.flatnonzero(self.tools)
        return tools[np.argsort(self.ranks[tools])]

    def texts(self, leg: Leg) -> Mask:
        """The rows of a ranked list: bool of shape (rows,)."""
        if leg in ("agent_text", "agent_vector"):
            return self.profiles
        return self.tools if leg == "tool_vector" else self.capabilities
