"""What routing knows of calls in a row, of one revision: counts, tools that are alike, tools that fit behind others.
And by that which tool is called next.

A caller must learn nothing of what it may not see, also not by what is missing: where only the best are kept, they are
kept of each class of visibility, so that no tool takes the place of one that somebody sees without it.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from functools import cache, cached_property
from itertools import batched
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from waygraph.registry.access.visibility import Shows, visible
from waygraph.registry.index.search_index import AnswerCache
from waygraph.registry.model.nouns import Agent, JsonText, Principal, parse_field
from waygraph.registry.model.transitions import (
    HALF_LIFE_DAYS,
    Partner,
    Transition,
    is_tool,
    newest,
    owner_of,
    weight_at,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Matrix = NDArray[np.float32]


type Alike = Mapping[str, Mapping[str, float]]
"""Tool id → tool id → how much, in (0, 1]."""

MOST_ALIKE = 8
"""So many are kept of a tool, of each class of visibility."""
LEAST_COSINE = 0.5
"""Tools whose texts are less alike are not alike."""
MOST_COUNTED = 2_000
"""Of so many tools, those that are counted the most, it is known which are like them."""
_AT_ONCE = 64
_MOST_INPUTS = 64
_SAY_NOTHING = frozenset({"", "id", "name", "type", "text", "query", "result", "results", "status", "data", "value"})
"""Names of parameters by which no two tools belong together."""


class CallGraph(NamedTuple):
    """`near`: of tools that are counted. `fits` gives of a tool how much of each other one's required inputs its output
    holds, as `fits_of`.
    """

    transitions: Sequence[Transition] = ()
    near: Alike = MappingProxyType({})
    fits: Callable[[str], Mapping[str, float]] = lambda tool_id: {}  # noqa: ARG005 - of any tool


def usable_transitions(transitions: Iterable[Transition], ids: Collection[str] | None = None) -> list[Transition]:
    """Without those that are damaged, or tell of what is not among `ids`."""
    return [each for each in transitions if each.is_sound and (ids is None or all(name in ids for name in each.ids))]


def counted_tools(transitions: Iterable[Transition]) -> list[str]:
    """Tools by how much they are counted, at most `MOST_COUNTED`; equal ones by id."""
    counts: Counter[str] = Counter()
    for each in transitions:
        if each.is_of_tools and not each.before:
            for name in filter(None, (each.first, each.next)):
                counts[name] += each.count  # type: ignore[assignment]  # weights, not whole numbers
    return sorted(counts, key=lambda name: (-counts[name], name))[:MOST_COUNTED]


def near_tools(ids: Sequence[str], vectors: "Matrix", tool_ids: Iterable[str], agents: Mapping[str, Agent]) -> Alike:
    """The tools like each that is counted, by cosine. `vectors`: float32 of shape (len(ids), dimension), rows of
    length 1 or 0."""
    import numpy as np

    rows = {tool: row for row, tool in enumerate(ids)}
    numbers = dict[Hashable, int]()
    audiences = np.asarray([numbers.setdefault(_audience(agents[owner_of(each)]), len(numbers)) for each in ids], int)
    alike: dict[str, Mapping[str, float]] = {}
    for batch in batched(tool_ids, _AT_ONCE):
        for tool, cosines in zip(batch, vectors[[rows[tool] for tool in batch]] @ vectors.T, strict=True):
            cosines[rows[tool]] = 0.0
            near = np.flatnonzero(cosines >= LEAST_COSINE)
            near = near[np.argsort(-cosines[near], kind="stable")]
            near = near[_first_of_each(audiences[near])]
            alike[tool] = {ids[row]: round(float(cosines[row]), 4) for row in near.tolist()}
    return {tool: near for tool, near in alike.items() if near}


def _first_of_each(classes: "NDArray[np.int64]") -> "NDArray[np.int64]":
    """The places of the first `MOST_ALIKE` of each class, in order. `classes`: of shape (rows,)."""
    import numpy as np

    by_class = np.argsort(classes, kind="stable")
    in_order = classes[by_class]
    return np.sort(by_class[np.arange(len(classes)) - np.searchsorted(in_order, in_order) < MOST_ALIKE])


def fits_of(takers: Iterable[tuple[str, int]], agents: Mapping[str, Agent]) -> dict[str, float]:
    """Of one tool. `takers`: for each name that it gives the tools that require it, and how many they require."""
    shares = [(tool, count / needs) for (tool, needs), count in Counter(takers).items()]
    return keep_best(sorted(shares, key=lambda pair: (-pair[1], pair[0])), agents)


def keep_best(ranking: Iterable[tuple[str, float]], agents: Mapping[str, Agent]) -> dict[str, float]:
    """The first `MOST_ALIKE` of each class of visibility."""
    counts: Counter[Hashable] = Counter()
    best: dict[str, float] = {}
    for tool, share in ranking:
        audience = _audience(agents[owner_of(tool)])
        if counts[audience] < MOST_ALIKE:
            counts[audience] += 1
            best[tool] = round(share, 4)
    return best


def _audience(owner: Agent) -> Hashable:
    """Its class of visibility."""
    return owner.hidden, owner.visible_to


def given_names(output_schema: JsonText) -> set[str]:
    """Of what a schema describes, at the top or of a list's items; folded."""
    schema = parse_field(output_schema)
    items = schema.get("items") if isinstance(schema, Mapping) else None
    parts = [part.get("properties") for part in (schema, items) if isinstance(part, Mapping)]
    return {fold_name(name) for part in parts if isinstance(part, Mapping) for name in part} - _SAY_NOTHING


