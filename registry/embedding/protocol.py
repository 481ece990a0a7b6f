"""What an embedder is."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Matrix = NDArray[np.float32]
    Vector = NDArray[np.float32]

Role = Literal["query", "document"]
Progress = Callable[[int, int], None]
"""Called with (texts done, texts in all)."""


class Embedder(Protocol):
    """Texts to vectors. One text always gives one vector, whatever is embedded beside it."""

    @property
    def fingerprint(self) -> str:
        """Model and content hash, such as `onnx:…/all-MiniLM-L6-v2@53aa5117+int8`; equal means equal vectors."""
        ...

    @property
    def dimension(self) -> int: ...

    def embed(self, texts: Sequence[str], role: Role, *, progress: Progress | None = None) -> "Matrix":
        """float32 of shape (len(texts), dimension); rows have length 1 (0 for an empty text).

        Raises EmbedderUnavailable (retryable) if an endpoint does not answer within its timeout,
        EmbedderRefused if it refuses.
        """
        ...


@runtime_checkable
class Connected(Protocol):
    """An embedder that holds connections."""

    @property
    def place(self) -> str:
        """Whose vectors it gives: of one name, two places may have two models."""
        ...

    def close(self) -> None:
        """Ends them; it embeds nothing more."""
        ...
