"""What there is to find, in numbers: never the list."""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from waygraph.registry.model import Filters, Principal, is_doubtful
from waygraph.registry.statuses import reachable

if TYPE_CHECKING:
    from waygraph.registry.changes import SourceSummary
    from waygraph.registry.pages import Listed
    from waygraph.registry.registry import Registry

TAGS, SOURCES = 20, 15
"""The most frequent, so many of each."""
TAG_CHARS = 40


def overview(registry: "Registry", principal: Principal | None, agent_ids: frozenset[str] | None) -> dict[str, Any]:
    """Of what this caller may find: `tools`, `agents` by kind, `sources` and `tags` with the number of their agents,
    the most frequent first; `waiting` and `unreachable` count agents, where there are such.
    """
    listed = _listed(registry, principal, agent_ids)
    ready = [each for each in listed if not each.agent.pending]
    seen = {each.agent.id for each in listed}
    sources = registry.sources(principal=principal)
    held_back = _held_back(registry, principal, sources)
    told: dict[str, Any] = {
        "tools": sum(each.tools - held_back[each.agent.id] for each in ready),
        "agents": _ordered(Counter(each.agent.kind for each in ready)),
        "sources": _ordered(_claimed(sources, seen), SOURCES),
        "tags": _ordered(_tags(ready), TAGS),
        "waiting": len(listed) - len(ready),
        "unreachable": sum(not reachable(each.agent.status) for each in ready),
    }
    return {key: value for key, value in told.items() if value or key == "tools"}


def _tags(listed: "Sequence[Listed]") -> Counter[str]:
    """Of agents whose text is in doubt none: a model reads them."""
    trusted = (each.agent for each in listed if not is_doubtful(each.agent))
    return Counter(tag[:TAG_CHARS] for agent in trusted for tag in agent.tags)


def _listed(registry: "Registry", principal: Principal | None, agent_ids: frozenset[str] | None) -> "Sequence[Listed]":
    if agent_ids is not None and not agent_ids:
        return ()
    filters = Filters(agent_ids=tuple(sorted(agent_ids or ())))
    page = registry.agents_page(filters=filters, principal=principal)
    return [each for each in page.items if not each.agent.hidden]


def _held_back(registry: "Registry", principal: Principal | None, sources: "Iterable[SourceSummary]") -> Counter[str]:
    """How many tools of each agent wait. Tools are listed only where any does."""
    if not any(source.standing and source.standing.pending_tools for source in sources):
        return Counter()
    return Counter(tool.agent_id for tool in registry.tools(principal=principal) if tool.pending)


def _claimed(sources: "Iterable[SourceSummary]", seen: set[str]) -> Counter[str]:
    claimed: Counter[str] = Counter()
    for source in sources:
        if agents := len(seen.intersection(source.agent_ids)):
            claimed[_told(source.name)] += agents
    return claimed


def _told(source: str) -> str:
    """A file's place on this machine is nothing to a model: its name alone."""
    return PurePath(source).name if PurePath(source).is_absolute() else source


def _ordered(counted: Counter[Any], most: int | None = None) -> dict[str, int]:
    """The most frequent first, then by name."""
    return dict(sorted(counted.items(), key=lambda pair: (-pair[1], pair[0]))[:most])
