"""From the embedder's name to the embedder. Light to import: each adapter is imported when it is chosen."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from waygraph.registry.embedding.protocol import Embedder
from waygraph.registry.embedding.spec import EmbedderSpec, parse_spec
from waygraph.registry.errors import EmbedderRefused
from waygraph.registry.settings import Settings

if TYPE_CHECKING:
    from waygraph.registry.embedding.openai import OpenAIEmbedder


def open_embedder(spec: str, settings: Settings, environ: Mapping[str, str]) -> Embedder | None:
    """The embedder that `spec` names; None for `none`: routing is lexical then.

    Raises EmbedderRefused for a spec that cannot be, ModelNotFound if the weights are not on this machine.
    Touches no network.
    """
    parsed = parse_spec(spec)
    match parsed.scheme:
        case "none":
            return None
        case "onnx":
            from waygraph.registry.embedding.onnx import OnnxEmbedder

            return OnnxEmbedder.open(parsed, settings)
        case "openai":
            return _openai(parsed, settings, environ)
        case "sentence-transformers":
            from waygraph.registry.embedding.sentence_transformers import SentenceTransformersEmbedder

            return SentenceTransformersEmbedder(parsed.model)
        case _:
            from waygraph.registry.embedding.contributed import open_contributed

            return open_contributed(parsed, settings, environ)


def _openai(spec: EmbedderSpec, settings: Settings, environ: Mapping[str, str]) -> "OpenAIEmbedder":
    from waygraph.registry.embedding.openai import DEFAULT_BASE_URL, OpenAIEmbedder

    return OpenAIEmbedder(
        base_url=environ.get("OPENAI_BASE_URL") or DEFAULT_BASE_URL,
        api_key=environ.get("OPENAI_API_KEY", ""),
        model=spec.model,
        dimension=_dimension(spec),
        timeout_s=settings.openai_timeout_s,
        batch_texts=settings.openai_batch_texts,
        retries=settings.openai_retries,
    )


def _dimension(spec: EmbedderSpec) -> int | None:
    """The number of columns wanted, None for what the model gives by itself."""
    given = spec.options.get("dimension")
    if given is None:
        return None
    if not given.isdecimal() or int(given) < 1:
        raise EmbedderRefused(f"dimension={given!r} of openai:{spec.model} must be a whole number from 1")
    return int(given)
