"""A host's bytes, cut into lines; one that is too long to be a plain request is given as it comes."""

from collections.abc import Iterator

LONGEST = 64 * 1024
"""In bytes: so much of a line is gathered."""

type Piece = tuple[bytes, bool]
"""Bytes, and whether they are one whole line."""


class Cut:
    """All pieces together are all that was fed; at the end a newline is added where the last line has none."""

    def __init__(self) -> None:
        self._rest = b""
        self._is_within = False
        """Of the line that has not ended some was given already."""

    def fed(self, chunk: bytes) -> Iterator[Piece]:
        """What this chunk completes."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            yield line + b"\n", not self._is_within
            self._is_within = False
        if len(self._rest) > LONGEST:
            rest, self._rest, self._is_within = self._rest, b"", True
            yield rest, False

    def ended(self) -> Iterator[Piece]:
        """What is left, once."""
        if self._rest:
            rest, self._rest = self._rest, b""
            yield rest + b"\n", not self._is_within
