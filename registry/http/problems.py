"""Errors as problem details (RFC 9457), and back: a client raises what the service met.

A problem's `code` is the error's name (`unknown-name`); what the error knows stands under `facts`.
"""

import re
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any, TypedDict

from waygraph.registry.model import errors
from waygraph.registry.model.errors import ServiceFailed, WaygraphError

MEDIA_TYPE = "application/problem+json"
TYPE_PREFIX = "urn:waygraph:problem:"
_OWN_FAULTS = (
    errors.CopyDiffers, errors.EmbedderRefused, errors.EngineError, errors.KeysUnusable, errors.LanguageModelRefused,
    errors.RegistryClosed, errors.RegistryUnusable, errors.ServerRefused, errors.StorageFailed,
)  # fmt: skip


class Problem(TypedDict):
    """RFC 9457. `code` names the kind of error, `facts` is what it knows; `instance` finds it in the service's log."""

    type: str
    title: str
    status: int
    detail: str
    instance: str
    code: str
    retryable: bool
    """Whether the same request may succeed later, unchanged."""
    facts: dict[str, Any]


def code_of(kind: type[BaseException]) -> str:
    """`UnknownName` → `unknown-name`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "-", kind.__name__).lower()


def is_own_fault(error: WaygraphError) -> bool:
    """Whether it is of our own side, so that who asks from outside is told no more than that, and the log all of it."""
    return isinstance(error, _OWN_FAULTS) and not isinstance(error, errors.NotPublished)


def public_problem(error: WaygraphError, status: int, instance: str) -> Problem:
    """The problem without where our files lie: of a path the name is told."""
    problem = problem_of(error, status, instance)
    path = problem["facts"].get("path")
    if not path:
        return problem
    name = PurePath(path).name
    return {**problem, "detail": problem["detail"].replace(path, name), "facts": {**problem["facts"], "path": name}}


def problem_of(error: WaygraphError, status: int, instance: str) -> Problem:
    facts = {name: _plain(value) for name, value in vars(error).items()}
    # A narrower kind that one module keeps to itself is told as the public one that it is.
    kind = next(kind for kind in type(error).__mro__ if kind.__module__ == errors.__name__)
    return problem(status, code_of(kind), str(error), instance, retryable=error.retryable, facts=facts)


def problem(
    status: int,
    code: str,
    detail: str,
    instance: str,
    *,
    retryable: bool = False,
    facts: Mapping[str, Any] | None = None,
) -> Problem:
    """One that no error of ours stands for, such as a path that is not there."""
    return {
        "type": TYPE_PREFIX + code,
        "title": code.replace("-", " ").capitalize(),
        "status": status,
        "detail": detail,
        "instance": instance,
        "code": code,
        "retryable": retryable,
        "facts": dict(facts or {}),
    }


def error_of(problem: Mapping[str, Any], place: str) -> WaygraphError:
    """The error that a problem stands for, its facts as attributes; ServiceFailed for one that is not known."""
    kind = _KINDS.get(str(problem.get("code")))
    detail = str(problem.get("detail") or problem.get("title") or "no reason given")
    if kind is None:
        return ServiceFailed(place, detail)
    error = kind.__new__(kind)
    error.args = (detail,)
    facts = problem.get("facts")
    for name, value in facts.items() if isinstance(facts, Mapping) else ():
        if not name.startswith("_") and not hasattr(error, name):  # nothing that an error is or does of itself
            setattr(error, name, tuple(value) if isinstance(value, list) else value)
    return error


def _plain(value: object) -> object:
    if isinstance(value, (tuple, list, set, frozenset)):
        return [_plain(each) for each in value]
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    return value if isinstance(value, (bool, int, float, str, type(None))) else str(value)


_KINDS = {
    code_of(kind): kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, WaygraphError)
}
