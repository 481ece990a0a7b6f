"""What every embedder does, whichever it is."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import yaml

from benchmarks.contributed import install, on_path
from tests.fake_openai import fake_openai
from waygraph.registry.embedding import Embedder, open_embedder
from waygraph.registry.model.settings import DEFAULT_EMBEDDER, Settings

EXAMPLES = Path(__file__).parents[2] / "examples" / "catalog"
SHORT = ("read a file", "What is the weather in Paris?", "create_issue: Open an issue in a repository")
WORDS = (Path(__file__).parents[1] / "contributed" / "acme_words.py").read_text(encoding="utf-8")
LONG = "The quick brown fox jumps over the lazy dog. " * 100


@pytest.fixture(scope="module", params=["onnx int8", "onnx float32", "openai", "of a package"])
def embedder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedder]:
    settings = Settings(cache_dir=str(tmp_path_factory.getbasetemp() / "embedders"))
    if request.param == "openai":
        with fake_openai() as fake:
            environ = fake.environ
            opened = open_embedder("openai:any-model", settings, environ)
            assert opened is not None
            yield opened
            opened.close()  # type: ignore[attr-defined]
        return
    if request.param == "of a package":
        folder = tmp_path_factory.mktemp("site")
        install(folder, "acme-words", {"acme_words": WORDS}, {"acme": "acme_words:opened"}, group="waygraph.embedders")
        with on_path(folder):
            brought = open_embedder("acme:letters", settings, {})
            assert brought is not None
            yield brought
        return
    precision = request.param.removeprefix("onnx ")
    opened = open_embedder(f"{DEFAULT_EMBEDDER}?precision={precision}", settings, {})
    assert opened is not None
    yield opened


def catalogue_texts() -> list[str]:
    """`name: description` of every agent and tool of the example catalogue."""
    texts = []
    for path in sorted(EXAMPLES.glob("*.yaml")):
        for agent in yaml.safe_load(path.read_text())["agents"]:
            texts += [f"{entry['name']}: {entry.get('description', '')}" for entry in (agent, *agent.get("tools", ()))]
    return texts


def test_a_matrix_has_a_unit_row_a_text(embedder: Embedder) -> None:
    matrix = embedder.embed([*SHORT, LONG], "document")
    assert matrix.shape == (4, embedder.dimension)
    assert matrix.dtype == np.float32
    assert np.linalg.norm(matrix, axis=1) == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize("empty", ["", " ", "\n\t "])
def test_an_empty_text_gives_zeros(embedder: Embedder, empty: str) -> None:
    """A text without a word is a row of zeros, and takes nothing from its neighbours."""
    matrix = embedder.embed([SHORT[0], empty, SHORT[1]], "document")
    assert not matrix[1].any()
    assert np.linalg.norm(matrix[[0, 2]], axis=1) == pytest.approx(1.0, abs=1e-5)


def test_no_texts_give_no_rows(embedder: Embedder) -> None:
    """An empty list gives a matrix of no rows that still has the model's columns."""
    matrix = embedder.embed([], "document")
    assert matrix.shape == (0, embedder.dimension)
    assert matrix.dtype == np.float32


def test_rows_stand_in_the_order_of_the_texts(embedder: Embedder) -> None:
    texts = [*SHORT, SHORT[0], LONG, ""]
    forth, back = embedder.embed(texts, "document"), embedder.embed(texts[::-1], "document")
    np.testing.assert_array_equal(forth, back[::-1])
    np.testing.assert_array_equal(forth[0], forth[3])
    assert not np.array_equal(forth[0], forth[1])


def test_a_vector_does_not_depend_on_its_neighbours(embedder: Embedder) -> None:
    """Alone or among long and short ones, a text of the example catalogue has one vector."""
    texts = [*catalogue_texts(), *SHORT]
    alone = np.concatenate([embedder.embed([text], "document") for text in texts])
    mixed = embedder.embed([LONG, *texts, "x", *texts[::-1]], "document")
    np.testing.assert_allclose(mixed[1 : len(texts) + 1], alone, atol=1e-5)
    np.testing.assert_allclose(mixed[-len(texts) :], alone[::-1], atol=1e-5)


@pytest.mark.parametrize(
    "text",
    ["Wetter in Zürich – morgen?", "明日の天気を教えて", "ما هو الطقس", "👩‍👩‍👧‍👦🏳️‍🌈", "a\x00b\x1f", "\u200b\u200d"],
)
def test_any_unicode_is_embedded(embedder: Embedder, text: str) -> None:
    assert np.isfinite(embedder.embed([text], "query")).all()


def test_a_text_of_20_mb_is_embedded(embedder: Embedder) -> None:
    matrix = embedder.embed(["word " * 4_000_000, "x" * 20_000_000], "document")
    assert np.linalg.norm(matrix, axis=1) == pytest.approx(1.0, abs=1e-5)


def test_progress_ends_at_all(embedder: Embedder) -> None:
    seen: list[tuple[int, int]] = []
    embedder.embed([f"text {i}" for i in range(150)], "document", progress=lambda *at: seen.append(at))
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert seen[-1] == (150, 150)


def test_a_fingerprint_names_the_model(embedder: Embedder) -> None:
    assert embedder.fingerprint.isascii()
    assert " " not in embedder.fingerprint
    official = "onnx:sentence-transformers/all-MiniLM-L6-v2@53aa51172d14+"
    assert embedder.fingerprint.startswith((official, "openai:any-model", "acme:letters@1"))
