"""Clients over HTTP: their waits, proxies, certificates, packed and bounded bodies, and faults."""

import math
import re
import socket
import ssl
import zlib
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache
from itertools import chain
from typing import Any

import httpx2

from waygraph.registry.http.guard import Guard
from waygraph.registry.model.errors import InvalidSetting

PIECE_BYTES = 64 * 1024
"""So much is unpacked at a time."""
MOST_CODINGS = 5
"""One upon another."""
SLACK_BYTES = 256 * 1024
"""By so much, and twice what it unpacks to, a body may be longer packed: one of empty parts would have no end."""
_GZIP, _ZLIB, _RAW = 31, 15, -15
"""zlib's numbers for the three forms: with gzip's head, with zlib's, and without any."""
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
    if unknown := [name for name in codings if name not in _FORMS]:
        name = unknown[0] if _NAME.fullmatch(unknown[0]) else "an unknown form"
        raise Undecodable(f"its answer is compressed by {name}; read are gzip and deflate, and what is not compressed")
    if len(codings) > MOST_CODINGS:
        raise Undecodable("its answer is compressed too many times")
    if not codings:
        return
    for name in ("content-encoding", "content-length"):
        response.headers.pop(name, None)
    # A stream of events is cut off by whoever has read enough of it, and ends as it may.
    ends = not response.headers.get("content-type", "").strip().lower().startswith("text/event-stream")
    response.stream = _UnpackedStream(response.stream, codings[::-1], ends=ends)


class _UnpackedStream(httpx2.SyncByteStream, httpx2.AsyncByteStream):
    """A body in gzip or deflate, whether or not that was asked for: some edges compress every answer.

    The library's own decoders read one member of gzip and miss the end of a body that was cut off.
    It is unpacked in small pieces, so that a limit of bytes holds for what is read and not for what was sent.
    `codings`: the last one that was laid on first. `ends`: a body that breaks off is an error.
    """

    def __init__(self, stream: Any, codings: Iterable[str], *, ends: bool) -> None:
        self._stream, self._ends = stream, ends
        self._layers = [_Layer(_FORMS[name]) for name in codings]

    def __iter__(self) -> Iterator[bytes]:
        for part in self._stream:
            yield from self._unpack(part)
        self._check_end()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._stream:
            for piece in self._unpack(part):
                yield piece
        self._check_end()

    def _unpack(self, part: bytes) -> Iterator[bytes]:
        """Ends with an empty piece, so that a reader looks at its clock though nothing came of the part."""
        parts = iter((part,))
        for layer in self._layers:
            parts = chain.from_iterable(map(layer.unpack, parts))
        try:
            yield from parts
        except zlib.error:
            raise Undecodable("its answer is compressed and cannot be unpacked") from None
        yield b""

    def _check_end(self) -> None:
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
        self._inflate: Any = None
        self._packed_bytes = self._bytes = 0

    @property
    def is_whole(self) -> bool:
        """Also where there was no body at all."""
        return self._inflate is None or self._inflate.eof

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
        """What is to be inflated next."""
        if not content:
            return content
        if self._inflate is None:
            # Many servers send deflate without zlib's head. That ends its first byte in 8, and no block does.
            has_head = self._form == _GZIP or content[0] & 0x0F == 8
            self._inflate = zlib.decompressobj(self._form if has_head else _RAW)
        elif self._inflate.eof:
            if self._form != _GZIP:
                raise zlib.error
            if content := content.lstrip(b"\0"):  # with which some writers of gzip fill up a block
                self._inflate = zlib.decompressobj(_GZIP)
        return content


FIRST_WAIT_S = 0.5
LONGEST_WAIT_S = 60.0


def wait_s(attempt: int, retry_after: str | None, jitter: Callable[[], float]) -> float:
    """What the server asks for, else exponential (0.5 s, 1 s, 2 s …, with 50 to 100 % of it by chance); ≤ 60 s.

    `attempt` counts from 0; `jitter` gives a number in [0, 1), so that many clients do not come back as one.
    """
    server_s = seconds_in(retry_after)
    if server_s is not None:
        return min(server_s, LONGEST_WAIT_S)
    return backoff_s(attempt, jitter, FIRST_WAIT_S, LONGEST_WAIT_S)


def backoff_s(attempt: int, jitter: Callable[[], float], first_s: float, longest_s: float) -> float:
    """`first_s`, doubled at each attempt up to `longest_s`, of which chance takes up to a half. As in `wait_s`."""
    return min(first_s * 2.0 ** min(attempt, 64), longest_s) * (0.5 + jitter() / 2)


def seconds_in(retry_after: str | None) -> float | None:
    """The seconds until the moment in a Retry-After header (RFC 9110, 10.2.3), which is a number or a date."""
    if retry_after is None:
        return None
    if retry_after.strip().isdecimal():
        return float(retry_after)
    try:
        left_s = (parsedate_to_datetime(retry_after).astimezone(UTC) - datetime.now(UTC)).total_seconds()
        return max(0.0, float(math.ceil(left_s)))
    except (ValueError, OverflowError):  # no date, or in UTC one before the year 1 or after 9999
        return None


