"""The tasks, the state that each begins with, and what is compared of the state that is left."""

import json
import os
import shutil
import sqlite3
import subprocess
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

TELLS = frozenset({"searches", "current", "forecast", "history", "tracked", "refused"})
"""Rows that only say whom a service told what: one more of these is no other state."""
GIT_DATES = {"GIT_AUTHOR_DATE": "1803859200 +0000", "GIT_COMMITTER_DATE": "1803859200 +0000"}
"""So that a commit has the same name in each run."""


@dataclass(frozen=True, slots=True)
class Step:
    """`tool`: the call name of the one that serves it; empty: none does. `arguments`: by names that a parameter may
    have, with `|` between them. `broken`: a tool that fits as well, but fails: a call of it is no wrong one.
    """

    say: str
    tool: str
    arguments: Mapping[str, Any]
    broken: str = ""


@dataclass(frozen=True, slots=True)
class Task:
    name: str
    kind: str
    steps: Sequence[Step]


@dataclass(frozen=True, slots=True)
class Place:
    """The folder in which all servers keep their state."""

    folder: Path

    @property
    def files(self) -> Path:
        return self.folder / "files"

    @property
    def repo(self) -> Path:
        return self.files / "repo"

    @property
    def _first(self) -> Path:
        """The files of the beginning: to make a repository takes long, and most tasks leave it as it is."""
        return self.folder.with_name(f"{self.folder.name}-first")

    def begin(self) -> None:
        """Empty servers, one file, and a repository with one commit."""
        if not self._first.exists():
            self._make_first()
        self.folder.mkdir(exist_ok=True)
        for path in self.folder.iterdir():
            if path != self.files:
                path.unlink()
        if _entries(self.files) != _entries(self._first):
            shutil.rmtree(self.files, ignore_errors=True)
            shutil.copytree(self._first, self.files)

    def _make_first(self) -> None:
        repo = self._first / "repo"
        repo.mkdir(parents=True)
        (self._first / "welcome.txt").write_text("welcome\n", encoding="utf-8")
        (repo / "readme.txt").write_text("readme\n", encoding="utf-8")
        _git(repo, "init", "--quiet", "--initial-branch", "main", "--template", "")
        _git(repo, "config", "user.name", "loop")
        _git(repo, "config", "user.email", "loop@example.org")
        _git(repo, "add", ".")
        _git(repo, "commit", "--quiet", "--message", "begin")

    def state(self) -> dict[str, Any]:
        """All that is compared, by its place."""
        parts: dict[str, Any] = {path.name: json.loads(path.read_text("utf-8")) for path in self.folder.glob("*.json")}
        parts |= {path.name: _tables(path) for path in self.folder.glob("*.db")}
        parts |= (
            {"graph": sorted((self.folder / "memory.jsonl").read_text("utf-8").splitlines())}
            if (self.folder / "memory.jsonl").exists()
            else {}
        )
        kept = [path for path in sorted(self.files.rglob("*")) if ".git" not in path.parts]
        parts["files"] = {
            str(path.relative_to(self.files)): path.read_text("utf-8") if path.is_file() else None for path in kept
        }
        is_as_at_first = _entries(self.files) == _entries(self._first)
        parts["git"] = _first_git_state(self._first / "repo") if is_as_at_first else _git_state(self.repo)
        return parts


def _entries(folder: Path) -> dict[str, tuple[int, int]]:
    """Every file with the time and size that a copy keeps, and every folder."""
    stats = {path: path.stat() for path in folder.rglob("*")}
    return {
        str(path.relative_to(folder)): (0, 0) if path.is_dir() else (stat.st_mtime_ns, stat.st_size)
        for path, stat in stats.items()
    }


def _git_state(repo: Path) -> list[str]:
    looks = (("log", "--format=%s"), ("branch",), ("status", "--short"))
    return [_git(repo, "--no-optional-locks", *words) for words in looks]


_first_git_state = cache(_git_state)


def _git(repo: Path, *words: str) -> str:
    """What git prints, whatever a person has configured."""
    environ = {"PATH": os.environ["PATH"], "HOME": str(repo), "GIT_CONFIG_NOSYSTEM": "1", **GIT_DATES}
    command = ("git", "-C", str(repo), *words)
    return subprocess.run(command, check=True, capture_output=True, text=True, env=environ).stdout


def is_left(state: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether what was wanted is there, and nothing else but more of what services only told."""
    return _acts(state) == _acts(wanted) and all(
        set(_told(wanted, part)) <= set(_told(state, part)) for part in wanted if part.endswith(".json")
    )


def _acts(state: Mapping[str, Any]) -> dict[str, Any]:
    parts = {
        name: {kind: rows for kind, rows in part.items() if kind not in TELLS} if name.endswith(".json") else part
        for name, part in state.items()
    }
    return {name: part for name, part in parts.items() if part}


def _told(state: Mapping[str, Any], part: str) -> list[str]:
    kinds = state.get(part, {}).items()
    rows = [(kind, row) for kind, rows in kinds if kind in TELLS for row in rows]
    return [json.dumps([kind, {k: v for k, v in row.items() if k != "id"}], sort_keys=True) for kind, row in rows]


def _tables(path: Path) -> dict[str, list[tuple[Any, ...]]]:
    with closing(sqlite3.connect(path)) as connection:
        names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master ORDER BY name")]
        return {name: connection.execute(f'SELECT * FROM "{name}"').fetchall() for name in names}  # noqa: S608 - ours


def read_tasks(place: Place) -> list[Task]:
    """With the place's own folders in the arguments."""
    text = Path(__file__).with_name("tasks.toml").read_text(encoding="utf-8")
    text = text.replace("{files}", str(place.files)).replace("{repo}", str(place.repo))
    return [
        Task(
            name=task["name"],
            kind=task["kind"],
            steps=[Step(**step) for step in task["step"]],
        )
        for task in tomllib.loads(text)["task"]
    ]
