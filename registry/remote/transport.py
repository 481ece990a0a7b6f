"""Calls sent over HTTP, again where that is safe; and what a reply means."""

import random
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from importlib.metadata import version
from typing import Any

import httpx2

from waygraph.registry.http.client import TooMuch, TooSlow, Undecodable, decode_body, http_client, wait_s, whole_body
from waygraph.registry.http.problems import MEDIA_TYPE, error_of
from waygraph.registry.model import errors
from waygraph.registry.model.settings import Settings
from waygraph.registry.remote.calls import Call, Reply
from waygraph.registry.storage.location import ServiceAddress, api_key

CONNECT_TIMEOUT_S = 5.0
POOL_SIZE = 32
"""Connections that are kept to a service."""
RETRY_S = 15.0
"""After that a call is not sent again."""
MAX_ANSWER_BYTES = 256 * 1024 * 1024
NOT_TAKEN = frozenset({"invalid-request", "too-large"})
"""Codes of problems for a request that is not as it must be."""
HERE = "Here that is WAYGRAPH_API_KEY: set it to a key of the service, or to a token"
OF_GATEWAYS = frozenset({502, 503, 504})
"""Statuses by which a service, or what stands before it, says that it may answer another time."""


@dataclass(frozen=True, slots=True)
class FailedCall:
    """That there is no reply, and why.

    `sent`: the service may have got the call. `passing`: the reason may be gone in a moment.
    """

    error: errors.ServiceError
    sent: bool
    passing: bool


def answer_of[T](call: Call[T], outcome: Reply | FailedCall, place: str) -> T:
    """Raises the error that the service met; ServiceUnavailable, ServiceFailed."""
    if isinstance(outcome, FailedCall):
        raise outcome.error
    if outcome.status not in (HTTPStatus.OK, HTTPStatus.ACCEPTED):
        raise _error(call, outcome, place)
    try:
        return call.read(outcome)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as exc:
        raise errors.ServiceFailed(place, f"what it answers to {call.method} {call.path} is of another shape") from exc


def problem_in(reply: Reply) -> Mapping[str, Any] | None:
    """The problem details of a reply; None if it holds none."""
    if reply.headers.get("content-type", "").partition(";")[0].strip() != MEDIA_TYPE:
        return None
    try:
        document = reply.json()
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def _error(call: Call[Any], reply: Reply, place: str) -> errors.WaygraphError:
    problem = problem_in(reply)
    if problem is None:
        return stranger(reply.status, place)
    if problem.get("code") in NOT_TAKEN:
        return call.refused(f"{place} does not take this: {problem.get('detail')}")
    error = error_of(problem, place)
    if isinstance(error, errors.NotAuthenticated):
        return errors.NotAuthenticated(f"{error}. {HERE}")
    if isinstance(error, errors.ServiceFailed) and problem.get("retryable") is True:
        return errors.ServiceUnavailable(place, str(problem.get("detail")))
    return error


def stranger(status: int, place: str) -> errors.WaygraphError:
    """For an answer that no service of ours gives."""
    is_standard = status in HTTPStatus
    reason = f"it answers {status}{f' ({HTTPStatus(status).phrase})' if is_standard else ''}"
    if status in OF_GATEWAYS or status == HTTPStatus.TOO_MANY_REQUESTS:
        return errors.ServiceUnavailable(place, reason)
    if 300 <= status < 400:
        return errors.ServiceFailed(
            place, f"{reason}; redirects are not followed: give the address where the service is"
        )
    return errors.ServiceFailed(place, f"{reason}, and not as a Waygraph service does; is this its address?")


