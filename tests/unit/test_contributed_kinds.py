"""Kinds of other packages: found by real entry points; what is broken in one is told by its name."""

import json
from pathlib import Path

import pytest

from benchmarks.contributed import install, on_path
from waygraph.ingest.sources.read import read_path
from waygraph.registry.model.errors import InvalidSetting
from waygraph.registry.model.settings import Settings

S = Settings()
FLEET = """
from waygraph.ingest.manifest.records import AgentRecord
from waygraph.ingest.sources.kinds import Kind

def fits(document):
    return isinstance(document, dict) and "fleet" in document

def read(document, where, intake):
    for number, ship in enumerate(document["fleet"]):
        yield AgentRecord(pointer=f"/fleet/{number}", key=ship["name"])

KIND = Kind("fleet", '{"fleet": [{"name": …}]}', fits, read)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "site"
    made.mkdir()
    return made


def written(folder: Path, document: object) -> str:
    path = folder / "source.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("point", "why"),
    [
        ("nowhere:KIND", "ModuleNotFoundError: No module named 'nowhere'"),
        ("acme_fleet:NOTHING", "AttributeError"),
        ("leaving:KIND", "SystemExit: 3"),
    ],
)
def test_a_broken_entry_point_is_told_with_its_package(folder: Path, tmp_path: Path, point: str, why: str) -> None:
    """In one line, where a kind is missed."""
    modules = {"acme_fleet": FLEET, "leaving": "raise SystemExit(3)\n"}
    install(folder, "acme-fleet", modules, {"fleet": "acme_fleet:KIND"})
    with on_path(folder):
        assert [entry.key for entry in read_path(written(tmp_path, {"fleet": [{"name": "A"}]}), S)[0].entries] == ["A"]
    install(folder, "acme-wrong", {}, {"wrong": point})
    with on_path(folder), pytest.raises(InvalidSetting, match=f"wrong of the package acme-wrong 1.0 cannot be.*{why}"):
        read_path(written(tmp_path, {"x": 1}), S)
