"""Bodies of HTTP answers in gzip or deflate, whether or not they were asked for: some edges compress every answer.

They are unpacked in small pieces, so that a limit of bytes holds for what is read and not for what was sent.
"""

import re
import zlib
from collections.abc import AsyncIterator, Iterable, Iterator
from functools import reduce
from typing import Any

import httpx2

PIECE_BYTES = 64 * 1024
"""So much is unpacked at a time."""
MOST_CODINGS = 3
"""One upon another."""
SLACK_BYTES = 256 * 1024
"""By so much, and twice what it unpacks to, a body may be longer packed: one of empty parts would have no end."""
_GZIP, _ZLIB, _RAW = 31, 15, -15
"""zlib's words for the three forms: with gzip's head, with zlib's, and without any."""
_FORMS = {"gzip": _GZIP, "x-gzip": _GZIP, "deflate": _ZLIB}
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,19}")


class Undecodable(httpx2.DecodingError):
    """Why a body cannot be unpacked. The text is ours and says "its answer …"."""


def decode_body(response: httpx2.Response) -> None:
    """Whoever reads the raw body from now on reads what was packed; the headers say so. Before anything is read.

    Raises Undecodable for a coding that is not known here, and so does the reading of a body that breaks off.
    """
    # Names of codings know no case, and `identity` is none (RFC 9110, 8.4.1).
    names = [name.strip().lower() for name in response.headers.get("content-encoding", "").split(",")]
    codings = [name for name in names if name not in {"", "identity"}]
    if not codings:
        return
    if unknown := [name for name in codings if name not in _FORMS]:
        name = unknown[0] if _NAME.fullmatch(unknown[0]) else "an unknown form"
        raise Undecodable(f"its answer is compressed by {name}; read are gzip and deflate, and what is not compressed")
    if len(codings) > MOST_CODINGS:
        raise Undecodable(f"its answer is compressed {len(codings)} times; at most {MOST_CODINGS} are read")
    for name in ("content-encoding", "content-length"):
        response.headers.pop(name, None)
    # A stream of events is cut off by whoever has read enough of it, and ends as it may.
    ends = not response.headers.get("content-type", "").strip().lower().startswith("text/event-stream")
    response.stream = _UnpackedStream(response.stream, codings[::-1], ends=ends)


class _UnpackedStream(httpx2.SyncByteStream, httpx2.AsyncByteStream):
    """`codings`: the last one that was laid on first. `ends`: a body that breaks off is an error."""

    def __init__(self, stream: Any, codings: Iterable[str], *, ends: bool) -> None:
        self._stream, self._ends = stream, ends
        self._layers = [_Layer(_FORMS[name]) for name in codings]

    def __iter__(self) -> Iterator[bytes]:
        for part in self._stream:
            yield from self._unpack(part)
        self._finish()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._stream:
            for piece in self._unpack(part):
                yield piece
        self._finish()

    def _unpack(self, part: bytes) -> Iterator[bytes]:
        """Ends with an empty piece, so that a reader looks at its clock though nothing came of the part."""
        try:
            yield from reduce(_unpack_all, self._layers, iter((part,)))
        except zlib.error:
            raise Undecodable("its answer is compressed and cannot be unpacked") from None
        yield b""

    def _finish(self) -> None:
        if self._ends and not all(layer.is_whole for layer in self._layers):
            raise Undecodable("its answer breaks off amid what is compressed")

    def close(self) -> None:
        self._stream.close()

    async def aclose(self) -> None:
        await self._stream.aclose()


class _Layer:
    """One coding of a body, which may come in several members of gzip."""

    def __init__(self, form: int) -> None:
        self._form = form
        self._head = b""
        self._inflate: Any = None
        self._packed_bytes = self._bytes = 0

    @property
    def is_whole(self) -> bool:
        """Also where there was no body at all."""
        return not self._head and (self._inflate is None or self._inflate.eof)

    def unpack(self, content: bytes) -> Iterator[bytes]:
        """Raises zlib.error and Undecodable."""
        self._packed_bytes += len(content)
        while content := self._begin(content):
            piece = self._inflate.decompress(content, PIECE_BYTES)
            while piece:
                self._bytes += len(piece)
                yield piece
                piece = self._inflate.decompress(self._inflate.unconsumed_tail, PIECE_BYTES)
            content = self._inflate.unused_data
            if self._packed_bytes > 2 * self._bytes + SLACK_BYTES:
                raise Undecodable("its answer is longer compressed than it would be otherwise")

    def _begin(self, content: bytes) -> bytes:
        """What is to be inflated; nothing as long as it is not known how."""
        if self._inflate is not None and not self._inflate.eof:
            return content
        if self._inflate is not None and self._form != _GZIP:
            if content:
                raise zlib.error
            return content
        content, self._head = self._head + content, b""
        if self._inflate is not None:
            content = content.lstrip(b"\0")  # with which some writers of gzip fill up a block
        if len(content) < 2:
            self._head = content
            return b""
        self._inflate = zlib.decompressobj(_RAW if self._form == _ZLIB and not _has_head(content) else self._form)
        return content


def _unpack_all(parts: Iterator[bytes], layer: _Layer) -> Iterator[bytes]:
    for part in parts:
        yield from layer.unpack(part)


def _has_head(content: bytes) -> bool:
    """Of zlib (RFC 1950, 2.2): many servers send deflate without it."""
    return content[0] & 0x0F == 8 and int.from_bytes(content[:2]) % 31 == 0
