"""What a reply means: the answer of a call, or the error that the service met."""

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from waygraph.registry.http.problems import MEDIA_TYPE, error_of
from waygraph.registry.model.errors import (
    NotAuthenticated,
    ServiceError,
    ServiceFailed,
    ServiceUnavailable,
    WaygraphError,
)
from waygraph.registry.remote.calls import Call, Reply

NOT_TAKEN = frozenset({"invalid-request", "too-large"})
"""Codes of problems for a request that is not as it must be."""
HERE = "Here that is WAYGRAPH_API_KEY: set it to a key of the service, or to a token"
OF_GATEWAYS = frozenset({502, 503, 504})
"""Statuses by which a service, or what stands before it, says that it may answer another time."""


@dataclass(frozen=True, slots=True)
class Broken:
    """That there is no reply, and why.

    `sent`: the service may have got the call. `passing`: the reason may be gone in a moment.
    """

    error: ServiceError
    sent: bool
    passing: bool


def answer_of[T](call: Call[T], seen: Reply | Broken, place: str) -> T:
    """Raises the error that the service met; ServiceUnavailable, ServiceFailed."""
    if isinstance(seen, Broken):
        raise seen.error
    if seen.status != HTTPStatus.OK:
        raise _error(call, seen, place)
    try:
        return call.read(seen)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as exc:
        raise ServiceFailed(place, f"what it answers to {call.method} {call.path} is of another shape") from exc


def problem_in(reply: Reply) -> Mapping[str, Any] | None:
    """The problem details of a reply; None if it holds none."""
    if reply.headers.get("content-type", "").partition(";")[0].strip() != MEDIA_TYPE:
        return None
    try:
        told = reply.json()
    except (ValueError, RecursionError):
        return None
    return told if isinstance(told, dict) else None


def _error(call: Call[Any], reply: Reply, place: str) -> WaygraphError:
    problem = problem_in(reply)
    if problem is None:
        return stranger(reply.status, place)
    if problem.get("code") in NOT_TAKEN:
        return call.refused(f"{place} does not take this: {problem.get('detail')}")
    error = error_of(problem, place)
    if isinstance(error, NotAuthenticated):
        return NotAuthenticated(f"{error}. {HERE}")
    if isinstance(error, ServiceFailed) and problem.get("retryable") is True:
        return ServiceUnavailable(place, str(problem.get("detail")))
    return error


def stranger(status: int, place: str) -> WaygraphError:
    """For an answer that no service of ours gives."""
    known = status in HTTPStatus
    seen = f"it answers {status}{f' ({HTTPStatus(status).phrase})' if known else ''}"
    if status in OF_GATEWAYS or status == HTTPStatus.TOO_MANY_REQUESTS:
        return ServiceUnavailable(place, seen)
    if 300 <= status < 400:
        return ServiceFailed(place, f"{seen}; redirects are not followed: give the address where the service is")
    return ServiceFailed(place, f"{seen}, and not as a Waygraph service does; is this its address?")
