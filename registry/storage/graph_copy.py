"""Copies of an embedded registry's graph for what reads a whole revision: Cypher, the log of changes, rehearsals.

One is made when somebody asks and there is none of what is committed now. It takes no lock, so nobody waits for a
writer and no writer for it: the file changes at a checkpoint only, the log beside it only grows until then, and the
copy has as much of the log as there was at its start. If the file changed meanwhile, it is copied again. A copy is
called after what was copied, so that the next one who asks finds it; it is removed when there is a newer one and
nobody holds it.

tools.grafeo.index/
    graph-<mark>/       graph.grafeo and its log
    copying-…/          one that is being made
"""

import fcntl
import hashlib
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from waygraph.registry.graph.grafeo import graph_stamps, log_of
from waygraph.registry.model.errors import RegistryLocked, RegistryUnusable, StorageFailed
from waygraph.registry.model.files import is_taken, storage_errors

GRAPH = "graph.grafeo"
ATTEMPTS = 20
SETTLED_NS = 50_000_000
"""Within so much time two changes of a file may bear the same time stamp."""

type Stamps = dict[Path, tuple[int, ...]]


class _GraphChange(Exception):
    """The file was not the same at the end of its copy."""


@contextmanager
def open_copy(graph: Path, folder: Path) -> Iterator[Path]:
    """A copy of what is committed, a file for GrafeoEngine.open_copy; it stays as long as the block lasts.

    Where `folder` cannot be written, the copy is one for this block alone. Raises RegistryUnusable if there is no
    graph, RegistryLocked if it changes faster than it can be copied, StorageFailed.
    """
    for attempt in range(ATTEMPTS):
        with ExitStack() as lease, suppress(_GraphChange):
            yield _find_or_make(graph, folder, lease) / GRAPH
            return
        time.sleep(0.01 * attempt)
    raise RegistryLocked(graph, holder="somebody who changes it all the time", waited_s=0)


def _find_or_make(graph: Path, folder: Path, lease: ExitStack) -> Path:
    stamps = _stamps(graph)
    place = folder / f"graph-{_mark(stamps)}"
    with suppress(OSError):
        return _hold(place, lease)
    try:
        return _make(graph, stamps, place, lease)
    except OSError:  # the folder cannot be written, or has no room
        apart = Path(lease.enter_context(tempfile.TemporaryDirectory(prefix="waygraph-")))
    try:
        _copy(graph, stamps, apart)
    except OSError as exc:
        raise StorageFailed(f"{graph}: could not be copied: {exc.strerror}") from exc
    return apart


def _make(graph: Path, stamps: Stamps, place: Path, lease: ExitStack) -> Path:
    """Raises OSError."""
    place.parent.mkdir(parents=True, exist_ok=True)
    building = place.with_name(f"copying-{secrets.token_hex(4)}")
    building.mkdir()
    try:
        _hold(building, lease)
        _copy(graph, stamps, building)
        building.rename(place)
    except OSError:
        if not place.is_dir():
            raise
        return _hold(place, lease)  # another one was first
    finally:
        shutil.rmtree(building, ignore_errors=True)
    _remove_others(place)
    return place


def _copy(graph: Path, stamps: Stamps, folder: Path) -> None:
    """Raises _GraphChange, OSError."""
    target = folder / GRAPH
    age_ns = time.time_ns() - stamps[graph][-1]
    time.sleep(max(0, min(SETTLED_NS, SETTLED_NS - age_ns)) / 1e9)
    if len(stamps) > 1:
        log_of(target).mkdir()
    for file, (_, size, _) in stamps.items():
        copy = target if file == graph else log_of(target) / file.name
        try:
            shutil.copyfile(file, copy)
        except FileNotFoundError:  # a checkpoint began the log anew
            raise _GraphChange from None
        with copy.open("rb+") as whole:
            whole.truncate(size)
            os.fsync(whole.fileno())
    if not _still_hold(stamps, _stamps(graph)):
        raise _GraphChange


def _stamps(graph: Path) -> Stamps:
    """Of the file and of each part of its log, which only grows."""
    with storage_errors(graph, "read"):
        stamps = graph_stamps(graph)
    if graph not in stamps:
        raise RegistryUnusable(graph, "the graph file is gone. Put a copy back.")
    return stamps


def _still_hold(before: Stamps, after: Stamps) -> bool:
    graph, *log = before
    parts = ((before[file], after.get(file, (-1, -1))) for file in log)
    return before[graph] == after[graph] and all(old[0] == new[0] and old[1] <= new[1] for old, new in parts)


def _mark(stamps: Stamps) -> str:
    parts = [(file.name, *stamp) for file, stamp in stamps.items()]
    return hashlib.blake2b(repr(parts).encode(), digest_size=8).hexdigest()


def _hold(place: Path, lease: ExitStack) -> Path:
    """The folder stays until the lease ends. Raises FileNotFoundError."""
    folder = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    lease.callback(os.close, folder)
    with suppress(OSError):  # some networks' file systems have no such locks
        fcntl.flock(folder, fcntl.LOCK_SH)
    if place.stat().st_ino != os.fstat(folder).st_ino:
        raise FileNotFoundError(place)
    return place


def _remove_others(place: Path) -> None:
    """Copies that are older, and what killed processes left, unless somebody holds them."""
    for other in (*place.parent.glob("graph-*"), *place.parent.glob("copying-*")):
        if other == place:
            continue
        with suppress(OSError):
            folder = os.open(other, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                if is_taken(folder):
                    aside = other.with_name(f"copying-{secrets.token_hex(4)}")
                    other.rename(aside)
                    shutil.rmtree(aside, ignore_errors=True)
            finally:
                os.close(folder)
