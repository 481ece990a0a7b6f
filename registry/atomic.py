"""Files that are whole or absent, whoever reads or writes beside."""

import os
from pathlib import Path
from tempfile import TemporaryDirectory


def write_atomically(path: Path, content: bytes, *, private: bool = False) -> None:
    """Replace the file; a reader sees the old content or the new one. `private`: its owner alone may read it.

    Raises OSError.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as folder:
        whole = Path(folder) / path.name
        with whole.open("wb") as file:
            if private:
                os.fchmod(file.fileno(), 0o600)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        whole.replace(path)
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """What was renamed in it stays so if the power fails. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def move_into_place(folder: Path, target: Path) -> None:
    """Rename a finished folder to `target`; if another process was first, its folder stays. Raises OSError."""
    for file in folder.iterdir():
        with file.open("rb") as opened:
            os.fsync(opened.fileno())
    try:
        folder.rename(target)
    except OSError:
        if not target.is_dir():
            raise
