"""Which addresses a client may dial. A name is resolved once, and the very address that was judged is dialled."""

import socket
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any
from urllib.request import getproxies

import anyio
import httpx2

from waygraph.registry.http.addresses import Reach, reach_of, written_address
from waygraph.registry.model.errors import UpstreamRefused

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
