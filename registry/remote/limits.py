"""What a call is held to: how long, how much; and what it means that httpx2 got no reply."""

import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypedDict

import httpx2

from waygraph.registry.errors import ServiceFailed, ServiceUnavailable
from waygraph.registry.machine.coding import IDENTITY, coding_of
from waygraph.registry.remote.answers import Broken
from waygraph.registry.remote.call import Call, Reply
from waygraph.registry.settings import Settings

type Clock = Callable[[], float]
"""Seconds that only grow."""


class Unread(Exception):
    """That a reply is not read on."""

    def __init__(self, broken: Broken) -> None:
        self.broken = broken
        super().__init__(broken.error)


class Request(TypedDict):
    """What httpx2 takes."""

    method: str
    url: str
    content: bytes | None
    headers: dict[str, str]
    timeout: httpx2.Timeout


@dataclass(frozen=True, slots=True)
class Limits:
    """Of the calls of one place. `place` is its URL."""

    place: str
    settings: Settings
    clock: Clock

    def request(self, call: Call[Any]) -> Request:
        body = call.body
        return {
            "method": call.method,
            "url": f"{self.place}{call.target}",
            "content": body,
            "headers": {} if body is None else {"Content-Type": "application/json"},
            "timeout": httpx2.Timeout(self.timeout_s(call), connect=self.settings.remote_connect_timeout_s),
        }

    def body(self, call: Call[Any], response: httpx2.Response) -> "Body":
        """Raises Unread for one that cannot be read."""
        if coding_of(response) != IDENTITY:
            raise Unread(_failed(self.place, "it answers with a compressed body, which was not asked for"))
        return Body(self, response, self.timeout_s(call))

    def timeout_s(self, call: Call[Any]) -> float:
        return self.settings.remote_write_timeout_s if call.slow else self.settings.remote_timeout_s

    def broken(self, call: Call[Any], error: httpx2.HTTPError) -> Broken:
        """What an error of httpx2 says of the call."""
        match error:
            case httpx2.ConnectTimeout() | httpx2.ConnectError() | httpx2.ProxyError() | httpx2.PoolTimeout():
                return self._unsent(error)
            case httpx2.TimeoutException():
                return too_slow(self.place, self.timeout_s(call))
            case httpx2.RemoteProtocolError() if not _is_cut(error):
                return _failed(self.place, "it does not speak HTTP")
            case httpx2.NetworkError() | httpx2.RemoteProtocolError():
                reason = f"the connection broke ({_told(error)})"
                return Broken(ServiceUnavailable(self.place, reason), sent=True, passing=True)
        # The message of such an error may quote what was sent.
        return _failed(self.place, f"it cannot be asked ({type(error).__name__})")

    def _unsent(self, error: httpx2.HTTPError) -> Broken:
        """No connection came about."""
        settings, passing = self.settings, True
        match error:
            case httpx2.ConnectTimeout():
                reason = f"no connection within {settings.remote_connect_timeout_s:g} s"
            case httpx2.PoolTimeout():
                reason = f"all {settings.remote_pool_size} connections are in use (WAYGRAPH_REMOTE_POOL_SIZE)"
                passing = False
            case _:
                reason = _told(error)
                passing = not isinstance(_root(error), ssl.SSLError)  # no certificate is trusted the next time
        return Broken(ServiceUnavailable(self.place, reason), sent=False, passing=passing)


class Body:
    """A reply as it comes in. httpx2's own limit of time is for each read; this one is for all of them."""

    def __init__(self, limits: Limits, response: httpx2.Response, timeout_s: float) -> None:
        self._limits, self._response, self._timeout_s = limits, response, timeout_s
        self._content = bytearray()
        self._ends_at = limits.clock() + timeout_s

    def take(self, part: bytes) -> None:
        """Raises Unread if it is too much, or too late."""
        limits, most = self._limits, self._limits.settings.remote_max_answer_bytes
        self._content += part
        if len(self._content) > most:
            reason = f"its answer has more than {most:,} bytes (WAYGRAPH_REMOTE_MAX_ANSWER_BYTES)"
            raise Unread(_failed(limits.place, reason))
        if limits.clock() > self._ends_at:
            raise Unread(too_slow(limits.place, self._timeout_s))

    def reply(self) -> Reply:
        headers = {name.lower(): value for name, value in self._response.headers.items()}
        return Reply(self._response.status_code, headers, bytes(self._content))


def too_slow(place: str, limit_s: float) -> Broken:
    return Broken(ServiceUnavailable(place, f"no whole answer within {limit_s:g} s"), sent=True, passing=False)


def _failed(place: str, reason: str) -> Broken:
    return Broken(ServiceFailed(place, reason), sent=True, passing=False)


def _is_cut(error: httpx2.RemoteProtocolError) -> bool:
    """Whether HTTP was spoken, and broken off."""
    return "disconnected" in str(error) or "closed connection" in str(error)


def _root(error: BaseException) -> BaseException:
    while (deeper := error.__cause__ or error.__context__) is not None:
        error = deeper
    return error


def _told(error: BaseException) -> str:
    return str(error) or type(error).__name__