type Clock = Callable[[], float]
"""Seconds that only grow."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Of the calls of one place. `place` is its URL."""

    place: str
    settings: Settings
    clock: Clock

    def timeout_s(self, call: Call[Any]) -> float:
        return self.settings.remote_write_timeout_s if call.slow else self.settings.remote_timeout_s

    def failed_call(self, call: Call[Any], error: httpx2.HTTPError | httpx2.InvalidURL) -> FailedCall:
        """What an error says of the call. Raises InvalidQuery for an address that is too long."""
        match error:
            case httpx2.InvalidURL():
                raise errors.InvalidQuery(f"more is asked for than an address can hold: {error}") from error
            case Undecodable():
                return _failure(self.place, str(error))
            case httpx2.ConnectTimeout() | httpx2.ConnectError() | httpx2.ProxyError() | httpx2.PoolTimeout():
                return self._unsent(error)
            case httpx2.TimeoutException():
                return too_slow(self.place, self.timeout_s(call))
            case httpx2.RemoteProtocolError() if not any(sign in str(error) for sign in _CUT):
                return _failure(self.place, "it does not speak HTTP")
            case httpx2.NetworkError() | httpx2.RemoteProtocolError():
                reason = f"the connection broke ({_error_text(error)})"
                return FailedCall(errors.ServiceUnavailable(self.place, reason), sent=True, passing=True)
        # The message of such an error may quote what was sent.
        return _failure(self.place, f"it cannot be asked ({type(error).__name__})")

    def _unsent(self, error: httpx2.HTTPError) -> FailedCall:
        """No connection came about."""
        passing = True
        match error:
            case httpx2.ConnectTimeout():
                reason = f"no connection within {CONNECT_TIMEOUT_S:g} s"
            case httpx2.PoolTimeout():
                reason = f"all {POOL_SIZE} connections are in use"
                passing = False
            case _:
                reason = _error_text(error)
                passing = not isinstance(_root(error), ssl.SSLError)  # no certificate is trusted the next time
        return FailedCall(errors.ServiceUnavailable(self.place, reason), sent=False, passing=passing)


def too_slow(place: str, limit_s: float) -> FailedCall:
    return FailedCall(
        errors.ServiceUnavailable(place, f"no whole answer within {limit_s:g} s"), sent=True, passing=False
    )


def _failure(place: str, reason: str) -> FailedCall:
    return FailedCall(errors.ServiceFailed(place, reason), sent=True, passing=False)


_CUT = ("disconnected", "closed connection")
"""Signs of an error that HTTP was spoken, and broken off."""


def _root(error: BaseException) -> BaseException:
    while (deeper := error.__cause__ or error.__context__) is not None:
        error = deeper
    return error


def _error_text(error: BaseException) -> str:
    return str(error) or type(error).__name__


# Whether a call is sent again, and when.
#
# A call that changes nothing is sent again after whatever may pass: a connection refused or broken, 502, 503, 504, 429.
# One that writes only where nothing was done for certain:
# - no connection came about, so that nothing was sent;
# - 429: a service counts a request before it looks at it, as does what stands before one;
# - 503 with the problem `registry-locked` or `service-busy`: the writer never got its turn.
# After anything else a write may have been done, as when the connection broke: then its caller has to look.
# No answer in time is told at once, for reads too: a service that is too slow is not helped by another request.


_NOTHING_DONE = frozenset({"registry-locked", "service-busy"})
_TOO_MANY = 429
_JITTER_SHARE = 0.25
"""So much longer than asked is waited, at most: many who are told the same do not come back as one."""


class Attempts:
    """Of one call, made when it is first sent: as often again as `remote_retries` says, within RETRY_S."""

    def __init__(self, call: Call[Any], limits: Limits, jitter: "Jitter") -> None:
        self._call, self._limits, self._jitter = call, limits, jitter
        self._failed = 0
        self._ends_at = limits.clock() + RETRY_S

    def wait_s(self, outcome: Reply | FailedCall) -> float | None:
        """How long to wait before the call is sent again; None: it is not."""
        if self._failed >= self._limits.settings.remote_retries or not may_be_sent_again(self._call, outcome):
            return None
        retry_after = outcome.headers.get("retry-after") if isinstance(outcome, Reply) else None
        pause_s = wait_s(self._failed, retry_after, self._jitter)
        if retry_after is not None:
            pause_s *= 1 + _JITTER_SHARE * self._jitter()
        self._failed += 1
        return pause_s if self._limits.clock() + pause_s <= self._ends_at else None


