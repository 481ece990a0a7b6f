"""What a URL says of where it leads: its parts, a user in it, and from how far its host can be reached.

Which addresses a client may dial. A name is resolved once, and the very address that was judged is dialled.
"""

import socket
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from enum import IntEnum
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies

import anyio
import httpx2

from waygraph.registry.model.errors import UpstreamRefused

_NAT64 = ip_network("64:ff9b::/96")
"""Stands for IPv4 addresses by their last 32 bits (RFC 6052)."""
_WITHIN_A_SITE = tuple(
    map(
        ip_network,
        ("::/96", "::ffff:0:0:0/96", "64:ff9b:1::/48", "fec0::/10", "3fff::/20", "5f00::/16", "192.88.99.0/24"),
    )
)
"""Which Python calls global: IPv4 as written of old or translated (RFC 2765, RFC 8215), addresses of a site, of
documentation (RFC 9637), of segments (RFC 9602) and of relays that are no more (RFC 7526)."""
_HOLDS_IPV4 = _WITHIN_A_SITE[:3]
"""Those that end in an address of IPv4."""
_METADATA = tuple(
    map(
        ip_network,
        (
            "169.254.0.0/16",
            "fe80::/10",
            "fd00:ec2::/32",  # AWS
            "fd20:ce::254/128",  # Google
            "fd00:42::42/128",  # Scaleway
            "100.100.100.200/32",  # Alibaba
            "168.63.129.16/32",  # Azure
            "192.0.0.192/32",  # Oracle
        ),
    )
)
"""Link-local, and what clouds answer their machines at: with credentials, to whoever asks."""
_ISATAP = (0x0000_5EFE, 0x0200_5EFE)
"""Before the IPv4 address in the last 64 bits of a host that is reached through one (RFC 5214)."""


def is_loopback(host: str) -> bool:
    """Of a name or an address, as a URL has it or without its brackets."""
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def names_user(location: str) -> bool:
    """Whether a URL holds a user or a password, however it is spelled."""
    # Looked for in the whole: with `/`, `#` or `?` in a password the host ends before its `@`.
    return "@" in unquote(location)


def split_url(location: str) -> SplitResult | None:
    """None for what is no URL, such as one with a port that is no number."""
    try:
        parts = urlsplit(location)
        return parts if parts.port is None or parts.port > 0 else None
    except ValueError:
        return None


def written_address(host: str) -> str:
    """The IP address as which a host is written, also in the older forms `0x7f.1` and `2130706433`; empty: a name."""
    with suppress(ValueError):
        return str(ip_address(host))
    with suppress(OSError, UnicodeError):
        return socket.inet_ntoa(socket.inet_aton(host))
    return ""


class Reach(IntEnum):
    """From how far an address can be reached. The nearer, the more harm a request does that somebody else chose."""

    METADATA = 0
    MACHINE = 1
    NETWORK = 2
    INTERNET = 3


def is_public(address: str) -> bool:
    """Whether an IP address is one of the open internet, also where it stands in for one of IPv4."""
    return reach_of(address) is Reach.INTERNET


def reach_of(address: str) -> Reach:
    """Of an IP address, or of the nearest that it stands for; of what is none, METADATA."""
    try:
        ip = ip_address(address)
    except ValueError:
        return Reach.METADATA
    return min(map(_reach, _reached_addresses(ip)))


def _reach(address: IPv4Address | IPv6Address) -> Reach:
    if any(address in each for each in _METADATA):
        return Reach.METADATA
    if address.is_loopback or address.is_unspecified:
        return Reach.MACHINE
    within = any(address in site for site in _WITHIN_A_SITE)
    return Reach.INTERNET if address.is_global and not address.is_multicast and not within else Reach.NETWORK


def _reached_addresses(address: IPv4Address | IPv6Address) -> Iterator[IPv4Address | IPv6Address]:
    """The address, or that of IPv4 for which it stands; and the one through which it is reached."""
    if isinstance(address, IPv4Address):
        yield address
        return
    last = IPv4Address(int(address) & 0xFFFF_FFFF)
    yield address.ipv4_mapped or address.sixtofour or (last if address in _NAT64 else address)
    if int(address) >> 32 & 0xFFFF_FFFF in _ISATAP or any(address in each for each in _HOLDS_IPV4):
        yield last
    if address in _HOLDS_IPV4[-1]:
        yield IPv4Address((int(address) >> 64 & 0xFFFF) << 16 | int(address) >> 40 & 0xFFFF)  # RFC 6052, 2.2


def public_address(public_url: str, request_url: str) -> str:
    """Where a person reaches a service with a browser, without a slash at its end; empty if that is not known.

    `public_url`: what the operator set. `request_url`: where a request was sent, as its sender says: it
    counts on this machine alone.
    """
    url = split_url(request_url)
    here = request_url if url is not None and is_loopback(url.hostname or "") else ""
    return (public_url or here).rstrip("/")


_TRY_S = 3.0
"""For an address while another is left: such as one of IPv6, without a route."""
_PORTS = {"http": 80, "https": 443}


class NotPublic(UpstreamRefused):
    """A host that has an address which is not allowed. `why`: which kind of address."""

    def __init__(self, whose: str, *, metadata: bool) -> None:
        self.metadata = metadata
        self.why = "a link-local or metadata address" if metadata else "a private or reserved address"
        super().__init__(f"{whose} may not be asked from here: it has {self.why}")


