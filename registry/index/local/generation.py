"""Generations: immutable folders beside the graph, one of them current, leased by whoever reads.

tools.grafeo.index/
    current             names the current folder; written atomically
    pending             a writer is between its commit and its publication (or died there)
    gen-<revision>-…/   never modified once published; goes when no reader holds its lease
"""

import fcntl
import json
import os
import re
import secrets
import shutil
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from waygraph.registry.model.errors import RegistryError, RegistryNotFound, RegistryUnusable, StorageFailed
from waygraph.registry.model.files import sync_path, write_atomically

if TYPE_CHECKING:
    from waygraph.registry.graph.contents import GraphNoun
    from waygraph.registry.model.changes import SourceSummary


CURRENT, PENDING, LEASE = "current", "pending", "lease"
_OPEN_ATTEMPTS = 100
_NAME = re.compile(r"gen-\d{10,}-[0-9a-f]{8}")


def folder_of(registry: Path) -> Path:
    """Where the generations of a registry file live."""
    return registry.with_name(registry.name + ".index")


def pointer_of(folder: Path) -> str:
    """The file that names the current generation. A text, since it is looked at before every query."""
    return str(folder / CURRENT)


class Lease:
    """A hold on one generation. Ends when closed or garbage-collected; a killed process holds nothing."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self.close = weakref.finalize(self, os.close, descriptor)


def lease_current(folder: Path) -> Lease:
    """A lease on the current generation. Raises RegistryNotFound if none was published, StorageFailed."""
    for _ in range(_OPEN_ATTEMPTS):
        path = folder / current_name(folder)
        try:
            return _lease(path)
        except FileNotFoundError:
            pass  # between reading the name and holding the lease a publisher may have removed the folder: read again
        except OSError as exc:
            raise _unreadable(path, exc) from exc
    raise StorageFailed(f"{folder}: the current generation is missing. Run `waygraph doctor --deep`.")


def _lease(path: Path) -> Lease:
    descriptor = os.open(path / LEASE, os.O_RDONLY | os.O_CLOEXEC)
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    if os.fstat(descriptor).st_nlink == 0 or not (path / LEASE).exists():
        os.close(descriptor)
        raise FileNotFoundError(path)
    return Lease(path, descriptor)


def current_name(folder: Path) -> str:
    """The current generation's folder name. Raises RegistryNotFound, RegistryUnusable, StorageFailed."""
    try:
        name = (folder / CURRENT).read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        raise RegistryNotFound(str(folder).removesuffix(".index")) from None
    except OSError as exc:
        raise _unreadable(folder / CURRENT, exc) from exc
    except ValueError:  # not text
        name = ""
    if not _NAME.fullmatch(name):
        raise RegistryUnusable(folder / CURRENT, "it names no generation. Remove the file: the index is built anew.")
    return name


def current_folder(folder: Path) -> Path | None:
    """The current generation; None if none was published. Raises RegistryUnusable, StorageFailed."""
    return folder / current_name(folder) if (folder / CURRENT).exists() else None


def stamp(pointer: str) -> tuple[int, int] | None:
    """Of the file `pointer_of` names: changes whenever another generation became current; None if there is none.

    Raises StorageFailed where nobody can tell: no right to look, a path through what is no folder.
    """
    try:
        status = os.stat(pointer)
    except FileNotFoundError:
        return None
    except OSError as exc:
        raise _unreadable(pointer, exc) from exc
    return status.st_mtime_ns, status.st_ino


def _unreadable(path: Path | str, exc: OSError) -> StorageFailed:
    return StorageFailed(f"{path}: cannot be read: {exc.strerror}")


