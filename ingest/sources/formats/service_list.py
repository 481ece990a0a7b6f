"""A2X's `service.json`: flat services, each an agent without tools, in any language.

A service's `inputSchema` is a flat map of properties and no JSON Schema, and nothing says how it is called: no tool.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from waygraph.ingest.manifest.fields import mostly
from waygraph.ingest.manifest.records import AgentRecord, Intake, shape_of

SHAPE = '[{"id": …, "type": "generic", "name": …, "description": …, "metadata": {…}}]'


def fits(document: Any) -> bool:
    return mostly(document, is_service)


def read(document: Any, where: str, intake: Intake) -> Iterator[AgentRecord]:  # noqa: ARG001
    for number, service in enumerate(document):
        pointer = f"/{number}"
        if not isinstance(service, Mapping):
            intake.reject_agent(pointer, f"expected a service object, found {shape_of(service)}")
            continue
        yield record(service, pointer)


def record(service: Mapping[str, Any], pointer: str) -> AgentRecord:
    """The agent that a service is, here and in an evaluation."""
    return AgentRecord(
        pointer=pointer,
        key=service.get("id"),
        name=service.get("name") or "",
        description=service.get("description"),
        kind="custom",
    )


def is_service(entry: Any) -> bool:
    """With `type` a2a it is an agent card, which says more."""
    return (
        isinstance(entry, Mapping)
        and isinstance(entry.get("id"), str)
        and isinstance(entry.get("metadata"), Mapping)
        and entry.get("type") == "generic"
    )
