"""What an install without an extra says: which package is missing, and the extra that brings it."""

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from waygraph.ingest import ingest
from waygraph.registry.embedding import open_embedder
from waygraph.registry.embedding.weights import pull
from waygraph.registry.model.errors import MissingExtra, ModelNotFound
from waygraph.registry.model.installation import install_command
from waygraph.registry.model.settings import Settings
from waygraph.registry.registry import Registry

BROUGHT = {"models": ("huggingface_hub", "onnx", "onnxruntime", "tokenizers"), "neo4j": ("neo4j",)}


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
    with pytest.raises(MissingExtra, match=r"pip install '.*\[neo4j\]'"):
        Registry.open("neo4j://127.0.0.1:1", environ={})


def test_a_pull_needs_the_hubs_client(tmp_path: Path) -> None:
    with pytest.raises(MissingExtra, match=r"pip install '.*\[models\]'"):
        pull("minilm", Settings(cache_dir=str(tmp_path)))


def test_a_model_that_nothing_runs_leaves_words(tmp_path: Path) -> None:
    """Its weights are here, what runs it is not: a registry is made without vectors, and the error of a person who
    asked for it by name says what to install.
    """
    settings = Settings(cache_dir=str(tmp_path))
    with pytest.raises(ModelNotFound, match=r"onnxruntime.*pip install '.*\[models\]'"):
        open_embedder("minilm", settings, {})
    with Registry.open(tmp_path / "r.grafeo", settings=settings, environ={}) as registry:
        catalogue = {"waygraph": 1, "agents": [{"id": "desk", "description": "Meeting rooms"}]}
        [report] = ingest(registry, catalogue, source="s")
        assert "holds no vectors" in report.notice
        route = registry.route("a meeting room")
    assert [match.agent.id for match in route.matches] == ["desk"]
    assert route.recipe == "lexical"


ROOT = Path(__file__).parents[2]
CLONE = {"url": ROOT.as_uri(), "dir_info": {}}
GONE = {"url": "file:///no/such/clone", "dir_info": {}}
WHEEL = {"url": (ROOT / "dist" / "waygraph-0.1.0-py3-none-any.whl").as_uri(), "archive_info": {}}
COMMIT = {"vcs": "git", "commit_id": "0" * 40}
REPOSITORY = {"url": "https://ann:secret@git.example/waygraph", "vcs_info": COMMIT}
ADDRESS = f"git+https://git.example/waygraph@{'0' * 40}"


@pytest.mark.parametrize(
    ("origin", "distribution", "extra", "command"),
    [
        (CLONE, "waygraph", "neo4j", f"pip install '{ROOT}[neo4j]'"),
        (CLONE, "waygraph-lab", "", f"pip install {ROOT}/packages/waygraph-lab"),
        (CLONE, "waygraph-lab", "train", f"pip install '{ROOT}/packages/waygraph-lab[train]'"),
        (CLONE, "waygraph-minilm", "", f"pip install {ROOT}/packages/waygraph-minilm"),
        (CLONE, "keyring", "", "pip install keyring"),
        (GONE, "waygraph", "neo4j", "pip install 'waygraph[neo4j]'"),
        (WHEEL, "waygraph-lab", "", "pip install waygraph-lab"),
        (None, "waygraph-lab", "plots", "pip install 'waygraph-lab[plots]'"),
        (REPOSITORY, "waygraph", "serve", f"pip install 'waygraph[serve] @ {ADDRESS}'"),
        (REPOSITORY, "waygraph-lab", "", f"pip install 'waygraph-lab @ {ADDRESS}#subdirectory=packages/waygraph-lab'"),
    ],
)
def test_what_is_lacking_comes_from_where_waygraph_came(
    *,
    origin: dict[str, Any] | None,
    distribution: str,
    extra: str,
    command: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No index need have our packages: a clone is installed from, also a repository, without anybody's password."""
    folder = tmp_path / "waygraph-0.1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: waygraph\nVersion: 0.1.0\n")
    if origin:
        (folder / "direct_url.json").write_text(json.dumps(origin))
    monkeypatch.syspath_prepend(str(tmp_path))
    assert install_command(distribution, extra) == command


@pytest.mark.parametrize(("distribution", "extra"), [("waygraph", "keyring"), ("waygraph-lab", "plots")])
def test_the_command_that_a_message_names_installs(distribution: str, extra: str) -> None:
    """As far as pip says before it fetches anything."""
    _, _, *words = shlex.split(install_command(distribution, extra))
    offline = ["--dry-run", "--no-deps", "--no-index", "--no-build-isolation", "--quiet"]
    command = [sys.executable, "-m", "pip", "install", *offline, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
