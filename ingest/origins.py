"""Where a request may go: to the origin it was meant for, or, of what somebody else names, to the open internet."""

import socket
from collections.abc import Callable

import anyio
import httpx2

from waygraph.registry.errors import UpstreamRefused
from waygraph.registry.machine.hosts import is_public


def same_origin(own: httpx2.URL, other: httpx2.URL) -> bool:
    """Whether what is meant for the one may go to the other. Also where https stands in place of http."""
    if (own.scheme, own.host, own.port) == (other.scheme, other.host, other.port):
        return True
    upgraded = own.scheme == "http" and other.scheme == "https" and own.port is None and other.port is None
    return upgraded and own.host == other.host


def origin_of(url: str) -> str:
    """Scheme, host and port of an address of the web, as text; empty for what is none."""
    try:
        parsed = httpx2.URL(url)
    except (httpx2.InvalidURL, TypeError):
        return ""
    port = parsed.port or {"http": 80, "https": 443}.get(parsed.scheme)
    return f"{parsed.scheme}://{parsed.host}:{port}" if port and parsed.host else ""


class NotPublic(UpstreamRefused):
    """A host that has an address which is not allowed."""


class PublicOnly(httpx2.AsyncHTTPTransport):
    """Resolves each name once, and connects to the very address that was judged: a second look could give another.

    Proxies are left aside: they resolve names by themselves. All addresses of a host must be `allowed`.
    """

    def __init__(self, *, allowed: Callable[[str], bool] = is_public, **how: object) -> None:
        super().__init__(**how)  # type: ignore[arg-type]
        self._allowed = allowed

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Raises NotPublic, UpstreamRefused for what is no name of a host, OSError, httpx2.TransportError."""
        url = request.url
        asked = httpx2.Request(
            request.method,
            url.copy_with(host=await self._resolved(url)),
            headers=request.headers,  # with the name as its Host
            stream=request.stream,
            extensions={**request.extensions, "sni_hostname": url.host},
        )
        return await super().handle_async_request(asked)

    async def _resolved(self, url: httpx2.URL) -> str:
        try:
            found = await anyio.getaddrinfo(url.host, url.port, type=socket.SOCK_STREAM)
        except UnicodeError:
            raise UpstreamRefused("its host's name cannot be one") from None
        numbers = [str(address[0]).partition("%")[0] for *_, address in found]
        if not numbers or not all(map(self._allowed, numbers)):
            raise NotPublic("its host may not be asked from here: it has a private or reserved address")
        return numbers[0]
