"""The tasks, the state that each begins with, and what is compared of the state that is left."""

import json
import shutil
import sqlite3
import subprocess
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TELLS = frozenset({"searches", "current", "forecast", "history", "tracked", "refused"})
"""Rows that only say whom a service told what: one more of these is no other state."""


@dataclass(frozen=True, slots=True)
class Step:
    """`tool`: the call name of the one that serves it; empty: none does. `arguments`: by names that a parameter may
    have, with `|` between them.
    """

    say: str
    tool: str
    arguments: Mapping[str, Any]


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

    def begin(self) -> None:
        """Empty servers, one file, and a repository with one commit."""
        for path in self.folder.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        self.repo.mkdir(parents=True)
        (self.files / "welcome.txt").write_text("welcome\n", encoding="utf-8")
        (self.repo / "readme.txt").write_text("readme\n", encoding="utf-8")
        self._git("init", "--quiet", "--initial-branch", "main")
        self._git("config", "user.name", "loop")
        self._git("config", "user.email", "loop@example.org")
        self._git("add", ".")
        self._git("commit", "--quiet", "--message", "begin")

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
        parts["git"] = [self._git(*words) for words in (("log", "--format=%s"), ("branch",), ("status", "--short"))]
        return parts

    def _git(self, *words: str) -> str:
        command = ("git", "-C", str(self.repo), *words)
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout


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
            steps=[Step(step["say"], step["tool"], step["arguments"]) for step in task["step"]],
        )
        for task in tomllib.loads(text)["task"]
    ]
