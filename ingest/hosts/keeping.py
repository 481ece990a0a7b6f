"""A host's file replaced: a backup beside it first, then the new one in its place, whole or not at all."""

import os
import stat
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile

from waygraph.ingest.hosts.config import HostConfig, content_of
from waygraph.registry.errors import SourceError, StorageFailed
from waygraph.registry.machine.atomic import sync_path

_MOST_BACKUPS = 1000


def replaced(before: HostConfig, after: HostConfig) -> Path | None:
    """Writes the file; gives its backup, None if there was no file. Links are followed; permissions stay as they were.

    Raises SourceError if the file is no longer what was read, StorageFailed if it cannot be written: then it is as it
    was.
    """
    path = Path(os.path.realpath(before.path))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        backup = None if before.text is None else _backed_up(path, before.text.encode())
        _put(path, before, (after.text or "").encode())
    except OSError as exc:
        raise StorageFailed(f"{before.path}: cannot be written: {exc.strerror}") from exc
    return backup


def _backed_up(path: Path, content: bytes) -> Path:
    """Beside the file, for its owner alone; never in place of another."""
    for number in range(1, _MOST_BACKUPS):
        backup = path.with_name(f"{path.name}.before-waygraph{'' if number == 1 else f'-{number}'}")
        try:
            descriptor = os.open(backup, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            if content_of(backup) == content:
                return backup
            continue
        with open(descriptor, "wb") as file:
            _written(file.fileno(), content)
        return backup
    raise StorageFailed(f"{path}: has {_MOST_BACKUPS:,} backups beside it; remove some")


def _put(path: Path, before: HostConfig, content: bytes) -> None:
    mode = stat.S_IMODE(path.stat().st_mode) if before.text is not None else 0o600
    with NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
        fresh = Path(file.name)
        try:
            _written(file.fileno(), content)
            fresh.chmod(mode)
            _refuse_changed(before)
            fresh.replace(path)
        except BaseException:
            with suppress(OSError):
                fresh.unlink()
            raise
    sync_path(path.parent)


def _refuse_changed(before: HostConfig) -> None:
    """A host may write its file at any time."""
    now = content_of(before.path)
    if now != (None if before.text is None else before.text.encode()):
        raise SourceError(str(before.path), "was changed by somebody else meanwhile; nothing was written: run it again")


def _written(descriptor: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]
    os.fsync(descriptor)
