"""Kinds of other packages: found by real entry points; what is broken in one is told by its name and harms no other."""

import json
from pathlib import Path

import pytest

from benchmarks.contributed import install, on_path
from waygraph.ingest.sources.read import read_path
from waygraph.registry.model.errors import SourceError
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
GREEDY = Kind("catalogue", "anything", lambda document: True, read)
OTHER = Kind("other", "other", fits, read)
TEXT = "no kind"

def explode(document):
    raise RuntimeError(str(document))

BROKEN = Kind("broken", "anything", explode, read)

def lazy(document, where, intake):
    tools = ({"secret": 1}[name] for name in ["no"]) if document["fleet"] == "lazy" else [document["fleet"]]
    yield AgentRecord(pointer="/", key="ship", tools=tools)

LAZY = Kind("fleet", "lazy", fits, lazy)
STRANGE = Kind("fleet", "strange", fits, lambda document, where, intake: iter([5]))
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


def reason(place: str, kind: str = "") -> str:
    with pytest.raises(SourceError) as caught:
        read_path(place, S, kind=kind)
    return caught.value.reason


@pytest.mark.parametrize(
    ("point", "why"),
    [
        ("nowhere:KIND", "ModuleNotFoundError: No module named 'nowhere'"),
        ("acme_fleet:NOTHING", "AttributeError"),
        ("acme_fleet:TEXT", "expected acme_fleet:TEXT to be a waygraph.ingest.sources.kinds.Kind, found str"),
        ("acme_fleet:OTHER", "its kind calls itself 'other'"),
        ("leaving:KIND", "SystemExit: 3"),
    ],
)
def test_a_broken_entry_point_is_told_with_its_package(folder: Path, tmp_path: Path, point: str, why: str) -> None:
    """In one line, where a kind is missed; the other kinds of all packages work."""
    modules = {"acme_fleet": FLEET, "leaving": "raise SystemExit(3)\n"}
    install(folder, "acme-fleet", modules, {"fleet": "acme_fleet:KIND", "wrong": point})
    with on_path(folder):
        assert [entry.key for entry in read_path(written(tmp_path, {"fleet": [{"name": "A"}]}), S)[0].entries] == ["A"]
        for told in (reason(written(tmp_path, {"x": 1})), reason(written(tmp_path, {"x": 1}), "wrong")):
            assert "'wrong' of the package acme-fleet 1.0 is left out: " + why in told
            assert "\n" not in told
