"""How a watch tells that files may say something else."""

import json
from pathlib import Path

import pytest

from waygraph.ingest.sources.opening import Opening
from waygraph.ingest.watching.following import Followed
from waygraph.ingest.watching.opening import followed_sources
from waygraph.registry import Settings


def catalogue(file: Path, *agents: str) -> Path:
    told = [{"id": agent, "name": agent, "description": "does"} for agent in agents]
    file.write_text(json.dumps({"waygraph": 1, "agents": told}), encoding="utf-8")
    return file


def followed(place: Path, data: Path) -> Followed:
    [source] = followed_sources([str(place)], [], Opening(settings=Settings(data_dir=str(data))))
    return source


def said(source: Followed) -> dict[str, list[str]]:
    """The tools of each agent."""
    return {entry.agent.name: [tool.name for tool in entry.tools] for entry in source.say().manifest.entries}


def test_what_is_edited_before_the_first_look_is_read(tmp_path: Path) -> None:
    """Stamp and reading are of the same file, also where minutes pass between opening and looking."""
    file = catalogue(tmp_path / "agents.json", "old")
    source = followed(file, tmp_path / "data")
    catalogue(file, "old", "new")
    stamp = source.stamp()
    assert set(said(source)) == {"old", "new"}
    assert source.stamp() == stamp
