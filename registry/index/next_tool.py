"""Which tool is called next, by what was called after what before: P(next | the last two calls). Pure.

Second order backs off to first order, that to tools like the last one, and those to tools that fit behind it: at each
level P = (count + μ P of the level below) / (all counts + μ), the mean of a Dirichlet prior around the level below
(MacKay and Peto, "A Hierarchical Dirichlet Language Model", 1995). At the bottom is nothing: where little was counted
little is said, and what tools leave is said of agents as a whole.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from threading import Lock

from cachetools import LRUCache

from waygraph.registry.access.visibility import Shows, visible
from waygraph.registry.index.call_graph import LEAST_COSINE, CallGraph
from waygraph.registry.model.nouns import Agent, Principal
from waygraph.registry.model.transitions import is_tool, newest, owner_of, weight_at

type Chances = Mapping[str, float]
"""Tool or agent id → its chance, in (0, 1]; together at most 1."""

PRIOR = 2.0
"""μ: so many calls outweigh the level below."""
_MOST_CHANCES = 4_096
"""So many answers are kept."""


class NextTools:
    """Of one revision. Threads may share it."""

    def __init__(self, graph: CallGraph, agents: Mapping[str, Agent], half_life_days: float) -> None:
        self._after: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
        now = newest(graph.transitions)
        for each in graph.transitions:
            weight = weight_at(each.count, each.last_at, now, half_life_days)
            self._after[each.before, each.first][each.next] = weight
        self._agents = agents
        # Of each tool those like it, by nearness in (0, 1]: which of two is counted makes no difference.
        like: dict[str, dict[str, float]] = defaultdict(dict)
        for tool, others in graph.near.items():
            for other, cosine in others.items():
                like[tool][other] = like[other][tool] = (cosine - LEAST_COSINE) / (1 - LEAST_COSINE) or 1e-9
        self._like, self._fits = dict(like), graph.fits
        self._cache: LRUCache[object, Chances] = LRUCache(_MOST_CHANCES)
        self._lock = Lock()

    def follows(self, calls: Sequence[str], principal: Principal | None) -> Chances:
        """As the protocol says."""
        sees = cache(lambda agent_id: agent_id in self._agents and visible(self._agents[agent_id], principal))
        before, last = ("", "", *(call for call in calls if sees(owner_of(call))))[-2:]
        if not last:
            return {}
        key = (None if principal is None else principal.groups, before, last)  # what decides on what is seen
        with self._lock:
            chances = self._cache.get(key)
        if chances is None:
            chances = self._chances(before, last, sees)
            with self._lock:
                self._cache[key] = chances
        return chances

    def _chances(self, before: str, last: str, sees: Shows) -> Chances:
        tools = self._tools(before, last, sees) if is_tool(last) else {}
        rest = 1 - sum(tools.values())
        agents = self._by_counts(owner_of(before), owner_of(last), {}, sees)
        return {**tools, **{agent: rest * chance for agent, chance in agents.items()}}

    def _tools(self, before: str, last: str, sees: Shows) -> Chances:
        fitting = _back_off(self._fits.get(last, {}), {}, sees)
        alike = _back_off(self._of_alike(last, sees), fitting, sees)
        nearest = max((near for _, near in _visible(self._like.get(last, {}), sees)), default=1.0)
        return self._by_counts(before, last, {tool: nearest * chance for tool, chance in alike.items()}, sees)

    def _by_counts(self, before: str, last: str, below: Chances, sees: Shows) -> Chances:
        first_order = _back_off(self._after.get(("", last), {}), below, sees)
        return _back_off(self._after.get((before, last), {}), first_order, sees) if before else first_order

    def _of_alike(self, last: str, sees: Shows) -> Chances:
        """What followed tools like the last one, carried over: to tools like that of the same agent as the last one if
        it was of the same agent there, else to tools like that of others."""
        chances: dict[str, float] = defaultdict(float)
        owner = owner_of(last)
        for model, nearness in _visible(self._like.get(last, {}), sees):
            model_owner = owner_of(model)
            for following, count in _visible(self._after.get(("", model), {}), sees):
                stays = owner_of(following) == model_owner
                like = {following: 1.0, **dict(_visible(self._like.get(following, {}), sees))}
                fit = {tool: near for tool, near in like.items() if (owner_of(tool) == owner) == stays}
                total = sum(fit.values())
                for tool, near in fit.items():
                    chances[tool] += nearness * count * near / total
        return chances


def _back_off(counts: Chances, below: Chances, sees: Shows) -> Chances:
    visible_counts = dict(_visible(counts, sees))
    total = sum(visible_counts.values()) + PRIOR
    return {
        name: (visible_counts.get(name, 0.0) + PRIOR * below.get(name, 0.0)) / total
        for name in {**visible_counts, **below}
    }


def _visible(chances: Chances, sees: Shows) -> Iterable[tuple[str, float]]:
    return [pair for pair in chances.items() if sees(owner_of(pair[0]))]
