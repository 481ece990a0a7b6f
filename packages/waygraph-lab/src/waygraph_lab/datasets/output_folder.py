"""Folders that are written here: nothing of anybody else's is overwritten, and the same input gives the same bytes."""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from waygraph.registry.model.errors import InvalidDataset
from waygraph_lab.datasets.conversations import ABOUT


@contextmanager
def own_folder(folder: Path, files: Collection[str], about: Mapping[str, Any]) -> Iterator[None]:
    """The folder, made and marked by `about` as being of this `origin`; the block may write these files into it.

    Raises InvalidDataset for a folder that holds something else or cannot be written.
    """
    try:
        _refuse_other_folder(folder, files, about["origin"])
        folder.mkdir(parents=True, exist_ok=True)
        write_about(folder, about)  # first, so that what is cut short is known for ours
        yield
    except OSError as error:
        raise InvalidDataset(str(folder), f"cannot be written: {error}") from error


def _refuse_other_folder(folder: Path, files: Collection[str], origin: str) -> None:
    strange = {path.name for path in folder.iterdir()} - {*files, ABOUT} if folder.is_dir() else set()
    if strange:
        raise InvalidDataset(str(folder), f"holds {', '.join(sorted(strange)[:3])}: give a folder of its own")
    if folder.is_dir() and any(folder.iterdir()) and not _is_of(folder / ABOUT, origin):
        raise InvalidDataset(str(folder), "holds a dataset that was not made here: give a folder of its own")


def _is_of(about: Path, origin: str) -> bool:
    try:
        told = json.loads(about.read_bytes())
    except (FileNotFoundError, ValueError, RecursionError):
        return False
    return isinstance(told, Mapping) and told.get("origin") == origin


def write_about(folder: Path, about: Mapping[str, Any]) -> None:
    (folder / ABOUT).write_text(json.dumps(about, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def write_lines(path: Path, records: Iterable[Mapping[str, Any]]) -> int:
    """JSON, one record a line. How many there were."""
    count = 0
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for record in records:
            file.write(json.dumps(record, ensure_ascii=False) + "\n")
            count += 1
    return count
