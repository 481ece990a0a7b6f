"""The files of a folder that may be sources, and what of it is left out.

A dot folder holds what programs keep for themselves, keys among it. So only skills are taken from there, and the files
in which hosts are known to keep servers. Version control, environments, packages and caches are not searched at all.
"""

import os
import re
from dataclasses import dataclass, field
from pathlib import Path, PurePath

from waygraph.ingest.sources.parse import SKILL_FILE, SUFFIXES, is_skill

_MOST_NAMES = 3
_OF_PROGRAMS = frozenset(
    ".bzr .direnv .eggs .git .hg .jj .nox .svn .terraform .tox .venv __pycache__ _darcs node_modules"
    " site-packages".split()
)
_MARKS = ("CACHEDIR.TAG", "pyvenv.cfg")
"""Files that mark a folder as a cache, and as an environment of Python."""
_CACHE = re.compile(r"(?i)[._].*cache|.*_cacache")
_SERVERS_FILE = re.compile(
    r"(?i)(?:.*/)?(?:\.?mcp[\w.-]*\.jsonc?|[\w-]*mcp_settings\.json|claude_desktop_config\.json"
    r"|\.continue/mcpservers/[^/]+\.(?:json|ya?ml))"
)
_SETTINGS_FILE = re.compile(
    r"(?i)(?:.*/)?(?:opencode\.jsonc?|\.[\w-]+-plugin/plugin\.json|\.(?:amp|gemini|qwen|vscode|zed)/settings\.json"
    r"|\.(?:codex|grok)/config\.toml|(?:\.continue|\.?goose)/config\.ya?ml)"
)
_CODEX_FILE = re.compile(r"(?i)(?:.*/)?(?:codex[\w.-]*|config)\.toml")
"""What Codex's file is called outside its own folder."""


@dataclass(slots=True)
class FolderFiles:
    """`files` in order. `omissions`: files that may be sources as well, each with the reason."""

    files: list[Path] = field(default_factory=list)
    omissions: list[str] = field(default_factory=list)
    unsearched_folders: list[str] = field(default_factory=list)

    @property
    def remark(self) -> str:
        """On files that were left out; empty if there are none."""
        return f"left out: {_join_names(self.omissions)}; a file that is named is read" if self.omissions else ""

    @property
    def absence(self) -> str:
        """Why nothing was found."""
        reason = f"holds no {', '.join(SUFFIXES)} file, and no {SKILL_FILE}"
        other_folders = f"not searched: {_join_names(self.unsearched_folders)}" if self.unsearched_folders else ""
        return "; ".join(filter(None, (reason, self.remark, other_folders)))


def files_under(folder: Path) -> FolderFiles:
    """In a folder with a SKILL.md that is the one; its other files belong to it."""
    folder_files = FolderFiles()
    omissions = folder_files.omissions
    for place, folders, names in os.walk(folder, onerror=lambda e: omissions.append(f"{e.filename} ({e.strerror})")):
        inside = Path(place).relative_to(folder)
        folders[:] = [name for name in sorted(folders) if _is_searched(Path(place), name, folder, folder_files)]
        for name in sorted(names):
            _sort_file(Path(place) / name, inside, folder_files)
    owners = {file.parent for file in folder_files.files if is_skill(file)}
    folder_files.files = sorted(
        file for file in folder_files.files if is_skill(file) or owners.isdisjoint(file.parents)
    )
    return folder_files


def holds_other_settings(where: str) -> bool:
    """Whether it is a host's file of settings, or a plug-in's manifest, which need not name any server."""
    path = PurePath(where).as_posix()
    return bool(_SETTINGS_FILE.fullmatch(path) or _CODEX_FILE.fullmatch(path))


def _sort_file(file: Path, inside: PurePath, folder_files: FolderFiles) -> None:
    is_hidden = any(part.startswith(".") for part in inside.parts)
    path = file.as_posix()
    if is_skill(file) or (is_hidden and (_SERVERS_FILE.fullmatch(path) or _SETTINGS_FILE.fullmatch(path))):
        is_taken = True
    elif file.suffix.casefold() in SUFFIXES or _CODEX_FILE.fullmatch(path):
        is_taken = not is_hidden
    else:
        return
    if not file.is_file():
        folder_files.omissions.append(f"{inside / file.name} (no regular file)")
    elif is_taken:
        folder_files.files.append(file)
    else:
        folder_files.omissions.append(f"{inside / file.name} (in a dot folder)")


def _is_searched(place: Path, name: str, folder: Path, folder_files: FolderFiles) -> bool:
    """Also of a registry's index nothing is a source. What a link leads to is searched only where it lies."""
    path = place / name
    relative = str(path.relative_to(folder))
    if path.is_symlink():
        if not path.resolve().is_relative_to(folder.resolve()):
            folder_files.unsearched_folders.append(f"{relative} (a link to what is not in the folder)")
        return False
    is_cache = relative.startswith(".") and name.casefold() in ("cache", "caches")
    if is_cache or _is_of_program(name) or any((path / mark).is_file() for mark in _MARKS):
        folder_files.unsearched_folders.append(relative)
        return False
    return True


def is_of_programs(path: PurePath) -> bool:
    """Whether it lies where programs keep what is theirs alone."""
    return any(map(_is_of_program, path.parts[:-1]))


def _is_of_program(folder: str) -> bool:
    return folder in _OF_PROGRAMS or folder.endswith(".index") or _CACHE.fullmatch(folder) is not None


def _join_names(names: list[str]) -> str:
    more = f" and {len(names) - _MOST_NAMES:,} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(names[:_MOST_NAMES]) + more
