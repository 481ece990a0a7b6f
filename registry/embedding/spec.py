"""The string that names an embedder, taken apart.

onnx:sentence-transformers/all-MiniLM-L6-v2            int8, the default
onnx:/path/to/folder?precision=float32
openai:text-embedding-3-small?dimension=512
sentence-transformers:BAAI/bge-small-en-v1.5
none                                                   lexical routing only
acme:MODEL?any=option                                  an embedder that another package brings
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl

from waygraph.registry.errors import EmbedderRefused
from waygraph.registry.nearest import nearest

OPTIONS: Mapping[str, tuple[str, ...]] = {
    "none": (),
    "onnx": ("precision",),
    "openai": ("dimension",),
    "sentence-transformers": (),
}
"""Every scheme of ours and the options it takes."""
GROUP = "waygraph.embedders"
"""Entry points of other packages, each called as its scheme is; what options they take is theirs to say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedderSpec:
    """`scheme:model?option=value`; `model` is empty for the scheme `none` only."""

    scheme: str
    model: str = ""
    options: Mapping[str, str] = field(default_factory=dict)


def parse_spec(text: str) -> EmbedderSpec:
    """Raises EmbedderRefused for an unknown scheme, a missing model or an unknown option."""
    name, _, query = text.strip().partition("?")
    scheme, _, model = name.partition(":")
    if scheme not in OPTIONS:
        _check_brought(scheme)
    if bool(model) == (scheme == "none"):
        raise EmbedderRefused(f"embedder {text!r}: write `none`, or `{_example(scheme)}`")
    return EmbedderSpec(scheme=scheme, model=model, options=_options(scheme, query))


def _check_brought(scheme: str) -> None:
    from waygraph.registry.contributions import names  # a start with an embedder of ours needs nothing of it

    brought = names(GROUP)
    if scheme not in brought:
        raise EmbedderRefused(_unknown("embedder", scheme, (*OPTIONS, *brought)))


def _options(scheme: str, query: str) -> dict[str, str]:
    given = dict(parse_qsl(query, keep_blank_values=True))
    for name in given:
        if scheme in OPTIONS and name not in OPTIONS[scheme]:
            raise EmbedderRefused(_unknown(f"option of {scheme}:", name, OPTIONS[scheme]))
    return given


def _unknown(noun: str, name: str, known: tuple[str, ...]) -> str:
    near = nearest(name, known, least=0.5)
    meant = f" Did you mean {near[0]!r}?" if near else ""
    return f"{noun} {name!r} is not known; known: {', '.join(known) or 'nothing'}.{meant}"


def _example(scheme: str) -> str:
    return f"{'onnx' if scheme == 'none' else scheme}:MODEL"
