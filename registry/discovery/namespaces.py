"""Which agents a namespace holds: those that its sources claim."""

from typing import TYPE_CHECKING

from waygraph.registry.errors import UnknownName
from waygraph.registry.model import Principal

if TYPE_CHECKING:
    from waygraph.registry.registry import Registry


def agents_of_namespace(registry: "Registry", namespace: str, principal: Principal | None = None) -> frozenset[str]:
    """Ids of at least one agent that the principal may see.

    Raises UnknownName for a namespace without any, as for one that is not there; only those with some are suggested.
    """
    held: dict[str, set[str]] = {}
    for source in registry.sources(principal=principal):
        if source.namespace:
            held.setdefault(source.namespace, set()).update(source.agent_ids)
    if agents := held.get(namespace):
        return frozenset(agents)
    hint = "It is there as soon as a source is ingested with it (`waygraph ingest --namespace`)."
    raise UnknownName("namespace", namespace, (name for name, agents in held.items() if agents), hint=hint)
