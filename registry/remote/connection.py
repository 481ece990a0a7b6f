"""Calls sent over HTTP, again where that is safe."""

import asyncio
import random
import ssl
import time
from collections.abc import Awaitable, Callable
from importlib.metadata import version
from typing import Any, TypedDict

import httpx2

from waygraph.registry.errors import InvalidQuery, InvalidSetting, RegistryClosed
from waygraph.registry.machine.proxies import http_client
from waygraph.registry.remote.address import ServiceAddress, api_key
from waygraph.registry.remote.answers import Broken, answer_of
from waygraph.registry.remote.call import Call, Reply
from waygraph.registry.remote.limits import Clock, Limits, Unread
from waygraph.registry.remote.patience import Patience
from waygraph.registry.settings import Settings

type Jitter = Callable[[], float]


class Connection:
    """To one service, over as many sockets as `remote_pool_size`. Threads may share it.

    `sleep` takes seconds; `clock` gives seconds that only grow, `jitter` a number in [0, 1).
    """

    def __init__(
        self,
        address: ServiceAddress,
        settings: Settings,
        *,
        sleep: Callable[[float], None] = time.sleep,
        clock: Clock = time.monotonic,
        jitter: Jitter = random.random,
    ) -> None:
        self.place = address.url
        self._limits = Limits(address.url, settings, clock)
        self._patience = patience(settings, clock, jitter)
        self._sleep = sleep
        self._client = http_client(httpx2.Client, **client_options(address, settings))

    def ask[T](self, call: Call[T]) -> T:
        """Raises the error that the service met; ServiceUnavailable, ServiceFailed, RegistryClosed."""
        attempts = self._patience.attempts(call)
        while True:
            seen = self._sent(call)
            pause_s = attempts.wait_s(seen)
            if pause_s is None:
                return answer_of(call, seen, self.place)
            self._sleep(pause_s)

    def close(self) -> None:
        self._client.close()

    def _sent(self, call: Call[Any]) -> Reply | Broken:
        if self._client.is_closed:
            raise RegistryClosed
        try:
            with self._client.stream(**self._limits.request(call)) as response:
                body = self._limits.body(call, response)
                for part in response.iter_raw():
                    body.take(part)
                return body.reply()
        except Unread as unread:
            return unread.broken
        except httpx2.HTTPError as exc:
            return self._limits.broken(call, exc)
        except httpx2.InvalidURL as exc:
            raise InvalidQuery(f"more is asked for than an address can hold: {exc}") from exc


class AsyncConnection:
    """The same, awaitable; for one event loop."""

    def __init__(
        self,
        address: ServiceAddress,
        settings: Settings,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Clock = time.monotonic,
        jitter: Jitter = random.random,
    ) -> None:
        self.place = address.url
        self._limits = Limits(address.url, settings, clock)
        self._patience = patience(settings, clock, jitter)
        self._sleep = sleep
        self._client = http_client(httpx2.AsyncClient, **client_options(address, settings))

    async def ask[T](self, call: Call[T]) -> T:
        """As `Connection.ask`."""
        attempts = self._patience.attempts(call)
        while True:
            seen = await self._sent(call)
            pause_s = attempts.wait_s(seen)
            if pause_s is None:
                return answer_of(call, seen, self.place)
            await self._sleep(pause_s)

    async def close(self) -> None:
        await self._client.aclose()

    async def _sent(self, call: Call[Any]) -> Reply | Broken:
        if self._client.is_closed:
            raise RegistryClosed
        try:
            async with self._client.stream(**self._limits.request(call)) as response:
                body = self._limits.body(call, response)
                async for part in response.aiter_raw():
                    body.take(part)
                return body.reply()
        except Unread as unread:
            return unread.broken
        except httpx2.HTTPError as exc:
            return self._limits.broken(call, exc)
        except httpx2.InvalidURL as exc:
            raise InvalidQuery(f"more is asked for than an address can hold: {exc}") from exc


class ClientOptions(TypedDict):
    """What httpx2 takes."""

    headers: dict[str, str]
    verify: ssl.SSLContext | bool
    trust_env: bool
    limits: httpx2.Limits
    follow_redirects: bool


def client_options(address: ServiceAddress, settings: Settings) -> ClientOptions:
    """How a service is spoken to: key, certificates, proxies, sockets. Raises InvalidSetting."""
    try:
        httpx2.URL(address.url)
    except httpx2.InvalidURL as exc:
        raise InvalidSetting(f"{address.url} is no URL: {exc}") from exc
    key = api_key(address, settings)
    headers = {
        "Accept-Encoding": "identity",  # so that a limit of bytes is one
        "User-Agent": f"waygraph/{version('waygraph')}",
        **({"Authorization": f"Bearer {key}"} if key else {}),
    }
    pool = settings.remote_pool_size
    return {
        "headers": headers,
        "verify": _certificates(settings.remote_ca_file),
        "trust_env": not address.is_local,  # no proxy stands between a machine and itself
        "limits": httpx2.Limits(max_connections=pool, max_keepalive_connections=pool),
        "follow_redirects": False,  # the key is for this place alone
    }


def _certificates(file: str) -> ssl.SSLContext | bool:
    """True: the system's."""
    if not file:
        return True
    try:
        return ssl.create_default_context(cafile=file)
    except OSError as exc:
        raise InvalidSetting(f"WAYGRAPH_REMOTE_CA_FILE {file} holds no certificates: {exc.strerror or exc}") from exc


def patience(settings: Settings, clock: Clock, jitter: Jitter) -> Patience:
    """By the settings."""
    return Patience(retries=settings.remote_retries, total_s=settings.remote_retry_s, clock=clock, jitter=jitter)
