"""The default embedder: what it computes, what it builds and keeps, what it imports."""

import json
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import load_file

from waygraph.registry.embedding import Embedder, open_embedder
from waygraph.registry.embedding.bert_graph import INT8_LIMIT, quantize
from waygraph.registry.embedding.weights import package_folder
from waygraph.registry.model.errors import EmbedderRefused
from waygraph.registry.model.settings import DEFAULT_EMBEDDER, Settings

EATING = ("A man is eating food.", "A man is eating a piece of bread.")
COSINE = 0.7553
"""Of those two, by sentence-transformers."""


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return Settings(cache_dir=str(tmp_path_factory.mktemp("cache")))


@pytest.fixture
def model_copy(tmp_path: Path) -> Path:
    """A folder of the user's own with the default model; its files may be changed."""
    package = package_folder()
    assert package
    return shutil.copytree(package, tmp_path / "my-model")


def opened(spec: str, settings: Settings) -> Embedder:
    embedder = open_embedder(spec, settings, {})
    assert embedder is not None
    return embedder


def edit_json(path: Path, **changes: object) -> None:
    config = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps(config | changes))


def reference(folder: Path, text: str, embedder: Embedder, pooling: str) -> NDArray[np.float32]:
    """BERT in plain numpy, float64: the model's own definition, written a second time."""
    weights = {name: tensor.astype(np.float64) for name, tensor in load_file(folder / "model.safetensors").items()}
    ids = embedder._tokenizer.ids(text)  # type: ignore[attr-defined]

    def norm(x: NDArray[np.float64], name: str) -> NDArray[np.float64]:
        x = x - x.mean(-1, keepdims=True)
        scaled = x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-12)
        return scaled * weights[f"{name}.weight"] + weights[f"{name}.bias"]

    def linear(x: NDArray[np.float64], name: str) -> NDArray[np.float64]:
        return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    def heads(x: NDArray[np.float64]) -> NDArray[np.float64]:
        return x.reshape(len(ids), 12, 32).transpose(1, 0, 2)

    x = weights["embeddings.word_embeddings.weight"][list(ids)]
    x = x + weights["embeddings.position_embeddings.weight"][: len(ids)]
    x = norm(x + weights["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
    for layer in (f"encoder.layer.{i}" for i in range(6)):
        q, k, v = (heads(linear(x, f"{layer}.attention.self.{part}")) for part in ("query", "key", "value"))
        scores = np.exp(q @ k.transpose(0, 2, 1) / np.sqrt(32))
        mixed = (scores / scores.sum(-1, keepdims=True) @ v).transpose(1, 0, 2).reshape(len(ids), 384)
        x = norm(x + linear(mixed, f"{layer}.attention.output.dense"), f"{layer}.attention.output.LayerNorm")
        inner = linear(x, f"{layer}.intermediate.dense")
        inner = 0.5 * inner * (1 + np.vectorize(math.erf)(inner / np.sqrt(2)))
        x = norm(x + linear(inner, f"{layer}.output.dense"), f"{layer}.output.LayerNorm")
    pooled = x.mean(0) if pooling == "mean" else x[0]
    return np.asarray(pooled / np.linalg.norm(pooled), dtype=np.float32)


@pytest.mark.parametrize(("precision", "off"), [("float32", 0.002), ("int8", 0.02)])
def test_two_sentences_are_as_near_as_by_the_reference(settings: Settings, precision: str, off: float) -> None:
    """The cosine of two known sentences is that of sentence-transformers, closely in float32, nearly in int8."""
    food, bread = opened(f"{DEFAULT_EMBEDDER}?precision={precision}", settings).embed(EATING, "document")
    assert float(food @ bread) == pytest.approx(COSINE, abs=off)


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_float32_is_bert(settings: Settings, model_copy: Path, pooling: str) -> None:
    """The float32 graph computes what the definition of BERT says, for either pooling."""
    edit_json(
        model_copy / "1_Pooling" / "config.json",
        pooling_mode_mean_tokens=pooling == "mean",
        pooling_mode_cls_token=pooling == "cls",
    )
    embedder = opened(f"onnx:{model_copy}?precision=float32", settings)
    text = "Search for issues in a GitHub repository"
    np.testing.assert_allclose(
        embedder.embed([text], "document")[0], reference(model_copy, text, embedder, pooling), atol=1e-5
    )


def test_int8_is_near_float32(settings: Settings) -> None:
    """Quantized vectors keep a cosine above .98 to the exact ones, from one word to the longest text."""
    texts = [*EATING, "pdf", "get_current_weather: city, unit", "Read the file. " * 100, "¿Qué tiempo hace mañana?"]
    exact = opened(f"{DEFAULT_EMBEDDER}?precision=float32", settings).embed(texts, "document")
    quantized = opened(DEFAULT_EMBEDDER, settings).embed(texts, "document")
    assert (exact * quantized).sum(axis=1).min() > 0.98


def test_quantized_weights_cannot_saturate() -> None:
    """Two uint8 x int8 products fit in int16; every column has its own scale; a column of zeros stays zero."""
    weight = np.array([[0.5, 100, 0], [-1, 1, 0]], dtype=np.float32)
    quantized, scale, zero = quantize(weight)
    assert 2 * 255 * INT8_LIMIT <= 32767
    assert np.abs(quantized).max() == INT8_LIMIT
    assert [array.dtype.name for array in (quantized, zero, scale)] == ["int8", "int8", "float32"]
    np.testing.assert_allclose(quantized * scale, weight, atol=0.8)
    assert not quantized[:, 2].any()


def test_fingerprints_tell_vectors_apart(settings: Settings, model_copy: Path) -> None:
    """Precision, and in a folder of the user's own also the configuration, show in the fingerprint."""
    name = "onnx:sentence-transformers/all-MiniLM-L6-v2@53aa51172d14"
    assert opened(DEFAULT_EMBEDDER, settings).fingerprint == f"{name}+int8"
    assert opened(f"{DEFAULT_EMBEDDER}?precision=float32", settings).fingerprint == f"{name}+float32"
    before = opened(f"onnx:{model_copy}", settings).fingerprint
    edit_json(model_copy / "sentence_bert_config.json", max_seq_length=64)
    after = opened(f"onnx:{model_copy}", settings).fingerprint
    assert before.startswith("onnx:my-model@53aa51172d14.")
    assert before != after


@pytest.mark.parametrize(
    ("file", "changes", "said"),
    [
        ("config.json", {"model_type": "roberta"}, "'roberta'"),
        ("config.json", {"position_embedding_type": "relative_key"}, "relative_key"),
        ("config.json", {"hidden_act": "relu"}, "relu"),
        ("config.json", {"num_hidden_layers": 7}, r"encoder\.layer\.6"),
        ("config.json", {"hidden_size": None}, r"config\.json"),
        ("1_Pooling/config.json", {"pooling_mode_max_tokens": True}, "max_tokens"),
        ("sentence_bert_config.json", {"max_seq_length": "many"}, r"sentence_bert_config\.json lacks"),
        ("config_sentence_transformers.json", {"prompts": {"query": 5}}, r"transformers\.json lacks"),
        ("config_sentence_transformers.json", {"prompts": 5}, r"transformers\.json lacks"),
    ],
)
def test_a_model_that_is_not_understood_is_refused(
    settings: Settings, model_copy: Path, file: str, changes: dict[str, object], said: str
) -> None:
    """Another architecture, activation, pooling or shape is named, never computed wrongly."""
    edit_json(model_copy / file, **changes)
    with pytest.raises(EmbedderRefused, match=said):
        opened(f"onnx:{model_copy}", settings)


def test_a_damaged_build_is_made_anew(tmp_path: Path) -> None:
    """A cached graph that onnxruntime cannot load is thrown away and built again."""
    settings = Settings(cache_dir=str(tmp_path))
    expected = opened(DEFAULT_EMBEDDER, settings).embed(EATING, "document")
    (graph,) = (tmp_path / "models" / "built").glob("*/model.onnx")
    graph.write_bytes(b"no graph")
    np.testing.assert_array_equal(opened(DEFAULT_EMBEDDER, settings).embed(EATING, "document"), expected)
    assert graph.stat().st_size > 1000


def test_the_runtime_reports_to_nobody(tmp_path: Path) -> None:
    """From 1.32 on onnxruntime writes what it is used for under the home folder, and sends it."""
    script = (
        "from waygraph.registry.embedding import open_embedder; "
        "from waygraph.registry.model.settings import DEFAULT_EMBEDDER, Settings; "
        "open_embedder(DEFAULT_EMBEDDER, Settings(), {}).embed(['a text'], 'query')"
    )
    home = {**os.environ, "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}
    home.pop("ORT_DISABLE_TELEMETRY", None)
    subprocess.run([sys.executable, "-c", script], env=home, check=True, capture_output=True, timeout=120)
    assert [path for path in tmp_path.rglob("*") if "onnxruntime" in path.name] == []
