"""The body of an answer over HTTP, within limits. A client's own limit of time is for each read, this one for all."""

from collections.abc import Callable, Iterable


class TooMuch(Exception):
    """It has more bytes than are read."""


class TooSlow(Exception):
    """It does not end in time."""


def whole_body(parts: Iterable[bytes], *, most_bytes: int, ends_at: float, clock: Callable[[], float]) -> bytes:
    """Raises TooMuch; TooSlow where a part comes after `ends_at`, in seconds of `clock`."""
    content = bytearray()
    for part in parts:
        content += part
        if len(content) > most_bytes:
            raise TooMuch
        if clock() > ends_at:
            raise TooSlow
    return bytes(content)
