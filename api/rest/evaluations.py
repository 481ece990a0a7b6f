"""Records of `waygraph eval` under a folder that the operator names: read, and never written."""

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from itertools import islice
from pathlib import Path

from waygraph.registry.model.shapes import Shape

KIND = "waygraph evaluation 1"
MAX_RECORDS, MAX_FILES, MAX_FOLDERS = 200, 5_000, 5_000
MAX_BYTES, MAX_ALL_BYTES = 32 * 1024 * 1024, 256 * 1024 * 1024
"""Of one record, which may hold all its queries, and of all that are read for an answer."""
_CACHE_SIZE = 500


def read_evaluations(folder: str) -> Shape:
    """Of the first `MAX_FILES` files the newest `MAX_RECORDS` records, newest first, without their queries."""
    root = Path(folder).resolve()
    paths = list(islice(_json_files(root), MAX_FILES)) if folder else []
    pairs = [(path.relative_to(root).as_posix(), record) for path, record in _read_all(paths)]
    pairs.sort(key=lambda pair: (str(pair[1].get("date")), pair[0]), reverse=True)
    records = [{"path": path, "record": record} for path, record in pairs[:MAX_RECORDS]]
    return {"folder": folder and str(root), "records": records, "other_files": len(paths) - len(records)}


def _json_files(root: Path) -> Iterator[Path]:
    """Of the folder and those below it; links lead nowhere."""
    for folder, folders, names in islice(os.walk(root), MAX_FOLDERS):
        folders.sort()
        paths = (Path(folder, name) for name in sorted(names) if name.endswith(".json"))
        yield from (path for path in paths if path.is_file() and not path.is_symlink())


def _read_all(paths: Iterable[Path]) -> Iterator[tuple[Path, Shape]]:
    """Those that are records, can be read, and are not too large, in all or by themselves."""
    left_bytes = MAX_ALL_BYTES
    for path in paths:
        with suppress(OSError):
            status = path.stat()
            if status.st_size <= min(MAX_BYTES, left_bytes):
                left_bytes -= status.st_size
                if record := _parse(path, status.st_mtime_ns):
                    yield path, record


@lru_cache(maxsize=_CACHE_SIZE)
def _parse(path: Path, _changed_ns: int) -> Shape | None:
    """Raises OSError."""
    try:
        record: Shape = json.loads(path.read_bytes())
        if record["kind"] != KIND:
            return None
        outcomes = [{name: value for name, value in each.items() if name != "queries"} for each in record["outcomes"]]
        return {**record, "outcomes": outcomes}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
