"""Bodies in gzip and deflate: read as they are sent by edges, in small pieces, and refused with a reason."""

import gzip
import zlib
from collections.abc import AsyncIterator, Iterator

import httpx2
import pytest

from waygraph.registry.http.client import PIECE_BYTES, SLACK_BYTES, Undecodable, connection_fault, decode_body

TEXT = b'{"harbour": "' + b"quay, " * 400 + b'"}'


class Parts(httpx2.SyncByteStream, httpx2.AsyncByteStream):
    """A body as it comes off a wire: `size` bytes at a time."""

    def __init__(self, body: bytes, size: int) -> None:
        self.parts = [body[at : at + size] for at in range(0, len(body), size)]

    def __iter__(self) -> Iterator[bytes]:
        yield from self.parts

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for part in self.parts:
            yield part


def pack(content: bytes, level: int = 9) -> bytes:
    """The same bytes at any time: a worker's tests have the names of the others'."""
    return gzip.compress(content, level, mtime=0)


def raw_deflate(body: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(body) + packer.flush()


def answer(coding: str, body: bytes, size: int = 1_000, kind: str = "application/json") -> httpx2.Response:
    headers = {"content-encoding": coding, "content-length": str(len(body)), "content-type": kind}
    return httpx2.Response(200, headers=headers, stream=Parts(body, size))


@pytest.mark.parametrize("size", [1, 7, 100_000])
@pytest.mark.parametrize(
    ("coding", "packed"),
    [
        ("gzip", pack(TEXT)),
        ("X-GZip", pack(TEXT)),
        ("deflate", zlib.compress(TEXT)),
        ("deflate", raw_deflate(TEXT)),
        ("identity, gzip", pack(TEXT)),
        ("deflate, gzip", pack(zlib.compress(TEXT))),
        ("gzip, deflate", raw_deflate(pack(TEXT))),
        ("gzip", pack(TEXT[:9]) + pack(TEXT[9:])),
        ("gzip", pack(TEXT) + bytes(512)),
        ("identity", TEXT),
        ("", TEXT),
    ],
)
async def test_a_body_is_read_however_it_is_packed(coding: str, packed: bytes, size: int) -> None:
    response = answer(coding, packed, size)
    decode_body(response)
    assert b"".join(response.iter_raw()) == TEXT
    assert "content-encoding" not in response.headers or "identity" in coding or not coding
    response = answer(coding, packed, size)
    decode_body(response)
    assert b"".join([part async for part in response.aiter_raw()]) == TEXT


@pytest.mark.parametrize("coding", ["br", "zstd", "compress", "gzip, br", ", ".join(["gzip"] * 6), "\x7f x"])
def test_a_coding_that_is_not_read_is_named(coding: str) -> None:
    with pytest.raises(Undecodable) as caught:
        decode_body(answer(coding, b"?"))
    name = coding.rpartition(" ")[2]
    assert name in str(caught.value) or "an unknown form" in str(caught.value) or "too many" in str(caught.value)
    assert connection_fault(caught.value) == str(caught.value)


@pytest.mark.parametrize(
    ("coding", "packed"),
    [
        ("gzip", pack(TEXT)[:-5]),
        ("deflate", zlib.compress(TEXT)[:-5]),
        ("deflate", zlib.compress(TEXT) + b"more"),
        ("gzip", pack(TEXT) + b"more"),
        ("gzip", pack(pack(TEXT))[:-20]),
        ("gzip, gzip", pack(pack(b"") * (SLACK_BYTES // 10))),
        ("gzip", TEXT),
        ("gzip", pack(b"") * (SLACK_BYTES // 10)),
        ("gzip", pack(b"") + bytes(SLACK_BYTES)),
    ],
)
def test_what_cannot_be_unpacked_whole_is_an_error(coding: str, packed: bytes) -> None:
    response = answer(coding, packed)
    decode_body(response)
    with pytest.raises(Undecodable):
        list(response.iter_raw())


@pytest.mark.parametrize("coding", ["gzip", "gzip, gzip"])
def test_a_bomb_comes_in_small_pieces(coding: str) -> None:
    """Whoever counts what is read stops early: no more is unpacked than is taken."""
    body = pack(bytes(2**28), 9)
    response = answer(coding, pack(body, 9) if "," in coding else body, 10_000_000)
    decode_body(response)
    pieces = response.iter_raw()
    assert max(len(next(pieces)) for _ in range(100)) <= PIECE_BYTES


def test_a_stream_of_events_ends_as_it_may() -> None:
    """Each event is read when it comes, and nobody waits for the end of the coding."""
    packer = zlib.compressobj(wbits=31)
    event = packer.compress(b"data: 1\n\n") + packer.flush(zlib.Z_SYNC_FLUSH)
    response = answer("gzip", event, kind="text/event-stream; charset=utf-8")
    decode_body(response)
    assert b"".join(response.iter_raw()) == b"data: 1\n\n"


@pytest.mark.parametrize("status", [202, 204, 304])
def test_an_answer_without_a_body_is_none_that_breaks_off(status: int) -> None:
    response = httpx2.Response(status, headers={"content-encoding": "gzip"}, stream=Parts(b"", 1))
    decode_body(response)
    assert b"".join(response.iter_raw()) == b""
