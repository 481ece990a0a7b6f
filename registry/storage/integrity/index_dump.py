"""All that an index file says, in a form that does not depend on the order in which it was written."""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Mapping
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from waygraph.registry.index.local.file import (
    DamagedIndex,
    Header,
    IndexFile,
    decode,
    open_to_read,
    row_type,
    unpack_postings,
    unusable,
)

_FLOAT_PARTS = ("near",)
"""Parts whose numbers another processor may see otherwise in their last digits."""


@dataclass(frozen=True, slots=True)
class IndexDump:
    """`parts`: of each part name → what is said of it. Two dumps of the same revision are equal."""

    parts: Mapping[str, Mapping[str, Any]]

    @classmethod
    def of(cls, folder: Path) -> "IndexDump":
        """Reads all of the current index. Raises RegistryNotFound, RegistryUnusable, StorageFailed."""
        with closing(open_to_read(folder)) as file:
            try:
                with file.at_once():
                    return _dump(file)
            except DamagedIndex as exc:
                raise unusable(folder, exc) from exc


def _dump(file: IndexFile) -> IndexDump:
    if (fault := file.fetch("PRAGMA quick_check(1)")[0][0]) != "ok":
        raise DamagedIndex(fault)
    header = file.header()
    ids, entities, checks = _entities(file, header)
    parts: dict[str, Mapping[str, Any]] = {"state": asdict(header.state), "rows": entities, "words": _words(file, ids)}
    parts["records"] = {ids[row]: body for row, body in file.scan("record") if row in ids}
    rows = np.asarray([row for row in ids if checks[row]], np.int64)
    vectors = file.vectors(rows, checks[rows], header.state.dimension)
    parts["vectors"] = {ids[row]: vector.tobytes() for row, vector in zip(rows.tolist(), vectors, strict=True)}
    for name in header.parts:
        value = decode(file.part(name, header) or b"null")
        parts[name] = {name: sorted(value) if name in _FLOAT_PARTS else value}
    return IndexDump(parts)


def _entities(file: IndexFile, header: Header) -> tuple[Mapping[int, str], Mapping[str, Any], NDArray[np.int32]]:
    """Row → id of those that hold; id → owner and numbers; the checksums of all rows' vectors. What a writer knows of
    these rows is what readers see.
    """
    owners, rows = dict[int, str](), dict[str, int]()
    for (agent_id,) in file.fetch("SELECT key FROM agent"):
        number, entities = decode(file.read("agent", agent_id))
        owners[number] = agent_id
        rows.update({entity_id: row for entity_id, (row, *_) in entities.items()})
    blocks, dead = [*file.columns(header)], set(file.dead_rows(header))
    ids = {row: each for row, each in enumerate(each for block in blocks for each in block.ids) if row not in dead}
    if {row: entity_id for entity_id, row in rows.items()} != ids:
        raise DamagedIndex("its agents do not know their rows")
    numbers = np.concatenate([np.empty(0, row_type(header.state.dimension)), *(block.numbers for block in blocks)])
    row_owners = [owners.get(number) for number in numbers["owner"].tolist()]
    numbers["owner"] = 0  # given in the order of writing
    entities = {entity_id: (row_owners[row], numbers[row].tobytes()) for row, entity_id in ids.items()}
    return ids, entities, numbers["check"]


def _words(file: IndexFile, ids: Mapping[int, str]) -> Mapping[str, str]:
    """Word → a digest of who holds it and how often."""
    words, blocks_by_term = dict[int, str](), dict[int, int]()
    for _, body in file.scan("words"):
        for word, (term, blocks) in decode(body).items():
            words[term], blocks_by_term[term] = word, blocks
    postings = file.scan("posting")
    if dict(Counter(key >> 24 for key, _ in postings)) != blocks_by_term:
        raise DamagedIndex("words are missing")
    holders: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for key, body in postings:
        pairs = zip(*(each.tolist() for each in unpack_postings(key, body)), strict=True)
        holders[words[key >> 24]] += [(ids[row], count) for row, count in pairs if row in ids]
    return {word: hashlib.sha256(repr(sorted(each)).encode()).hexdigest() for word, each in holders.items() if each}
