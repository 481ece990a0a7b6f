"""Where weights are found, which are refused, and what an embedder's name may be."""

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from waygraph.registry.embedding import open_embedder
from waygraph.registry.embedding.embedder import Literate
from waygraph.registry.embedding.weights import (
    DEFAULT_MODEL,
    OFFICIAL_SHA256,
    list_models,
    locate,
    package_folder,
    read_languages,
)
from waygraph.registry.model.errors import EmbedderRefused
from waygraph.registry.model.settings import DEFAULT_EMBEDDER, Settings

OTHER_WEIGHTS = b"other weights"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(cache_dir=str(tmp_path / "cache"))


def model_folder(folder: Path) -> Path:
    """The default model's folder with weights that are not its own."""
    package = package_folder()
    assert package
    shutil.copytree(package, folder, ignore=shutil.ignore_patterns("*.safetensors"))
    (folder / "model.safetensors").write_bytes(OTHER_WEIGHTS)
    return folder


def pulled_folder(settings: Settings) -> Path:
    return settings.cache_path / "models" / "weights" / DEFAULT_MODEL.replace("/", "--")


def test_the_package_holds_the_default_model(settings: Settings) -> None:
    assert locate(DEFAULT_EMBEDDER, settings) == package_folder()
    (only,) = list_models(settings)
    assert (only.spec, only.where, only.sha256) == (DEFAULT_EMBEDDER, "package", OFFICIAL_SHA256[DEFAULT_MODEL])


def test_the_cache_goes_before_the_package(settings: Settings) -> None:
    cached = model_folder(pulled_folder(settings))
    assert locate(DEFAULT_EMBEDDER, settings) == cached
    assert [model.where for model in list_models(settings)] == ["cache", "package"]
    assert list_models(settings)[0].spec == DEFAULT_EMBEDDER


WORDS, HANZI = [f"word{at}" for at in range(80)], [chr(0x4E00 + at) for at in range(20)]


@pytest.mark.parametrize(
    ("vocabulary", "languages"),
    [
        ({token: at for at, token in enumerate(["[PAD]", "##s", "7", "é", *WORDS])}, "English"),
        ({token: at for at, token in enumerate([*WORDS, *HANZI[:5]])}, "English"),
        ({token: at for at, token in enumerate([*WORDS, *HANZI])}, "multilingual"),
        ([[f"\u2581{token}", -1.5] for token in (*WORDS, *HANZI)], "multilingual"),
    ],
)
def test_a_vocabulary_tells_what_a_model_knows(vocabulary: object, languages: str, tmp_path: Path) -> None:
    """A few foreign letters are none; tokens stand with ids, or with scores where the tokenizer is Unigram."""
    (tmp_path / "tokenizer.json").write_text(json.dumps({"model": {"vocab": vocabulary}}), encoding="utf-8")
    assert read_languages(tmp_path) == languages


@pytest.mark.parametrize("text", ["[]", "{}", '{"model": {"vocab": [7]}}'])
def test_what_is_no_vocabulary_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text(text, encoding="utf-8")
    with pytest.raises(EmbedderRefused):
        read_languages(tmp_path)


def test_the_default_model_knows_english(settings: Settings) -> None:
    embedder = open_embedder(DEFAULT_EMBEDDER, settings, {})
    assert embedder is not None
    assert isinstance(embedder, Literate)
    assert [embedder.languages, *(model.languages for model in list_models(settings))] == ["English", "English"]


def test_a_named_folder_goes_before_all(settings: Settings, tmp_path: Path) -> None:
    model_folder(pulled_folder(settings))
    mine = model_folder(tmp_path / "mine")
    assert locate(f"onnx:{mine}", settings) == mine


def test_other_weights_under_the_official_name_are_refused(settings: Settings) -> None:
    """The message shows both hashes and how to use such weights all the same."""
    cached = model_folder(pulled_folder(settings))
    with pytest.raises(EmbedderRefused) as caught:
        open_embedder(DEFAULT_EMBEDDER, settings, {})
    for said in (OFFICIAL_SHA256[DEFAULT_MODEL], hashlib.sha256(OTHER_WEIGHTS).hexdigest(), f"onnx:{cached}"):
        assert said in str(caught.value)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("onx:model", "Did you mean 'onnx'"),
        ("huggingface:model", "known: none, onnx, openai, sentence-transformers"),
        ("onnx", "onnx:MODEL"),
        ("none:model", "`none`"),
        ("", "known: none"),
        (f"{DEFAULT_EMBEDDER}?precission=int8", "Did you mean 'precision'"),
        (f"{DEFAULT_EMBEDDER}?precision=int4", "known: int8, float32"),
        ("openai:model?dimension=0", "dimension='0'"),
        ("openai:model?dimension=many", "dimension='many'"),
    ],
)
def test_a_spec_that_cannot_be_is_refused(settings: Settings, spec: str, said: str) -> None:
    with pytest.raises(EmbedderRefused) as caught:
        open_embedder(spec, settings, {})
    assert said in str(caught.value)
