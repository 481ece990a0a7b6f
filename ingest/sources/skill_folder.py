"""A skill's folder as one text that can travel: what of SKILL.md and its scripts is needed to know the skill.

The text is a JSON object: `folder` (its name), `skill` (the front matter, null if there is none), `body` (its
beginning), `sha256` of SKILL.md, and `scripts`, each with `path`, `head` (its beginning) and `sha256`, or with
`left_out`, the reason. Nothing in a skill is executed, and no link out of its folder is followed.
"""

import json
import os
import re
from collections.abc import Iterator
from hashlib import sha256
from itertools import islice
from pathlib import Path, PurePath
from typing import Any

from waygraph.registry.model.errors import SourceError

NAME = "SKILL.md"
SCRIPTS = "scripts"
MAX_BODY_CHARS = 20_000
MAX_HEAD_BYTES = 4_000
MAX_SKILL_BYTES = 4 * 1024 * 1024
MAX_SCRIPT_BYTES = 16 * 1024 * 1024
MAX_SCRIPTS = 200
MAX_FILES = 5_000
"""So many files below `scripts` are looked at."""
SCRIPT_SUFFIXES = frozenset(
    ".bash .bat .cjs .cmd .fish .go .groovy .java .jl .js .kt .lua .mjs .mts .php .pl .ps1 .py .r .rb .rs .scala .sh"
    " .swift .ts .zsh".split()
)
_OLD_BREAK = re.compile(r"\r(?!\n)")
_FRONT = re.compile(r"\s*---[ \t]*\r?\n(.*?)^(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)(.*)", re.DOTALL | re.MULTILINE)


def is_skill(path: PurePath) -> bool:
    return path.name.casefold() == NAME.casefold()


def read_skill_file(path: Path, most_bytes: int) -> bytes:
    """The skill of a SKILL.md, at most so many bytes of it. Raises OSError, and SourceError if it is no text."""
    with path.open("rb") as file:
        raw = file.read(MAX_SKILL_BYTES + 1)
    if len(raw) > MAX_SKILL_BYTES:
        raise SourceError(str(path), f"has more than {MAX_SKILL_BYTES} bytes")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        raise SourceError(str(path), f"is not UTF-8 text (byte {exc.start})") from exc
    folder = path.absolute().parent
    return json.dumps(skill_of(text, folder=folder.name, scripts=list(_scripts(path, folder)))).encode()[:most_bytes]


def skill_of(text: str, *, folder: str = "", scripts: list[dict[str, str]] | None = None) -> dict[str, Any]:
    """The parts of a SKILL.md; of one that came alone there are no scripts."""
    lines = _OLD_BREAK.sub("\n", text)
    parts = _FRONT.match(lines)
    return {
        "folder": folder,
        "skill": parts[1] if parts else None,
        "body": (parts[2] if parts else lines)[:MAX_BODY_CHARS],
        "sha256": sha256(text.encode("utf-8", "surrogatepass")).hexdigest(),
        "scripts": scripts or [],
    }


def beside(skill: Path) -> Iterator[Path]:
    """The files that are looked at for the scripts of a SKILL.md."""
    return islice(_files(skill.absolute().parent / SCRIPTS), MAX_FILES)


def _scripts(skill: Path, folder: Path) -> Iterator[dict[str, str]]:
    """In order of their paths."""
    files = sorted(beside(skill), key=lambda file: file.relative_to(folder).parts)
    scripts = filter(None, (_script(file, folder) for file in files))
    yield from islice(scripts, MAX_SCRIPTS)
    if rest_count := sum(1 for _ in scripts):
        yield {"path": SCRIPTS, "left_out": f"of more scripts than {MAX_SCRIPTS} the other {rest_count} are left out"}


def _files(folder: Path) -> Iterator[Path]:
    """What a person put there: nothing hidden, no caches; folders that are links are not entered."""
    for place, folders, files in os.walk(folder, followlinks=False):
        folders[:] = sorted(name for name in folders if not name.startswith((".", "__")) and name != "node_modules")
        yield from (Path(place) / name for name in sorted(files) if not name.startswith((".", "__")))


def _script(file: Path, folder: Path) -> dict[str, str] | None:
    """None if it is no script."""
    path = file.relative_to(folder).as_posix()
    try:
        if not file.resolve().is_relative_to(folder.resolve()):
            return {"path": path, "left_out": "is a link to what is not in the folder of the skill"}
        if not file.is_file():
            return None
        with file.open("rb") as content:
            raw = content.read(MAX_SCRIPT_BYTES + 1)
    except (OSError, RuntimeError) as exc:  # also a link that leads to itself
        return {"path": path, "left_out": f"cannot be read: {getattr(exc, 'strerror', None) or exc}"}
    if file.suffix.casefold() not in SCRIPT_SUFFIXES and not raw.startswith(b"#!"):
        return None
    if len(raw) > MAX_SCRIPT_BYTES:
        return {"path": path, "left_out": f"has more than {MAX_SCRIPT_BYTES} bytes"}
    head = raw[:MAX_HEAD_BYTES].decode("utf-8-sig", "replace")
    return {"path": path, "head": head, "sha256": sha256(raw).hexdigest()}
