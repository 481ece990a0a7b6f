"""The OpenAI adapter, against an endpoint on a real socket."""

import traceback
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.fake_openai import KEY, NATIVE_DIMENSION, FakeOpenAI, fake_openai, vector_of
from waygraph.registry.embedding import open_embedder
from waygraph.registry.embedding.embedder import Role
from waygraph.registry.embedding.factory import OpenAIEmbedder, OpenedEmbedders
from waygraph.registry.language_model.endpoint import Access, Patience
from waygraph.registry.model.errors import EmbedderRefused, EmbedderUnavailable
from waygraph.registry.model.settings import Settings


class Opener:
    """Opens embedders of one endpoint, closes them all, notes what they slept (seconds)."""

    def __init__(self, url: str) -> None:
        self.url, self.slept = url, list[float]()
        self.opened: list[OpenAIEmbedder] = []

    def __call__(
        self,
        model: str = "any-model",
        *,
        api_key: str = KEY,
        timeout_s: float = 5.0,
        batch_texts: int = 100,
        dimension: int | None = None,
    ) -> OpenAIEmbedder:
        patience = Patience(timeout_s=timeout_s, retries=3, sleep=self.slept.append, jitter=lambda: 1.0)
        access = Access(base_url=self.url, api_key=api_key, patience=patience)
        self.opened.append(OpenAIEmbedder(model, access, batch_texts=batch_texts, dimension=dimension))
        return self.opened[-1]


@pytest.fixture
def opener(fake: FakeOpenAI) -> Iterator[Opener]:
    opener = Opener(fake.url)
    yield opener
    for embedder in opener.opened:
        embedder.close()


def test_rows_are_the_endpoints_at_length_one(fake: FakeOpenAI, opener: Opener) -> None:
    """Vectors are scaled to length 1 and set in the order of `index`, whatever the order of the answer."""
    fake.reverse = True
    matrix = opener().embed(["a", "b"], "document")
    expected = np.array([vector_of(text, NATIVE_DIMENSION) for text in "ab"])
    np.testing.assert_allclose(matrix, expected / np.linalg.norm(expected, axis=1, keepdims=True), atol=1e-6)


def test_texts_go_in_batches_each_once(fake: FakeOpenAI, opener: Opener) -> None:
    matrix = opener(batch_texts=2).embed(["a", "b", "a", "", "c", "d", "e"], "document")
    assert fake.batches == [["a", "b"], ["c", "d"], ["e"]]
    np.testing.assert_array_equal(matrix[0], matrix[2])
    assert fake.requests[0]["encoding_format"] == "float"


def test_a_dimension_is_asked_for(fake: FakeOpenAI, opener: Opener) -> None:
    assert opener(dimension=16).embed(["a"], "query").shape == (1, 16)
    assert fake.requests[0]["dimensions"] == 16
    native = opener()
    assert native.dimension == NATIVE_DIMENSION
    assert "dimensions" not in fake.requests[1]


def test_a_fingerprint_has_model_and_dimension(opener: Opener) -> None:
    """The fingerprint is known without a request and holds no address and no key."""
    assert opener(model="text-embedding-3-small").fingerprint == "openai:text-embedding-3-small@1536"
    assert opener(dimension=256).fingerprint == "openai:any-model@256"
    assert opener().fingerprint == "openai:any-model@native"


@pytest.mark.parametrize("status", [429, 500, 503])
def test_an_overloaded_endpoint_is_asked_again(fake: FakeOpenAI, opener: Opener, status: int) -> None:
    fake.overloads, fake.overload_status = 3, status
    assert opener().embed(["a"], "query").any()
    assert opener.slept == [0.5, 1.0, 2.0]


def test_retry_after_is_obeyed(fake: FakeOpenAI, opener: Opener) -> None:
    fake.overloads, fake.retry_after = 1, "7"
    opener().embed(["a"], "document")
    assert opener.slept == [7.0]


@pytest.mark.parametrize("role", ["query", "document"])
def test_an_answer_that_trickles_is_given_up(fake: FakeOpenAI, opener: Opener, role: Role) -> None:
    fake.trickles = True
    embedder = opener(timeout_s=1.0)
    with pytest.raises(EmbedderUnavailable, match=r"did not answer within 1 s"):
        embedder.embed(["a"], role)
    assert len(fake.requests) == 1


