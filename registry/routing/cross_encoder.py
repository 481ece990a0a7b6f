"""A cross-encoder reads request and candidate together and scores the pair (Nogueira and Cho, 2019).

`pip install 'waygraph[sentence-transformers]'`; the model must be on this machine, nothing is downloaded.
"""

from collections.abc import Sequence
from threading import Lock
from typing import Any

from waygraph.registry.errors import MissingExtra, ModelNotFound


class CrossEncoderReranker:
    """Raises MissingExtra without sentence-transformers, ModelNotFound if the model is not on this machine."""

    def __init__(self, model: str) -> None:
        self._model = _load(model)
        self._lock = Lock()  # its tokenizer refuses two threads at once

    def order(self, query: str, documents: Sequence[str]) -> tuple[int, ...]:
        """Every index once, by falling score, equal ones as they were."""
        with self._lock:
            scores = self._model.predict([(query, text) for text in documents], show_progress_bar=False)
        return tuple(sorted(range(len(documents)), key=lambda at: -float(scores[at])))

    def close(self) -> None:
        """Nothing is open."""


def _load(model: str) -> Any:
    try:
        from sentence_transformers import CrossEncoder
    except ImportError as exc:
        raise MissingExtra(
            f"cross-encoder:{model}", package="sentence-transformers", extra="sentence-transformers"
        ) from exc
    try:
        return CrossEncoder(model, local_files_only=True, num_labels=1)
    except OSError as exc:
        raise ModelNotFound(f"{model} is not on this machine; `hf download {model}` gets it") from exc
