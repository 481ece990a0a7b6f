"""What a process holds of an index file: all rows, read once, and what it looked up of words and records.

A row never changes, so one `Rows` serves the indexes of all revisions of a file; it only grows.
"""

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from cachetools import LRUCache

from waygraph.registry.index.local.file import (
    BARE,
    COLUMN_ROWS,
    POSTING_ROWS,
    TOOL,
    VECTOR,
    Columns,
    DamagedIndex,
    Header,
    IndexFile,
    decode,
    unseal,
)
from waygraph.registry.index.local.scoring import CODE_TAIL, Codes, aligned_rows, has_codes
from waygraph.registry.index.search_index import agent_of_record, tool_of_record
from waygraph.registry.model.nouns import Agent, Tool

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from waygraph.registry.embedding.embedder import Vector

    Places = NDArray[np.int64]
    Mask = NDArray[np.bool_]

FLOAT_ROWS = 32_768
"""Of more rows the codes are held, and the float32 numbers are read of those few that may be among the best."""
_WORDS_KEPT, _TOOLS_KEPT = 4_096, 20_000
_ROOM = 1.25
"""Rows grow by so much at a time."""


class Postings(NamedTuple):
    """Of one word, among the first `row_count` rows: those that hold it, in order, and how often, int64 of shape
    (postings,).
    """

    rows: "Places"
    counts: "Places"
    row_count: int = 0


_NO_POSTINGS = Postings(np.empty(0, np.int64), np.empty(0, np.int64))


class AgentRecord(NamedTuple):
    """`claims`: (source, the source's own key) of each claim on it."""

    agent: Agent
    claims: Sequence[tuple[str, str]]