class Guard:
    """What one client may dial.

    `origin` is what a person named: it may be anywhere but at a link-local or metadata address, and comes no nearer
    later, as a name may whose answers change. Other hosts must be as far as the origin is, and as `beyond`; with all
    their addresses. A proxy resolves names by itself: through one only hosts written as addresses are judged.
    """

    def __init__(self, origin: httpx2.URL | None = None, *, beyond: Reach = Reach.INTERNET) -> None:
        self._host = origin.raw_host.decode() if origin else ""
        port = origin.port or _PORTS.get(origin.scheme, 0) if origin else 0
        self._ports = (80, 443) if port == 80 else (port,)  # a server may move from http to https
        self._beyond = beyond
        self._nearest = Reach.MACHINE
        self._farthest = Reach.METADATA if origin else beyond

    def watch(self, client: httpx2.Client | httpx2.AsyncClient) -> None:
        """Before its first request. What the client sends through a proxy goes on to do so."""
        is_async = isinstance(client, httpx2.AsyncClient)
        # The library takes its dialling by no parameter; the tests of this module hold its place.
        transport: Any = client._transport
        pool = transport._pool
        pool._network_backend = (_AsyncDial if is_async else _Dial)(pool._network_backend, self)
        if getproxies():
            client.event_hooks = {"request": [self._check_async if is_async else self._check]}

    def unseen_origin(self, host: str, port: int) -> tuple[str, int] | None:
        """The origin, if it has to be judged before another host can be."""
        is_new = self._farthest is Reach.METADATA and not self._is_origin(host, port)
        return (self._host, self._ports[0]) if is_new else None

    def judge(self, host: str, port: int, addresses: Iterable[str]) -> list[str]:
        """Those that may be dialled, each once, in their order. Raises NotPublic."""
        reaches = {address: reach_of(address) for address in addresses}
        if self._is_origin(host, port):
            allowed_addresses = [address for address, reach in reaches.items() if reach >= self._nearest]
            if allowed_addresses:
                has_reach = self._farthest is not Reach.METADATA
                self._nearest = self._nearest if has_reach else min(map(reach_of, allowed_addresses))
                self._farthest = max(self._farthest, *map(reach_of, allowed_addresses))
        else:
            least = max(self._beyond, self._farthest or Reach.INTERNET)
            allowed_addresses = list(reaches) if min(reaches.values(), default=Reach.METADATA) >= least else []
        if not allowed_addresses:
            whose = "a host to which it leads" if self._host and not self._is_origin(host, port) else "its host"
            raise NotPublic(whose, metadata=Reach.METADATA in reaches.values())
        return allowed_addresses

    def _is_origin(self, host: str, port: int) -> bool:
        return host == self._host and port in self._ports

    def _check(self, request: httpx2.Request) -> None:
        url = request.url
        if address := written_address(url.host):
            self.judge(url.raw_host.decode(), url.port or _PORTS.get(url.scheme, 0), [address])

    async def _check_async(self, request: httpx2.Request) -> None:
        self._check(request)


class _Dial:
    """In place of the library's own network."""

    def __init__(self, inner: Any, guard: Guard) -> None:
        self._inner, self._guard = inner, guard

    def connect_tcp(self, host: str, port: int, timeout: float | None = None, *more: Any, **how: Any) -> Any:
        if origin := self._guard.unseen_origin(host, port):
            with suppress(httpx2.ConnectError, UpstreamRefused):
                self._guard.judge(*origin, self._resolve(*origin))
        *others, last = self._guard.judge(host, port, self._resolve(host, port))
        for address in others:
            with suppress(Exception):  # the next one may be reached
                return self._inner.connect_tcp(address, port, _shorter(timeout), *more, **how)
        return self._inner.connect_tcp(last, port, timeout, *more, **how)

    def _resolve(self, host: str, port: int) -> list[str]:
        try:
            return _numbers(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        except (OSError, UnicodeError) as exc:
            raise _resolve_error(exc) from exc

    def sleep(self, seconds: float) -> Any:
        return self._inner.sleep(seconds)


class _AsyncDial(_Dial):
    async def connect_tcp(self, host: str, port: int, timeout: float | None = None, *more: Any, **how: Any) -> Any:
        if origin := self._guard.unseen_origin(host, port):
            with suppress(httpx2.ConnectError, UpstreamRefused):
                self._guard.judge(*origin, await self._resolve_async(*origin))
        *others, last = self._guard.judge(host, port, await self._resolve_async(host, port))
        for address in others:
            with suppress(Exception):  # the next one may be reached
                return await self._inner.connect_tcp(address, port, _shorter(timeout), *more, **how)
        return await self._inner.connect_tcp(last, port, timeout, *more, **how)

    async def _resolve_async(self, host: str, port: int) -> list[str]:
        try:
            return _numbers(await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        except (OSError, UnicodeError) as exc:
            raise _resolve_error(exc) from exc


def _shorter(timeout_s: float | None) -> float:
    return _TRY_S if timeout_s is None else min(timeout_s, _TRY_S)


def _numbers(rows: Sequence[tuple[Any, ...]]) -> list[str]:
    return [str(address[0]).partition("%")[0] for *_, address in rows]


def _resolve_error(exc: Exception) -> Exception:
    if isinstance(exc, UnicodeError):
        return UpstreamRefused("its host's name cannot be one")
    return httpx2.ConnectError(str(exc))
