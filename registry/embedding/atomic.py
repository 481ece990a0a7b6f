"""Files that are whole or absent, whoever reads or writes beside."""

import os
from pathlib import Path
from tempfile import NamedTemporaryFile


def write_atomically(path: Path, content: bytes) -> None:
    """Replace the file; a reader sees the old content or the new one. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
        file.write(content)
        flush_to_disk(file.fileno())
    os.replace(file.name, path)


def move_into_place(folder: Path, target: Path) -> None:
    """Rename a finished folder to `target`; if another process was first, its folder stays. Raises OSError."""
    for file in folder.iterdir():
        with file.open("rb") as opened:
            flush_to_disk(opened.fileno())
    try:
        folder.rename(target)
    except OSError:
        if not target.is_dir():
            raise


def flush_to_disk(descriptor: int) -> None:
    os.fsync(descriptor)
