"""The audit's line of one call: who, which tool, how it ended, how long it took."""

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from waygraph.api.observing.arguments import arguments_without_secrets
from waygraph.api.observing.audit import REFUSED, Outcome
from waygraph.api.observing.redaction import without_keys

if TYPE_CHECKING:
    from waygraph.api.mcp.gateway import Gateway
    from waygraph.registry.access import Caller

ARGUMENTS_CHARS = 4_000
"""Of the arguments of a call, where they are recorded at all."""
MAX_NAMES, NAME_CHARS = 64, 64
"""So many arguments are named, each by so much of its name."""
TOOL_ERROR = "ToolError"
"""In place of the name of an exception: the tool ran, and told an error."""


@dataclass(slots=True)
class Line:
    """`target`: what was asked for, and the tool's id as soon as it is known."""

    target: str
    is_tool_error: bool = False


@contextmanager
def recorded(gateway: "Gateway", caller: "Caller", asked: str, arguments: Mapping[str, Any]) -> Iterator[Line]:
    """Writes the line when what happens within has ended, however it ended."""
    started, line = time.perf_counter(), Line(asked)
    outcome: Outcome = "ok"
    error = ""
    try:
        yield line
        if line.is_tool_error:
            outcome, error = "failed", TOOL_ERROR
    except BaseException as exc:
        outcome, error = "refused" if isinstance(exc, REFUSED) else "failed", type(exc).__name__
        raise
    finally:
        took_ms = round((time.perf_counter() - started) * 1000, 3)
        told = _told(arguments) if gateway.settings.audit_arguments else ""
        names = _names(arguments)
        gateway.audit.record(
            caller,
            "call",
            line.target,
            outcome,
            parameters=names,
            error=error,
            duration_ms=took_ms,
            arguments=told,
        )


def _names(arguments: Mapping[str, Any]) -> list[str]:
    """Of the outermost arguments. A model may name them as it likes, so they are bounded as values are."""
    return [without_keys(name[:NAME_CHARS]) for name in islice(arguments, MAX_NAMES)]


def _told(arguments: Mapping[str, Any]) -> str:
    """JSON, what looks like a secret struck out."""
    return json.dumps(arguments_without_secrets(arguments), ensure_ascii=False)[:ARGUMENTS_CHARS]
