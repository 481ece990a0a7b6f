"""What an install without an extra says: which package is missing, and the extra that brings it."""

import sys
from pathlib import Path

import pytest

from waygraph.ingest import ingest
from waygraph.registry.embedding import open_embedder
from waygraph.registry.embedding.weights import pull
from waygraph.registry.model.errors import MissingExtra, ModelNotFound
from waygraph.registry.model.settings import Settings
from waygraph.registry.registry import Registry

BROUGHT = {
    "models": ("huggingface_hub", "onnx", "onnxruntime", "tokenizers"),
    "neo4j": ("neo4j",),
}


@pytest.fixture(autouse=True)
def without(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in an install without the extras: neither their packages nor what of ours has imported them."""
    hidden = [package for packages in BROUGHT.values() for package in packages]
    ours = (
        "waygraph.registry.embedding.onnx",
        "waygraph.registry.embedding.bert_graph",
        "waygraph.registry.graph.neo4j",
    )
    server = ("waygraph.registry.storage.server", "waygraph.registry.graph.neo4j_errors")
    for name in list(sys.modules):
        if name in (*ours, *server) or name.partition(".")[0] in hidden:
            monkeypatch.delitem(sys.modules, name)
    for package in hidden:
        monkeypatch.setitem(sys.modules, package, None)


def test_a_server_needs_the_driver() -> None:
    with pytest.raises(MissingExtra, match=r"pip install 'waygraph\[neo4j\]'"):
        Registry.open("neo4j://127.0.0.1:1", environ={})


def test_a_pull_needs_the_hubs_client(tmp_path: Path) -> None:
    with pytest.raises(MissingExtra, match=r"pip install 'waygraph\[models\]'"):
        pull("minilm", Settings(cache_dir=str(tmp_path)))


def test_a_model_that_nothing_runs_leaves_words(tmp_path: Path) -> None:
    """Its weights are here, what runs it is not: a registry is made without vectors, and the error of a person who
    asked for it by name says what to install.
    """
    settings = Settings(cache_dir=str(tmp_path))
    with pytest.raises(ModelNotFound, match=r"onnxruntime.*pip install 'waygraph\[models\]'"):
        open_embedder("minilm", settings, {})
    with Registry.open(tmp_path / "r.grafeo", settings=settings, environ={}) as registry:
        catalogue = {"waygraph": 1, "agents": [{"id": "desk", "description": "Meeting rooms"}]}
        [report] = ingest(registry, catalogue, source="s")
        assert "holds no vectors" in report.notice
        route = registry.route("a meeting room")
    assert [match.agent.id for match in route.matches] == ["desk"]
    assert route.recipe == "lexical"
