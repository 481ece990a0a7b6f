"""Records of `waygraph eval` under a folder that the operator names: read, and never written."""

import json
from functools import lru_cache
from itertools import islice
from pathlib import Path

from waygraph.registry.model.shapes import Shape

KIND = "waygraph evaluation 1"
MAX_RECORDS, MAX_FILES = 200, 1_000
MAX_BYTES = 32 * 1024 * 1024
"""Of one record, which may hold all its queries."""


def read_evaluations(folder: str) -> Shape:
    """Of `MAX_FILES` files the newest `MAX_RECORDS` records, newest first, without queries. Links lead nowhere."""
    root = Path(folder).resolve()
    files = (path for path in root.rglob("*.json") if path.is_file() and not path.is_symlink())
    paths = list(islice(files, MAX_FILES)) if folder else []
    pairs = [(path.relative_to(root).as_posix(), record) for path in paths if (record := _read(path))]
    pairs.sort(key=lambda pair: (str(pair[1].get("date")), pair[0]), reverse=True)
    records = [{"path": path, "record": record} for path, record in pairs[:MAX_RECORDS]]
    return {"folder": folder and str(root), "records": records, "other_files": len(paths) - len(records)}


def _read(path: Path) -> Shape | None:
    """None: it is no record, too large, or cannot be read."""
    try:
        status = path.stat()
        return _parse(path, status.st_mtime_ns) if status.st_size <= MAX_BYTES else None
    except OSError:
        return None


@lru_cache(maxsize=MAX_FILES)
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
