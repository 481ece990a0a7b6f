"""Files that are whole or absent, with one writer each: a lock beside it names its holder and ends with the process."""

import errno
import fcntl
import json
import os
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from waygraph.registry.model.errors import InvalidSetting, RegistryLocked, StorageFailed

# Paths as a person wrote them.


def as_written(path: str | os.PathLike[str]) -> Path:
    """`~` and `~name` stand for homes. Raises InvalidSetting for the home of nobody, and for what is no text."""
    try:
        os.fspath(path).encode()
        return Path(path).expanduser()
    except UnicodeEncodeError:
        raise InvalidSetting(f"{os.fspath(path)!r} cannot be used: its name is no UTF-8 text") from None
    except RuntimeError as exc:
        raise InvalidSetting(f"{os.fspath(path)!r}: nobody here has such a home") from exc


def absolute_place(place: str | os.PathLike[str]) -> str:
    """Of a registry, as an entry names it: an absolute path, or a URL as it is. Raises as `as_written`."""
    text = os.fspath(place)
    return text if "://" in text else str(as_written(text).absolute())


PRIVATE = 0o600
"""The mode of a file that its owner alone may read."""


def write_atomically(path: Path, content: bytes, *, mode: int | None = None) -> None:
    """Replace the file; a reader sees the old content or the new one. `mode` None: as the process makes files.

    Raises OSError.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as folder:
        whole = Path(folder) / path.name
        with whole.open("wb") as file:
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        whole.replace(path)
    sync_path(path.parent)


@contextmanager
def storage_errors(path: Path, what: str = "written") -> Iterator[None]:
    """Around what is done with a file. Raises StorageFailed for an OSError."""
    try:
        yield
    except OSError as exc:
        raise StorageFailed(f"{path}: cannot be {what}: {exc.strerror}") from exc


def write_private(path: Path, document: object, *, indent: int | None = None) -> None:
    """JSON that its owner alone may read. Raises StorageFailed."""
    with storage_errors(path):
        write_atomically(path, json.dumps(document, indent=indent).encode(), mode=PRIVATE)


def content_if_there(path: Path) -> bytes | None:
    """None if there is no such file. Raises StorageFailed."""
    with storage_errors(path, "read"), suppress(FileNotFoundError):
        return path.read_bytes()
    return None


def file_stamp(path: Path) -> tuple[int, ...] | None:
    """Another value when the file is another one; None if there is none. Raises StorageFailed."""
    with storage_errors(path, "read"), suppress(FileNotFoundError):
        status = path.stat()
        return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
    return None


def write_named(path: Path, text: str) -> None:
    """A file that somebody named: whole, or as it was. What is no plain file, such as a pipe, is written to.

    Raises StorageFailed, also if its folder is not there.
    """
    if not path.parent.is_dir():
        raise StorageFailed(f"{path} cannot be written: there is no folder {path.parent}")
    content = text.encode("utf-8", "surrogatepass")
    place = Path(os.path.realpath(path))
    try:
        existing = place.stat() if place.exists() else None
        if existing and not stat.S_ISREG(existing.st_mode):
            place.write_bytes(content)
        else:
            write_atomically(place, content, mode=stat.S_IMODE(existing.st_mode) if existing else None)
    except OSError as exc:
        raise StorageFailed(f"{path} cannot be written: {exc.strerror or exc}") from exc


def sync_path(path: Path) -> None:
    """What a file holds, or what was renamed in a folder, stays so if the power fails. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def move_into_place(folder: Path, target: Path) -> None:
    """Rename a finished folder to `target`; if another process was first, its folder stays. Raises OSError."""
    for file in folder.iterdir():
        sync_path(file)
    try:
        folder.rename(target)
    except OSError:
        if not target.is_dir():
            raise


_POLL_S = 0.02
_UNKNOWN = "another process"


def lock_of(file: Path) -> Path:
    return file.with_name(file.name + ".lock")


def queue_of(file: Path) -> Path:
    """Made by whoever waits for the lock of a holder that keeps it between its writes; the next holder removes it."""
    return file.with_name(file.name + ".queue")


@contextmanager
def write_lock(file: Path, timeout_s: float, *, setting: str = "", brief: bool = True) -> Iterator[None]:
    """Holds the file's write lock. Raises RegistryLocked, naming the holder, after `timeout_s`, which `setting` says.

    `brief`: its folder is held as well. A cleaner may unlink a lock, after which another writer makes its own; a folder
    stays while there are files in it. Not for what takes long, since all files of a folder would wait: a graph has the
    lock of its engine beside this one. Raises StorageFailed where no lock can be made.
    """
    ends_at = time.monotonic() + timeout_s
    from filelock import FileLock, Timeout

    path = lock_of(file)
    lock = FileLock(path, timeout=timeout_s, poll_interval=_POLL_S, thread_local=False)  # any thread may end it
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout:
        raise RegistryLocked(file, holder=_holder(path), waited_s=timeout_s, setting=setting) from None
    except OSError as exc:
        raise StorageFailed(f"{path}: cannot be made, so nothing can be written here: {exc.strerror}") from exc
    try:
        # Who holds it is a courtesy to those who wait: a full disk must not keep a writer from making room.
        with suppress(OSError):
            holder = {
                "pid": os.getpid(),
                "host": os.uname().nodename,
                "program": Path(sys.argv[0]).name if sys.argv else "",
                "since": datetime.now(UTC).isoformat(timespec="seconds"),
            }
            path.write_text(json.dumps(holder), encoding="utf-8")
        if not brief:
            yield
            return
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            while not is_taken(folder):
                if time.monotonic() >= ends_at:
                    raise RegistryLocked(file, holder=_UNKNOWN, waited_s=timeout_s, setting=setting)
                time.sleep(_POLL_S)
            yield
        finally:
            with suppress(OSError):
                fcntl.flock(folder, fcntl.LOCK_UN)  # a forked process has the same lock, and would keep it
            os.close(folder)
    finally:
        lock.release()


def is_taken(folder: int) -> bool:
    """Whether the folder is ours alone now; also where its file system has no such locks, as of some networks."""
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as exc:
        return exc.errno not in (errno.EAGAIN, errno.EACCES)
    return True


def _holder(path: Path) -> str:
    try:
        holder = json.loads(path.read_bytes())
        return f"process {holder['pid']} ({holder['program'] or 'python'} on {holder['host']}, since {holder['since']})"
    except (OSError, ValueError, KeyError, TypeError):
        return _UNKNOWN
