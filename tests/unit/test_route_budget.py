"""What a warm route costs in counted work, which no busy machine changes: calls, statements, parsed texts."""

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pytest

from benchmarks.contributed import install, on_path
from tests.faults.fleet import entry
from waygraph.ingest.manifest.records import Manifest
from waygraph.ingest.sync.apply import sync
from waygraph.registry.storage.local_registry import LocalRegistry

MODULE = Path(__file__).parents[1] / "contributed" / "acme_words.py"
REQUEST = "moor ship 7 and tell whether the harbour has room for another one"
MOST_PYTHON, MOST_C = 355, 465
"""Calls of functions in Python and in C, with five agents and their tools shown."""


@pytest.fixture(scope="module", params=[20, 360], ids=["280 tools", "5,040 tools"])
def registry(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalRegistry]:
    folder = tmp_path_factory.mktemp("budget")
    modules = {"acme_words": MODULE.read_text(encoding="utf-8")}
    install(folder, "acme", modules, {"acme": "acme_words:opened"}, group="waygraph.embedders")
    with on_path(folder):
        opened = LocalRegistry.open(folder / "r.grafeo", embedder="acme:letters", environ={})
        entries = tuple(entry(f"agent{number}", number, 14) for number in range(request.param))
        sync(opened, Manifest(source="fleet", namespace="fleet", entries=entries))
        yield opened
        opened.close()


def test_a_warm_route_does_no_more_than_its_budget(registry: LocalRegistry) -> None:
    """The same over 280 tools as over 5,040; no statement is made and no text is parsed."""
    assert len(registry.route(REQUEST).matches) == 5
    calls, names = Counter[str](), Counter[str]()

    def count(frame: FrameType, event: str, function: object) -> None:
        calls[event] += 1
        if event == "call":
            names[frame.f_code.co_qualname] += 1
        elif event == "c_call":
            names[getattr(function, "__qualname__", "")] += 1

    sys.setprofile(count)
    try:
        registry.route(REQUEST)
    finally:
        sys.setprofile(None)
    told = names.most_common(20)
    assert calls["call"] <= MOST_PYTHON, told
    assert calls["c_call"] <= MOST_C, told
    assert names["Connection.execute"] <= 2
    assert [name for name in names if name.startswith("JSONDecoder") or name in ("loads", "from_json")] == []
