"""One writer a file: a lock beside it that names its holder and ends with the process."""

import fcntl
import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from waygraph.registry.errors import RegistryLocked, StorageFailed

_POLL_S = 0.02


def lock_of(file: Path) -> Path:
    return file.with_name(file.name + ".lock")


@contextmanager
def write_lock(file: Path, timeout_s: float, *, setting: str = "") -> Iterator[None]:
    """Holds the file's write lock. Raises RegistryLocked, naming the holder, after `timeout_s`, which `setting` says.

    Raises StorageFailed where no lock can be made.
    """
    path = lock_of(file)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as exc:
        raise StorageFailed(f"{path}: cannot be made, so nothing can be written here: {exc.strerror}") from exc
    owner = os.getpid()
    try:
        _acquire(descriptor, file, timeout_s, setting)
        # Who holds it is a courtesy to those who wait: a full disk must not keep a writer from making room.
        with suppress(OSError):
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, json.dumps(_self()).encode(), 0)
        yield
    finally:
        # The file stays: removing it would let two writers lock two different files of one name.
        if os.getpid() == owner:
            # Let go in so many words: a process forked meanwhile has the descriptor too, and would keep the lock.
            fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


def _acquire(descriptor: int, file: Path, timeout_s: float, setting: str) -> None:
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise RegistryLocked(file, holder=_holder(descriptor), waited_s=timeout_s, setting=setting) from None
            time.sleep(_POLL_S)
        else:
            return


def _self() -> dict[str, object]:
    return {
        "pid": os.getpid(),
        "host": os.uname().nodename,
        "program": Path(sys.argv[0]).name if sys.argv else "",
        "since": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _holder(descriptor: int) -> str:
    try:
        said = json.loads(os.pread(descriptor, 4096, 0))
        return f"process {said['pid']} ({said['program'] or 'python'} on {said['host']}, since {said['since']})"
    except (ValueError, KeyError, TypeError):
        return "another process"