def required_names(input_schema: JsonText) -> set[str]:
    """Of the parameters that a schema requires; folded."""
    schema = parse_field(input_schema)
    values = schema.get("required") if isinstance(schema, Mapping) else None
    names = [name for name in values if isinstance(name, str)] if isinstance(values, list) else []
    return {fold_name(name) for name in names[:_MOST_INPUTS]} - _SAY_NOTHING


def fold_name(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()  # as `toLower` of Cypher does


type Chances = Mapping[str, float]
"""Tool or agent id → its chance, in (0, 1]; together at most 1."""

PRIOR = 2.0
"""μ: so many calls outweigh the level below."""
LEAST_CHANCE = 0.001
"""A smaller one is not told: of a large registry nearly all are."""
LEAST_TOGETHER = 1.5
"""Of a pair that was counted less often nothing is said: once is chance, and a count fades."""
LEAST_SHARE = 0.1
"""Of the calls of a tool: what comes with it less often is not called beside it."""
_MOST_CHANCES = 4_096
"""So many answers are kept."""


class NextTools:
    """P(next | the last two calls), of one revision. Threads may share it.

    Second order backs off to first order, that to tools like the last one, those to tools that fit behind it, and those
    to how often a tool is called at all. Before the first call what begins conversations stands in place of orders. At
    each level P = (count + μ P of the level below) / (all counts + μ), the mean of a Dirichlet prior around the level
    below (MacKay and Peto, "A Hierarchical Dirichlet Language Model", 1995). Below all is nothing: where little was
    counted little is said, and what tools leave is said of agents as a whole. How often a tool is called at all counts
    as far as the calls of the conversation are among those that were counted: other tools have other users.
    """

    def __init__(self, graph: CallGraph, agents: Mapping[str, Agent], half_life_days: float = HALF_LIFE_DAYS) -> None:
        self._after: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
        self._beginnings: dict[bool, dict[str, float]] = {True: {}, False: {}}  # by whether it is of tools
        self.is_counted = bool(graph.transitions)
        now = newest(graph.transitions)
        for each in graph.transitions:
            weight = weight_at(each.count, each.last_at, now, half_life_days)
            after = self._after[each.before, each.first] if each.first else self._beginnings[each.is_of_tools]
            after[each.next] = weight
        self._agents = agents
        # Of each tool those like it, by nearness in (0, 1]: which of two is counted makes no difference.
        like: dict[str, dict[str, float]] = defaultdict(dict)
        for tool, others in graph.near.items():
            for other, cosine in others.items():
                like[tool][other] = like[other][tool] = (cosine - LEAST_COSINE) / (1 - LEAST_COSINE) or 1e-9
        self._like, self._fits = dict(like), graph.fits
        self._cache = AnswerCache[Chances](_MOST_CHANCES)

    def follows(self, calls: Sequence[str], principal: Principal | None) -> Chances:
        """As the protocol says."""
        sees = cache(lambda agent_id: agent_id in self._agents and visible(self._agents[agent_id], principal))
        visible_calls = [call for call in calls if sees(owner_of(call))]
        before, last = ("", "", *visible_calls)[-2:]
        audience = None if principal is None else principal.groups  # what decides on what is seen
        if (uses := self._cache.get(audience)) is None:
            uses = self._cache.keep(audience, _likely(self._uses(sees)))
        share = sum(owner_of(call) in uses for call in visible_calls) / len(visible_calls) if visible_calls else 1.0
        chances_key = (audience, before, last, share)
        if (chances := self._cache.get(chances_key)) is None:
            chances = self._cache.keep(chances_key, _likely(self._chances(before, last, share, uses, sees)))
        return chances

    def partners(self, tools: Sequence[str], principal: Principal | None) -> Mapping[str, Partner]:
        """As the protocol says."""
        sees = cache(lambda agent_id: agent_id in self._agents and visible(self._agents[agent_id], principal))
        best: dict[str, Partner] = {}
        for tool in tools:
            counts: Counter[str] = Counter()
            for partner, between, count in self._pairs.get(tool, ()):
                if sees(owner_of(partner)) and (not between or sees(owner_of(between))):
                    counts[partner] += count  # type: ignore[assignment]  # no whole numbers
            calls = sum(count for first, count in self._calls.get(tool, ()) if not first or sees(owner_of(first)))
            for partner, count in counts.items():
                share = min(count, calls) / (calls + PRIOR)
                if count >= LEAST_TOGETHER and share > (best[partner].share if partner in best else LEAST_SHARE):
                    best[partner] = Partner(tool, share, min(count, calls), calls)
        return best

    @cached_property
    def _pairs(self) -> Mapping[str, list[tuple[str, str, float]]]:
        """Tool → what one conversation called with it, at most one call between, which is told; and how often."""
        pairs: dict[str, list[tuple[str, str, float]]] = defaultdict(list)
        for (before, first), after in self._after.items():
            for following, count in after.items():
                one, between = (before, first) if before else (first, "")
                if one != following and is_tool(following):
                    pairs[one].append((following, between, count))
                    pairs[following].append((one, between, count))
        return pairs

    @cached_property
    def _calls(self) -> Mapping[str, list[tuple[str, float]]]:
        """Tool → what was called right before it, and how often; empty where it was the first."""
        calls: dict[str, list[tuple[str, float]]] = defaultdict(list)
        firsts = ((first, after) for (before, first), after in self._after.items() if not before)
        for first, after in [("", self._beginnings[True]), *firsts]:
            for following, count in after.items():
                calls[following].append((first, count))
        return calls

    def _uses(self, sees: Shows) -> Chances:
        """How often tools are called at all, and agents; not after what is hidden."""
        counts: dict[bool, Counter[str]] = {True: Counter(), False: Counter()}
        followings = [(first, after) for (before, first), after in self._after.items() if not before]
        for first, after in [*followings, *(("", each) for each in self._beginnings.values())]:
            if not first or sees(owner_of(first)):
                for name, weight in after.items():
                    counts[is_tool(name)][name] += weight  # type: ignore[assignment]  # no whole numbers
        return {**_back_off(counts[True], {}, sees), **_back_off(counts[False], {}, sees)}

    def _chances(self, before: str, last: str, share: float, uses: Chances, sees: Shows) -> Chances:
        tool_uses, agent_uses = (
            {name: share * chance for name, chance in uses.items() if is_tool(name) == of_tools}
            for of_tools in (True, False)
        )
        if last:
            tools = self._tools(before, last, tool_uses, sees) if is_tool(last) else {}
            agents = self._by_counts(owner_of(before), owner_of(last), agent_uses, sees)
        else:
            tools = _back_off(self._beginnings[True], tool_uses, sees)
            agents = _back_off(self._beginnings[False], agent_uses, sees)
        rest = max(0.0, 1 - sum(tools.values()))
        return {**tools, **{agent: rest * chance for agent, chance in agents.items()}}

    def _tools(self, before: str, last: str, uses: Chances, sees: Shows) -> Chances:
        fitting = _back_off(self._fits(last), uses, sees)
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


def _likely(chances: Chances) -> Chances:
    return {name: chance for name, chance in chances.items() if chance >= LEAST_CHANCE}


def _back_off(counts: Chances, below: Chances, sees: Shows) -> Chances:
    visible_counts = dict(_visible(counts, sees))
    total = sum(visible_counts.values()) + PRIOR
    return {
        name: (visible_counts.get(name, 0.0) + PRIOR * below.get(name, 0.0)) / total
        for name in {**visible_counts, **below}
    }


def _visible(chances: Chances, sees: Shows) -> Iterable[tuple[str, float]]:
    return [pair for pair in chances.items() if sees(owner_of(pair[0]))]
