"""How a watch tells that files may say something else."""

import json
from pathlib import Path

import pytest

from waygraph import Settings
from waygraph.ingest.sources.opening import Opening
from waygraph.ingest.watch.run import FollowedSource, followed_sources
from waygraph.registry.model.errors import SourceError


def catalogue(file: Path, *agents: str) -> Path:
    told = [{"id": agent, "name": agent, "description": "does"} for agent in agents]
    file.write_text(json.dumps({"waygraph": 1, "agents": told}), encoding="utf-8")
    return file


def followed(place: Path, data: Path) -> FollowedSource:
    [source] = followed_sources([str(place)], [], Opening(settings=Settings(data_dir=str(data))))
    return source


def said(source: FollowedSource) -> dict[str, list[str]]:
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


def test_a_skill_is_read_anew_when_its_scripts_change(tmp_path: Path) -> None:
    """A new one, a changed one, one that goes, and any other file of the skill but a hidden one."""
    skill = tmp_path / "skills" / "pdf"
    scripts = skill / "scripts"
    scripts.mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: pdf\ndescription: Fills forms\n---\n", encoding="utf-8")
    (scripts / "fill.py").write_text('"""Fill a form."""\n', encoding="utf-8")
    (scripts / "nowhere.py").symlink_to(tmp_path / "gone.py")
    source = followed(tmp_path / "skills", tmp_path / "data")
    stamps = [source.stamp()]
    (scripts / "merge.py").write_text('"""Merge two files."""\n', encoding="utf-8")
    stamps.append(source.stamp())
    (scripts / "fill.py").write_text('"""Delete a form."""\n', encoding="utf-8")
    stamps.append(source.stamp())
    (scripts / "merge.py").unlink()
    stamps.append(source.stamp())
    assert len(set(stamps)) == 4
    (skill / ".notes").write_text("seen by nobody", encoding="utf-8")
    assert source.stamp() == stamps[-1]
    (skill / "notes.txt").write_text("read by a model", encoding="utf-8")
    assert source.stamp() != stamps[-1]


def test_a_file_that_is_gone_is_told(tmp_path: Path) -> None:
    source = followed(catalogue(tmp_path / "agents.json", "one"), tmp_path / "data")
    (tmp_path / "agents.json").unlink()
    with pytest.raises(SourceError, match="no such file"):
        source.stamp()
