"""Text to token ids, by the model's own tokenizer.json."""

from collections.abc import Sequence
from pathlib import Path

from tokenizers import Tokenizer

from waygraph.registry.errors import EmbedderRefused
from waygraph.registry.identity import mended

CHARS_A_TOKEN = 128
"""Of a text, so many characters for each token that the model reads are looked at; more is cut unseen."""


class TextTokenizer:
    """Ids of one text with the model's special tokens, cut at `max_tokens`, not padded. Safe across threads."""

    def __init__(self, file: Path, max_tokens: int) -> None:
        """Raises EmbedderRefused for a file that is no tokenizer."""
        try:
            self._tokenizer = Tokenizer.from_file(str(file))
        except Exception as exc:  # the library raises nothing narrower
            raise EmbedderRefused(f"{file} is no tokenizer: {exc}") from exc
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(max_tokens)
        self._max_chars = max_tokens * CHARS_A_TOKEN

    def ids(self, text: str) -> Sequence[int]:
        text = text[: self._max_chars]
        try:
            ids: list[int] = self._tokenizer.encode(text).ids
        except (UnicodeError, TypeError):  # half a surrogate pair is a str, but no text
            ids = self._tokenizer.encode(mended(text)).ids
        return ids
