"""The audit's line of one call: who, which tool, with arguments of which names, how it ended, how long it took."""

import json
from collections.abc import Mapping
from contextlib import AbstractContextManager
from itertools import islice
from typing import TYPE_CHECKING, Any

from waygraph.api.observing.arguments import arguments_without_secrets
from waygraph.api.observing.redaction import without_keys

if TYPE_CHECKING:
    from waygraph.api.mcp.gateway import Gateway
    from waygraph.api.observing.audit import Attempt
    from waygraph.registry.access import Caller

ARGUMENTS_CHARS = 4_000
"""Of the arguments of a call, where they are recorded at all."""
MAX_NAMES, NAME_CHARS = 64, 64
"""So many arguments are named, each by so much of its name."""
TOOL_ERROR = "ToolError"
"""In place of the name of an exception: the tool ran, and told an error."""


def recorded(
    gateway: "Gateway", caller: "Caller", asked: str, arguments: Mapping[str, Any]
) -> "AbstractContextManager[Attempt]":
    """Writes the line when what happens within has ended, however it ended."""
    told = _told(arguments) if gateway.settings.audit_arguments else ""
    return gateway.audit.attempt(caller, "call", asked, parameters=_names(arguments), arguments=told)


def _names(arguments: Mapping[str, Any]) -> list[str]:
    """Of the outermost arguments. A model may name them as it likes, so they are bounded as values are."""
    return [without_keys(name[:NAME_CHARS]) for name in islice(arguments, MAX_NAMES)]


def _told(arguments: Mapping[str, Any]) -> str:
    """JSON, what looks like a secret struck out."""
    return json.dumps(arguments_without_secrets(arguments), ensure_ascii=False)[:ARGUMENTS_CHARS]
