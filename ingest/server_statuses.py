"""Whether servers answer, written of the agents that they are in the registry."""

from collections.abc import Mapping
from dataclasses import replace

from waygraph.registry.changes import Manifest, SyncReport
from waygraph.registry.registry import Registry
from waygraph.registry.statuses import continued

Member = tuple[str, str]
"""A server as its source names it: the source's name, and the key there."""


def put_statuses(registry: Registry, statuses: Mapping[Member, str]) -> int:
    """Of those that the registry holds; a server that never answered is none yet. Gives the revision; 0: unchanged."""
    summaries = registry.sources() if registry.exists else []
    ids = {(source.name, key): agent_id for source in summaries for key, agent_id in source.claims}
    said = {ids[member]: status for member, status in statuses.items() if member in ids}
    held = {agent.id: agent.status for agent in registry.agents()} if said else {}
    now = {agent_id: continued(held[agent_id], status) for agent_id, status in said.items() if agent_id in held}
    changed = {agent_id: status for agent_id, status in now.items() if status != held[agent_id]}
    return registry.put_statuses(changed).revision if changed else 0


def with_statuses(registry: Registry, manifest: Manifest, report: SyncReport) -> SyncReport:
    """The report of the sync of a manifest, after the statuses of the servers that did not answer were put."""
    revision = put_statuses(registry, {(manifest.source, key): status for key, status in manifest.silent})
    return replace(report, revision=revision) if revision else report