def publish(folder: Path, revision: int, build: Callable[[Path], None]) -> Path:
    """Builds a generation in a new folder and makes it current. The caller holds the write lock.

    A failure on the way leaves the present generation as it is. Raises StorageFailed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    building = folder / f"building-{secrets.token_hex(4)}"
    try:
        building.mkdir()
        (building / LEASE).touch()
        build(building)
        for each in building.rglob("*"):  # of folders what they hold
            sync_path(each)
        sync_path(building)
        final = folder / f"gen-{revision:010d}-{secrets.token_hex(4)}"
        building.rename(final)
        write_atomically(folder / CURRENT, final.name.encode())
    except OSError as exc:
        raise StorageFailed(f"{folder}: the search index could not be written, the former one stays: {exc}") from exc
    finally:
        # A full disk is not kept full by what could not be finished. Once published, it has another name.
        shutil.rmtree(building, ignore_errors=True)
    remove_unused(folder)
    return final


def remove_unused(folder: Path) -> list[str]:
    """Removes generations that are neither current nor leased, and what killed writers left. Returns their names."""
    current = current_name(folder)
    removals = []
    for path in sorted(folder.iterdir()):
        stale = path.name.startswith(("building-", "removed-"))
        if path.is_dir() and path.name != current and (stale or _set_aside(path)):
            removals.append(path.name)
            shutil.rmtree(path if stale else _aside(path), ignore_errors=True)
    return removals


def mark_pending(folder: Path) -> None:
    """Says that the graph may be ahead of the index, until `clear_pending`; also if the power fails in between."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not is_pending(folder):
            (folder / PENDING).touch()
            sync_path(folder)
    except OSError as exc:
        raise StorageFailed(f"{folder}: cannot be written, nothing was changed: {exc.strerror}") from exc


def clear_pending(folder: Path) -> None:
    (folder / PENDING).unlink(missing_ok=True)


def is_pending(folder: Path) -> bool:
    return (folder / PENDING).exists()


def _set_aside(path: Path) -> bool:
    """Renames a generation that no reader holds; False if one does.

    A reader that read the old name finds nothing there and reads the pointer again. One that comes in between
    waits for the lease until the name is gone.
    """
    try:
        descriptor = os.open(path / LEASE, os.O_RDONLY | os.O_CLOEXEC | os.O_CREAT, 0o644)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.rename(_aside(path))
    except OSError:
        return False
    else:
        return True
    finally:
        os.close(descriptor)


def _aside(path: Path) -> Path:
    return path.with_name(f"removed-{path.name}")


STATE, TABLES, NAMES, RECORDS, OFFSETS = "state.json", "tables.json", "names.json", "tools.jsonl", "offsets.npy"
SOURCES = "sources.json"
CALLS = "calls.json"
"""Absent where nothing is known of calls."""
SETTINGS = "settings.json"
"""What operators said, and the tools they said it of as their sources state them. Absent in those of before."""
VECTORS, KEYS, GRAPH = "vectors.npy", "keys.json", "graph.grafeo"
CAPABILITY_TEXT, AGENT_TEXT = "capability_text", "agent_text"
_OF_TANTIVY = "meta.json"
PENDING_TOOLS = "pending_tools"
"""In the tables: positions of the tools that wait for approval; absent without any."""


def file_of(noun: "GraphNoun[Any]") -> str:
    """Where the values of a kind are; absent without any."""
    return f"{noun.name}.json"


def is_of_before(generation: Path) -> bool:
    """Whether its texts were written by tantivy, which nothing reads any more."""
    return (generation / CAPABILITY_TEXT / _OF_TANTIVY).exists()


def is_outdated(folder: Path) -> bool:
    """Whether the current generation of this folder is one of before."""
    with suppress(RegistryError):
        return is_of_before(folder / current_name(folder))
    return False


def read_sources(folder: Path) -> "list[SourceSummary]":
    rows = json.loads((folder / SOURCES).read_bytes())
    return [_source_of(row) for row in rows]


def _source_of(row: "dict[str, Any]") -> "SourceSummary":
    from waygraph.registry.model.changes import SourceSummary
    from waygraph.registry.model.failures import Failure

    claims = tuple((key, agent_id) for key, agent_id in row["claims"])
    failures = tuple(Failure(**each) for each in row.get("failures", ()))
    return SourceSummary(**{**row, "claims": claims, "failures": failures})