def may_be_sent_again(call: Call[Any], outcome: Reply | FailedCall) -> bool:
    if isinstance(outcome, FailedCall):
        return outcome.passing and (call.safe or not outcome.sent)
    if outcome.status == _TOO_MANY:
        return True
    if outcome.status not in OF_GATEWAYS:
        return False
    problem = problem_in(outcome)
    if call.safe:
        return problem is None or problem.get("retryable") is True
    return problem is not None and problem.get("code") in _NOTHING_DONE


type Jitter = Callable[[], float]
"""A number in [0, 1)."""


class Connection:
    """To one service, over at most POOL_SIZE sockets. Threads may share it. `sleep` takes seconds."""

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
        self._limits, self._sleep, self._jitter = Limits(address.url, settings, clock), sleep, jitter
        self._client = http_client(httpx2.Client, **client_options(address, settings))

    def ask[T](self, call: Call[T]) -> T:
        """Raises the error that the service met; ServiceUnavailable, ServiceFailed, RegistryClosed."""
        attempts = Attempts(call, self._limits, self._jitter)
        while True:
            outcome = self._send(call)
            pause_s = attempts.wait_s(outcome)
            if pause_s is None:
                return answer_of(call, outcome, self.place)
            self._sleep(pause_s)

    def close(self) -> None:
        self._client.close()

    def _send(self, call: Call[Any]) -> Reply | FailedCall:
        if self._client.is_closed:
            raise errors.RegistryClosed
        limits, timeout_s, body = self._limits, self._limits.timeout_s(call), call.body
        try:
            with self._client.stream(
                call.method,
                f"{self.place}{call.target}",
                content=body,
                headers={} if body is None else {"Content-Type": "application/json"},
                timeout=httpx2.Timeout(timeout_s, connect=CONNECT_TIMEOUT_S),
            ) as response:
                decode_body(response)
                ends_at = limits.clock() + timeout_s  # httpx2's own limit of time is for each read
                parts = response.iter_raw()
                content = whole_body(parts, most_bytes=MAX_ANSWER_BYTES, ends_at=ends_at, clock=limits.clock)
                return Reply(response.status_code, dict(response.headers), content)
        except TooMuch:
            return _failure(self.place, f"its answer has more than {MAX_ANSWER_BYTES:,} bytes")
        except TooSlow:
            return too_slow(self.place, timeout_s)
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            return limits.failed_call(call, error)


def client_options(address: ServiceAddress, settings: Settings) -> dict[str, Any]:
    """What httpx2 takes, for how a service is spoken to: key, certificates, proxies, sockets. Raises InvalidSetting."""
    try:
        httpx2.URL(address.url)
    except httpx2.InvalidURL as exc:
        raise errors.InvalidSetting(f"{address.url} is no URL: {exc}") from exc
    key = api_key(address, settings)
    headers = {
        "Accept-Encoding": "identity",  # so that a limit of bytes is one
        "User-Agent": f"waygraph/{version('waygraph')}",
        **({"Authorization": f"Bearer {key}"} if key else {}),
    }
    return {
        "headers": headers,
        "verify": _certificates(settings.remote_ca_file),
        "trust_env": not address.is_local,  # no proxy stands between a machine and itself
        "limits": httpx2.Limits(max_connections=POOL_SIZE, max_keepalive_connections=POOL_SIZE),
        "follow_redirects": False,  # the key is for this place alone
    }


def _certificates(file: str) -> ssl.SSLContext | bool:
    """True: the system's."""
    if not file:
        return True
    try:
        return ssl.create_default_context(cafile=file)
    except OSError as exc:
        raise errors.InvalidSetting(
            f"WAYGRAPH_REMOTE_CA_FILE {file} holds no certificates: {exc.strerror or exc}"
        ) from exc
