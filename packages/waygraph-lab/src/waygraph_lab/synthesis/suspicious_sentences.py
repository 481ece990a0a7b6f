"""Sentences of attacks on tool descriptions and harmless ones like them, made up by style and language.

`suspicious_sentences.yaml` holds frames with slots; the values of slots may hold slots. A seed draws the variants.
"""

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from typing import Any, NamedTuple

from waygraph.ingest.manifest.suspicion.rules import sentences

VARIANTS = {"attacks": 30, "harmless": 30}
"""Of each frame with slots, at most so many."""
_SLOT = re.compile(r"(?<!\{)\{(\w+)\}(?!\})")


class SyntheticSentence(NamedTuple):
    text: str
    is_attack: bool
    style: str
    language: str


def generate_sentences(seed: int) -> list[SyntheticSentence]:
    """Each text once, in an order that depends on the seed alone."""
    import yaml

    document = yaml.safe_load(files(__package__).joinpath("suspicious_sentences.yaml").read_text(encoding="utf-8"))
    rng = random.Random(seed)  # noqa: S311 - no secret
    found = dict[str, SyntheticSentence]()
    for kind, count in VARIANTS.items():
        for style, languages in document[kind].items():
            for language, frames in languages.items():
                for text in _fill_frames(frames, document["slots"].get(language, {}), count, rng):
                    found.setdefault(text, SyntheticSentence(text, kind == "attacks", style, language))
    return list(found.values())


def _fill_frames(frames: Sequence[str], slots: Mapping[str, Any], count: int, rng: random.Random) -> Iterator[str]:
    for frame in frames:
        for _ in range(count if _SLOT.search(frame) else 1):
            yield from sentences(_fill(frame, slots, rng))


def _fill(frame: str, slots: Mapping[str, Sequence[str]], rng: random.Random) -> str:
    text = frame
    while _SLOT.search(text):
        text = _SLOT.sub(lambda match: rng.choice(slots[match[1]]), text)
    text = text.strip().replace("{{", "{").replace("}}", "}")
    return text[:1].upper() + text[1:]
