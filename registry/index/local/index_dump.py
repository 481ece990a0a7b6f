"""All that an index file says, in a form that does not depend on the order in which it was written."""

import hashlib
from collections import defaultdict
from collections.abc import Mapping
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from waygraph.registry.index.local.file import (
    COLUMN_ROWS,
    POSTING_ROWS,
    Columns,
    DamagedIndex,
    Header,
    IndexFile,
    decode,
    open_to_read,
    unseal,
    unseal_json,
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
    ids, entities = _entities(file, header)
    parts = {
        "state": asdict(header.state),
        "rows": entities,
        "records": {
            ids[row]: unseal(body, row) for row, body in file.fetch("SELECT row, body FROM record") if row in ids
        },
        "vectors": {
            ids[row]: unseal(body, row) for row, body in file.fetch("SELECT row, body FROM vector") if row in ids
        },
        "words": _words(file, ids),
    }
    for name, serial in header.parts.items():
        value = decode(file.read_part(name, serial))
        parts[name] = {name: sorted(value) if name in _FLOAT_PARTS else value}
    return IndexDump(parts)


def _entities(file: IndexFile, header: Header) -> tuple[Mapping[int, str], Mapping[str, Any]]:
    """Row → id of those that hold; id → owner, flags, length and codes."""
    owners = dict(file.fetch("SELECT number, id FROM agent"))
    dead = set(file.dead_rows(header))
    ids: dict[int, str] = {}
    entities: dict[str, Any] = {}
    for number, body in file.fetch("SELECT number, body FROM columns"):
        block = Columns.unseal(body, number)
        for place, entity_id in enumerate(block.ids):
            row = number * COLUMN_ROWS + place
            if row < header.rows and row not in dead:
                if entity_id in entities:
                    raise DamagedIndex(f"{entity_id} has two rows")
                ids[row] = entity_id
                owner = owners.get(int(block.agents[place]), "")
                numbers = int(block.flags[place]), int(block.lengths[place]), block.codes[place].tobytes()
                entities[entity_id] = owner, *numbers
    _refuse_other_rows(file, ids)
    return ids, entities


def _refuse_other_rows(file: IndexFile, ids: Mapping[int, str]) -> None:
    """What a writer knows of living rows is what readers see. Raises DamagedIndex."""
    ids_by_row = {
        row: entity_id
        for agent_id, body in file.fetch("SELECT id, body FROM agent")
        for entity_id, (row, _) in unseal_json(body, agent_id).items()
    }
    if ids_by_row != ids:
        raise DamagedIndex("its agents do not know their rows")


def _words(file: IndexFile, ids: Mapping[int, str]) -> Mapping[str, str]:
    """Word → a digest of who holds it and how often."""
    words = {
        term: (word, blocks)
        for bucket, body in file.fetch("SELECT bucket, body FROM words")
        for word, (term, blocks) in unseal_json(body, bucket).items()
    }
    blocks_by_term: dict[int, int] = defaultdict(int)
    holders: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for key, body in file.fetch("SELECT key, body FROM posting"):
        numbers = np.frombuffer(unseal(body, key), "<u4").astype(np.int64)
        rows = (numbers & 0xFFF) + (key & 0xFFFFFF) * POSTING_ROWS
        blocks_by_term[key >> 24] += 1
        if key >> 24 not in words:
            raise DamagedIndex("postings of no word")
        word = words[key >> 24][0]
        holders[word] += [
            (ids[row], n) for row, n in zip(rows.tolist(), (numbers >> 12).tolist(), strict=True) if row in ids
        ]
    if any(blocks_by_term[term] != blocks for term, (_, blocks) in words.items()):
        raise DamagedIndex("words are missing")
    return {word: hashlib.sha256(repr(sorted(each)).encode()).hexdigest() for word, each in holders.items() if each}
