"""Any model that sentence-transformers runs, on torch: `pip install 'waygraph[sentence-transformers]'`."""

from collections.abc import Sequence
from functools import partial
from threading import Lock
from typing import Any

import numpy as np

from waygraph.registry.embedding.embedder import Matrix, Progress, Role, embed_in_batches, in_order
from waygraph.registry.embedding.weights import PROMPT_NAMES
from waygraph.registry.model.errors import ModelNotFound
from waygraph.registry.model.installation import install_command

TEXTS_A_ROUND = 64


class SentenceTransformersEmbedder:
    """Vectors of a local model; nothing is downloaded.

    Raises ModelNotFound if the package or the model is not on this machine.
    """

    def __init__(self, model: str) -> None:
        self._model = _load(model)
        self._lock = Lock()  # its tokenizer refuses two threads at once
        self.dimension = int(self._model.get_embedding_dimension())
        self.fingerprint = f"sentence-transformers:{model}{_revision(self._model)}"

    def embed(self, texts: Sequence[str], role: Role, *, progress: Progress | None = None) -> Matrix:
        """float32 of shape (len(texts), dimension); rows have length 1 (0 for an empty text)."""
        vectors = embed_in_batches(texts, TEXTS_A_ROUND, partial(self._encode, role=role), progress)
        return in_order(texts, vectors, self.dimension)

    def _encode(self, texts: Sequence[str], role: Role) -> Matrix:
        prompts = self._model.prompts or {}
        prompt = next((prompts[name] for name in PROMPT_NAMES[role] if prompts.get(name)), None)
        with self._lock:
            vectors = self._model.encode(list(texts), prompt=prompt, normalize_embeddings=True, show_progress_bar=False)
        return np.asarray(vectors, dtype=np.float32)


def _load(model: str) -> Any:
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError as exc:
        raise ModelNotFound(
            f"sentence-transformers:{model} needs a package that is not installed: "
            + install_command("waygraph", "sentence-transformers")
        ) from exc
    try:
        return SentenceTransformer(model, local_files_only=True)
    except OSError as exc:
        raise ModelNotFound(f"{model} is not on this machine; `hf download {model}` gets it") from exc


def _revision(model: Any) -> str:
    """`@commit` of the files on the hub, where the model knows it."""
    commit = getattr(getattr(model[0], "auto_model", None), "config", None)
    commit = getattr(commit, "_commit_hash", None)
    return f"@{commit[:12]}" if commit else ""