def test_an_endpoint_that_stays_overloaded_is_unavailable(fake: FakeOpenAI, opener: Opener) -> None:
    """After `retries` repetitions the error is retryable and says what was answered."""
    fake.overloads = 100
    with pytest.raises(EmbedderUnavailable, match="429 after 4 tries") as caught:
        opener().embed(["a"], "query")
    assert caught.value.retryable
    assert len(fake.requests) == 4


def test_a_wrong_key_is_refused_and_not_repeated(fake: FakeOpenAI, opener: Opener) -> None:
    """The message names OPENAI_API_KEY; neither it nor the traceback shows the key."""
    wrong = "sk-wrong-987"
    with pytest.raises(EmbedderRefused, match="OPENAI_API_KEY") as caught:
        opener(api_key=wrong).embed(["a"], "query")
    assert wrong not in "".join(traceback.format_exception(caught.value))
    assert len(fake.requests) == 1


@pytest.mark.parametrize(
    "garbage",
    [
        b"<html>",
        b"{}",
        b"[]",
        b'{"data": 1}',
        b'{"data": [{"index": 0}]}',
        b'{"data": [{"index": 0, "embedding": ["x"]}]}',
        b'{"data": [{"index": 0, "embedding": [NaN]}]}',
        b'{"data": [{"index": 0, "embedding": 1}]}',
        b'{"data": [{"index": 0, "embedding": [1]}, {"index": 1, "embedding": [1, 2]}]}',
        b'{"data": [{"index": 5, "embedding": [1]}]}',
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"data": [{"index": 1e999, "embedding": [1]}]}',
        b'{"data": [{"index": 0, "embedding": [%s]}]}' % (b"9" * 400),
        b'{"data": [{"index": 0, "embedding": [1e300]}]}',
        b'{"data": [{"index": 0, "embedding": []}]}',
        b'{"data": [{"index": 0, "embedding": [-Infinity, 1]}]}',
        b'{"data": [{"index": 0, "embedding": [1e38, 1]}]}',
        b'{"data": [{"index": 0, "embedding": [true, false]}]}',
        b'{"data": [{"index": 0, "embedding": ["1.5", "2"]}]}',
    ],
    ids=range(20),
)
def test_an_answer_that_is_none_is_refused(fake: FakeOpenAI, opener: Opener, garbage: bytes) -> None:
    fake.garbage = garbage
    with pytest.raises(EmbedderRefused):
        opener().embed(["a"], "query")


def test_the_environment_is_handed_in(fake: FakeOpenAI) -> None:
    """Key and address come from the mapping given, limits from the settings."""
    environ = fake.environ
    embedder = open_embedder("openai:any-model?dimension=4", Settings(openai_batch_texts=1), environ)
    assert isinstance(embedder, OpenAIEmbedder)
    assert embedder.embed(["a", "b"], "document").shape == (2, 4)
    assert len(fake.batches) == 2
    embedder.close()


def test_each_address_has_a_document_cache_of_its_own(tmp_path: Path) -> None:
    """Of one name there may be a model at each. The same address asks once for a text."""
    settings = Settings(cache_dir=str(tmp_path))
    with fake_openai() as one, fake_openai() as other:
        for fake, batches in ((one, 1), (other, 1), (one, 1)):
            opened = OpenedEmbedders(settings, fake.environ)
            chosen = opened.open_for_documents("openai:any-model?dimension=4")
            assert chosen.embedder is not None
            chosen.embedder.embed(["a"], "document")
            assert len(fake.batches) == batches
            opened.close()
    names = [path.name for path in (tmp_path / "vectors").glob("*.sqlite")]
    assert len(names) == 2
    assert all(name.startswith("openai-any-model@4+") for name in names)


def test_an_embedder_that_was_closed_says_so(opener: Opener) -> None:
    """A thread that embeds while its registry is closed gets an error of ours."""
    embedder = opener()
    embedder.close()
    with pytest.raises(EmbedderUnavailable, match="were closed"):
        embedder.embed(["a"], "query")
