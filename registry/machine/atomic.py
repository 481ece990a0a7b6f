"""Files that are whole or absent, whoever reads or writes beside."""

import os
import stat
from pathlib import Path
from tempfile import TemporaryDirectory

from waygraph.registry.errors import StorageFailed

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


def write_named(path: Path, text: str) -> None:
    """A file that somebody named: whole, or as it was. What is no plain file, such as a pipe, is written to.

    Raises StorageFailed, also if its folder is not there.
    """
    if not path.parent.is_dir():
        raise StorageFailed(f"{path} cannot be written: there is no folder {path.parent}")
    content = text.encode("utf-8", "surrogatepass")
    place = Path(os.path.realpath(path))
    try:
        held = place.stat() if place.exists() else None
        if held and not stat.S_ISREG(held.st_mode):
            place.write_bytes(content)
        else:
            write_atomically(place, content, mode=stat.S_IMODE(held.st_mode) if held else None)
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