class Rows:
    """Threads share it: it is changed under the file's lock, and what it gave stays as it was."""

    def __init__(self, dimension: int) -> None:
        self._dimension, self.size, self._room = dimension, 0, 0
        self.ids = self.owners = np.empty(0, object)
        self.agents = self.flags = self.lengths = np.empty(0, np.int32)
        self.floats: Vector | None = None
        self.codes: Codes | None = None
        self._by_id = np.empty(0, np.int64)
        self._postings: LRUCache[str, Postings] = LRUCache(_WORDS_KEPT)
        self._tools: LRUCache[int, Tool] = LRUCache(_TOOLS_KEPT)
        self._agent_records: dict[int, AgentRecord] = {}

    def follow(self, file: IndexFile, size: int) -> None:
        """Reads the rows from the last look on, up to `size`. Raises DamagedIndex, StorageFailed."""
        if size <= self.size:
            return
        uses_codes = self._dimension and size > FLOAT_ROWS and has_codes()
        if uses_codes and self.codes is None:
            self._change_to_codes(file)
        first = self.size // COLUMN_ROWS
        blobs = file.fetch("SELECT body FROM columns WHERE number >= ? ORDER BY number", first)
        blocks = [Columns.unseal(body, number) for number, (body,) in enumerate(blobs, start=first)]
        cut = slice(self.size - first * COLUMN_ROWS, size - first * COLUMN_ROWS)
        ids = [each for block in blocks for each in block.ids][cut]
        if len(ids) != size - self.size:
            raise DamagedIndex("rows are missing")
        self._grow(size, with_codes=bool(uses_codes))
        new = slice(self.size, size)
        self.ids[new] = ids
        same: dict[str, str] = {}  # one text for all tools of an agent
        self.owners[new] = [same.setdefault(owner, owner) for owner in (each.partition("/")[0] for each in ids)]
        self.agents[new], self.flags[new], self.lengths[new] = (
            np.concatenate([block[part] for block in blocks])[cut] for part in (1, 2, 3)
        )
        if self.codes is not None:
            self._take_codes(self.codes, np.concatenate([block.codes for block in blocks])[cut], new)
        elif self.floats is not None:
            self._take_floats(self.floats, file, new)
        self.size = size

    def _change_to_codes(self, file: IndexFile) -> None:
        """It has outgrown the others, which are there until these are filled: who asks meanwhile finds one of both."""
        codes = Codes.empty(self._room, self._dimension)
        blobs = file.fetch("SELECT body FROM columns WHERE number * ? < ? ORDER BY number", COLUMN_ROWS, self.size)
        if blobs:
            blocks = [Columns.unseal(body, number).codes for number, (body,) in enumerate(blobs)]
            self._take_codes(codes, np.concatenate(blocks)[: self.size], slice(0, self.size))
        self.codes = codes
        self.floats = None

    def _grow(self, size: int, *, with_codes: bool) -> None:
        if size <= self._room:
            return
        room = max(size + 64, int(self._room * _ROOM))
        for name in ("ids", "owners", "agents", "flags", "lengths"):
            former = getattr(self, name)
            setattr(self, name, _grow(former, np.empty(room, former.dtype), self.size))
        if with_codes:
            self.codes = (self.codes or Codes.empty(0, self._dimension)).grow(room)
        elif self._dimension:
            wide = aligned_rows(room, self._dimension)
            self.floats = wide if self.floats is None else _grow(self.floats, wide, self.size)
        self._room = room

    def _take_codes(self, codes: Codes, columns: "NDArray[np.uint8]", new: slice) -> None:
        codes.codes[new] = columns[:, : self._dimension].view(np.int8)
        tail = np.ascontiguousarray(columns[:, -CODE_TAIL:]).view(np.float32)
        codes.scales[new], codes.errors[new] = tail[:, 0], tail[:, 1]

    def _take_floats(self, floats: "Vector", file: IndexFile, new: slice) -> None:
        rows = file.fetch("SELECT row, body FROM vector WHERE row >= ? AND row < ?", new.start, new.stop)
        if rows:
            numbers = np.frombuffer(b"".join([unseal(body, row) for row, body in rows]), np.float32)
            floats[[row for row, _ in rows]] = numbers.reshape(len(rows), -1)
        self._expect_vectors(len(rows), self.flags[new])

    def _expect_vectors(self, read: int, flags: "NDArray[np.int32]") -> None:
        """A vector may be of zeros, and then its flag says that it has no direction."""
        if read < int(np.count_nonzero(flags & VECTOR)):
            raise DamagedIndex("vectors are missing")

    def ranks(self, size: int) -> "Places":
        """Of the first rows the order of agents with tools, those without, and tools, each by id; equal scores take it.

        int64 of shape (size,).
        """
        if len(self._by_id) != size:
            self._by_id = _with_new(self._by_id, self.ids[:size])
        kinds = np.asarray([0, 2, 1])[self.flags[self._by_id] & (TOOL | BARE)]
        ranks = np.empty(size, np.int64)
        ranks[self._by_id[np.argsort(kinds, kind="stable")]] = np.arange(size)
        return ranks

    def vectors(self, file: IndexFile, rows: "Places") -> "Vector":
        """Of these rows, in order, each with a vector: float32 of shape (rows, dimension)."""
        if self.floats is not None:
            return self.floats[rows]
        statement = "SELECT row, body FROM vector WHERE row IN (SELECT value FROM json_each(?)) ORDER BY row"
        read = file.fetch(statement, json.dumps(rows.tolist()))
        if len(read) != len(rows):
            raise DamagedIndex("vectors are missing")
        numbers = np.frombuffer(b"".join([unseal(body, row) for row, body in read]), np.float32)
        return numbers.reshape(len(rows), self._dimension)

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
            term, blocks = file.terms(word, header).get(word, (0, 0))
            bounds = term << 24 | first, term << 24 | 0xFFFFFF
            blobs = file.fetch("SELECT key, body FROM posting WHERE key BETWEEN ? AND ? ORDER BY key", *bounds)
        keep = int(np.searchsorted(former.rows, first * POSTING_ROWS))
        rows, counts = [former.rows[:keep]], [former.counts[:keep]]
        if len(np.unique(rows[0] // POSTING_ROWS)) + len(blobs) != blocks:
            raise DamagedIndex("words are missing")
        for key, body in blobs:
            numbers = np.frombuffer(unseal(body, key), "<u4").astype(np.int64)
            rows.append((numbers & 0xFFF) + (key & 0xFFFFFF) * POSTING_ROWS)
            counts.append(numbers >> 12)
        return Postings(np.concatenate(rows), np.concatenate(counts), header.rows)

    def agent_records(self, file: IndexFile, rows: Sequence[int]) -> list[AgentRecord]:
        """Of these rows, in order."""
        with file.lock:
            self._read_new(file, rows, self._agent_records, _agent_record)
            return [self._agent_records[row] for row in rows]

    def tools(self, file: IndexFile, rows: Sequence[int]) -> list[Tool]:
        """Of these rows, in order."""
        with file.lock:
            tools = {row: tool for row in rows if (tool := self._tools.get(row)) is not None}
            self._read_new(file, rows, tools, tool_of_record)
            self._tools.update(tools)
        return [tools[row] for row in rows]

    def _read_new(self, file: IndexFile, rows: Iterable[int], records: dict[int, Any], parse: Any) -> None:
        new = {row for row in rows if row not in records}
        if not new:
            return
        statement = "SELECT row, body FROM record WHERE row IN (SELECT value FROM json_each(?))"
        read = file.fetch(statement, json.dumps(list(new)))
        if len(read) != len(new):
            raise DamagedIndex("records are missing")
        records.update({row: parse(decode(unseal(body, row))) for row, body in read})


def _with_new(by_id: "Places", ids: "NDArray[np.object_]") -> "Places":
    """Rows in order of their ids, with those that were not among them."""
    if len(by_id) > len(ids):  # an index of an earlier revision
        return by_id[by_id < len(ids)]
    new = np.asarray(sorted(range(len(by_id), len(ids)), key=ids.__getitem__), np.int64)
    order: Places = np.insert(by_id, np.searchsorted(ids[by_id], ids[new]), new) if len(by_id) else new
    return order


def _agent_record(record: Any) -> AgentRecord:
    return AgentRecord(agent_of_record(record["agent"]), [(source, key) for source, key in record["claims"]])


def _grow[A: "NDArray[Any]"](former: A, room: A, size: int) -> A:
    room[:size] = former[:size]
    return room