PAST_PROXIES: dict[str, None] = dict.fromkeys(("all://localhost", "all://127.0.0.1", "all://[::1]"))
"""A client's `mounts`: no proxy stands between a machine and itself."""


class UnusableProxy(InvalidSetting):
    """The environment names a proxy that no client can use."""


def http_client[C: (httpx2.Client, httpx2.AsyncClient)](
    kind: type[C], *, guard: Guard | None = None, **options: Any
) -> C:
    """A client of the library, which takes `options`; for this machine it uses no proxy. `guard` None: it dials all.

    Raises UnusableProxy, which repeats no address: it may hold a password.
    """
    try:
        client = kind(mounts=PAST_PROXIES, **options)
    except (httpx2.InvalidURL, ValueError) as exc:
        raise UnusableProxy(
            "the proxy that HTTP_PROXY, HTTPS_PROXY or ALL_PROXY names, or a host in NO_PROXY, is no address: expected "
            "one such as http://proxy:3128 or socks5://proxy:1080"
        ) from exc
    if guard:
        guard.watch(client)
    return client


def check_proxies() -> None:
    """Raises UnusableProxy."""
    http_client(httpx2.Client).close()


class TooMuch(Exception):
    """It has more bytes than are read."""


class TooSlow(Exception):
    """It does not end in time."""


def whole_body(parts: Iterable[bytes], *, most_bytes: int, ends_at: float, clock: Callable[[], float]) -> bytes:
    """A body as it comes in: at most `most_bytes`, whole by `ends_at`, in seconds of `clock`.

    Raises TooMuch, TooSlow.
    """
    content = bytearray()
    for part in parts:
        content += part
        if len(content) > most_bytes:
            raise TooMuch
        if clock() > ends_at:
            raise TooSlow
    return bytes(content)


@cache
def trust() -> ssl.SSLContext:
    """The system's, or those of SSL_CERT_FILE; loaded once, since that takes longer than a request."""
    return httpx2.create_ssl_context()


def causes(exc: BaseException) -> list[BaseException]:
    """The error itself first, then what it came of, groups included."""
    errors: list[BaseException] = []
    todo: list[BaseException | None] = [exc]
    while todo:
        error = todo.pop()
        if error is None or error in errors:
            continue
        errors.append(error)
        todo += [error.__context__, error.__cause__]
        if isinstance(error, BaseExceptionGroup):
            todo += error.exceptions
    return errors


_OF_NO_ISSUER = frozenset({2, 18, 19, 20, 21})
"""What OpenSSL says of a certificate whose issuer is not known, or that is its own."""


def is_busy(status: int, retry_after: str | None) -> bool:
    """Whether a service did nothing and wants to be asked later. With 503 alone nobody knows whether it did."""
    return status == 429 or (status == 503 and seconds_in(retry_after) is not None)


def connection_fault(exc: BaseException) -> str:  # noqa: PLR0911 - a table
    """Why a request got no answer; empty for what is no fault of a connection.

    It quotes nothing of what was sent, as the text of some errors of libraries does.
    """
    for cause in causes(exc):
        match cause:
            case ssl.SSLCertVerificationError():
                remedy = (
                    "; SSL_CERT_FILE or SSL_CERT_DIR names others to trust"
                    if cause.verify_code in _OF_NO_ISSUER
                    else ""
                )
                return f"its TLS certificate is not trusted: {cause.verify_message}{remedy}"
            case ssl.SSLError():
                return f"TLS failed: {cause.reason or 'no reason given'}"
            case socket.gaierror():
                return "host not found"
            case ConnectionRefusedError():
                return "connection refused"
            case Undecodable():
                return str(cause)
    match exc:
        case httpx2.TimeoutException():
            return "no answer in time"
        case httpx2.ConnectError():
            return "no connection"
        case httpx2.TransportError():
            return f"the connection broke ({type(exc).__name__})"
    return ""


def same_origin(own: httpx2.URL, other: httpx2.URL) -> bool:
    """Whether what is meant for the one may go to the other. Also where https stands in place of http."""
    if (own.scheme, own.host, own.port) == (other.scheme, other.host, other.port):
        return True
    is_upgrade = own.scheme == "http" and other.scheme == "https" and own.port is None and other.port is None
    return is_upgrade and own.host == other.host


def origin_of(url: str) -> str:
    """Scheme, host and port of an address of the web, as text; empty for what is none."""
    try:
        address = httpx2.URL(url)
    except (httpx2.InvalidURL, TypeError):
        return ""
    port = address.port or {"http": 80, "https": 443}.get(address.scheme)
    return f"{address.scheme}://{address.host}:{port}" if port and address.host else ""
