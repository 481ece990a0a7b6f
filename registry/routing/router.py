"""One query through the index: embed, search the legs, fuse, show the best. Holds no state."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, takewhile, zip_longest
from operator import attrgetter
from typing import TYPE_CHECKING

from waygraph.registry.access.visibility import Shows, as_seen, routable, visible
from waygraph.registry.embedding.texts import query_text
from waygraph.registry.index.analyser import unread_notice
from waygraph.registry.index.names import shows
from waygraph.registry.index.search_index import TEXT_LEGS, Hits, Leg, Records, Scope, SearchIndex
from waygraph.registry.model.errors import EmbedderMismatch, IndexOutdated, InvalidQuery, RecipeNeedsTexts
from waygraph.registry.model.nouns import (
    Agent,
    AgentMatch,
    EntityKind,
    Filters,
    Notice,
    Principal,
    Query,
    Route,
    Tool,
    ToolMatch,
    ToolRoute,
    Walked,
    match_id,
)
from waygraph.registry.model.numbers import read_number, show_value
from waygraph.registry.model.tracing import span
from waygraph.registry.routing.call_fit import OTHERS, REMOVALS, best_tools, judge_calls
from waygraph.registry.routing.fusion import (
    Candidate,
    LegVotes,
    PastVotes,
    Standing,
    Weights,
    count_siblings,
    fuse_agents,
    fuse_tools,
    score_tools,
    tools_of,
)
from waygraph.registry.routing.history import NO_WORDS, Past, has_words, read_calls, read_need, read_words
from waygraph.registry.routing.recipes import LEXICAL, MOST_WEIGHT, Recipe, for_unread_script, with_rerank

if TYPE_CHECKING:
    from waygraph.registry.embedding.cache import QueryCache
    from waygraph.registry.embedding.embedder import Vector
    from waygraph.registry.model.changes import IndexState


TOOLS_SHOWN = 5
"""Tools named for an agent, at most."""
NEAREST_SHOWN = 3
"""Named where an answer is withheld, at most."""
CAPABILITY_LEGS: tuple[Leg, ...] = ("capability_vector", "capability_text")
"""They give tools, and agents without any."""
BETTER_SHOWN = 2
"""Agents without tools that fit better than the tools found, at most."""
NOTHING_FITS = "nothing in this registry fits the request closely enough"
NOTHING_ELSE_FITS = "beside the pinned agents nothing in this registry fits the request closely enough"
NOTHING_ALLOWED = "no agent passes the filters"
NOTHING_APPROVED = "all that this registry holds waits for approval (`waygraph approve`)"
NOTHING_KNOWN = "this registry holds no agent yet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """How to route: the recipe, the weights α per entity kind (`overrides`, else the recipe's), and who asks."""

    recipe: Recipe
    weights: Mapping[EntityKind, float]
    overrides: Mapping[EntityKind, float]
    principal: Principal | None = None

    @classmethod
    def of(
        cls, recipe: Recipe, agent_weight: float | None, tool_weight: float | None, principal: Principal | None
    ) -> "Ask":
        """Weights not given are the recipe's. Raises InvalidQuery for a negative or infinite one, and what is no recipe
        or principal.
        """
        if not isinstance(recipe, Recipe):
            raise InvalidQuery(f"a recipe is a name or a Recipe, not {type(recipe).__name__}")
        if principal is not None and not isinstance(principal, Principal):
            raise InvalidQuery(f"a principal is a Principal, not {type(principal).__name__}")
        weights: Mapping[EntityKind, float | None] = {"agent": agent_weight, "tool": tool_weight}
        overrides = {kind: weight for kind, weight in weights.items() if weight is not None}
        for kind, weight in overrides.items():
            if read_number(weight, 0, MOST_WEIGHT) is None:
                limits = f"a number from 0 to {MOST_WEIGHT:g}"
                raise InvalidQuery(f"{kind}_weight must be {limits}, not {show_value(weight)}")
        return cls(recipe=recipe, weights={**recipe.weights, **overrides}, overrides=overrides, principal=principal)

    def by(self, recipe: Recipe) -> "Ask":
        """The same, by another recipe."""
        return replace(self, recipe=recipe, weights={**recipe.weights, **self.overrides})

    @property
    def keeps_recipe_weights(self) -> bool:
        """Whether the weights are the recipe's own."""
        return self.weights == self.recipe.weights


@dataclass(frozen=True, slots=True, kw_only=True)
class Router:
    """Routes over one index. `queries` gives their vectors (None: no model, and `notice` says so)."""

    index: SearchIndex
    queries: "QueryCache | None"
    notice: str = ""

    def route(self, query: Query, ask: Ask) -> Route:
        """The top agents, all of one revision. Raises InvalidQuery, RecipeNeedsTexts, IndexOutdated."""
        ask = self._possible(ask)
        return join_steps(query, tuple(self._route_part(part, ask) for part in parts_of(query)))

    def find_tools(self, query: Query, ask: Ask) -> ToolRoute:
        """The top tools, of all agents or of `query.filters.agent_ids`. Raises InvalidQuery, RecipeNeedsTexts."""
        ask = self._possible(ask)
        if not ask.recipe.ranks_tools:
            raise InvalidQuery(f"recipe {ask.recipe.name!r} ranks no tools; choose another to find tools")
        return join_steps(query, tuple(self._find_part(part, ask) for part in parts_of(query)))

    def _find_part(self, query: Query, ask: Ask) -> ToolRoute:
        start = time.perf_counter()
        from waygraph.registry.routing.exclusions import read_exclusions

        original, (query, exclusions) = query, read_exclusions(query, self.index, ask.principal)
        past, hits, votes = self._search(query, ask)
        with span("fusion"):
            candidates = _tool_matches(hits, votes, query.limit, shows(self.index, ask.principal), past)
            agents = self._better_agents(votes, past)
            as_calibrated = (
                votes.recipe is ask.recipe and ask.keeps_recipe_weights and past.tools == PastVotes(past.fit)
            )
            best_fit = _tool_fit(hits, ask.recipe, past, candidates if as_calibrated else ())
            confidence, is_doubtful = _probability(hits, ask.recipe, past, best_fit)
        is_withheld = query.strict and is_doubtful
        matches = () if is_withheld else candidates
        return ToolRoute(
            query=without_history(original),
            matches=matches,
            recipe=ask.recipe.name,
            revision=hits.records.state.revision,
            confidence=confidence,
            agents=agents,
            is_doubtful=is_doubtful and bool(matches),
            exclusions=exclusions,
            notices=(*self._own_notices(), *past.notices),
            reason="" if matches else self._reason(query, ask),
            nearest=tuple(match.tool.call_name for match in candidates[:NEAREST_SHOWN]) if is_withheld else (),
            elapsed_ms=_milliseconds_since(start),
        )

    def _own_notices(self) -> tuple[Notice, ...]:
        return (Notice(code="words_only", text=self.notice),) if self.notice else ()

    def _better_agents(self, votes: LegVotes, past: Past) -> tuple[str, ...]:
        """Ids of the agents without tools that come before those with tools."""
        legs = votes.legs
        pairs = (pair for leg in CAPABILITY_LEGS if leg in legs for pair in zip(*legs[leg][:2], strict=True))
        if not any(entity == owner for entity, owner in pairs):
            return ()
        best = fuse_agents(votes, BETTER_SHOWN, past=past.agents, silent=past.silent)
        tools = self.index.tool_ids_of([candidate.id for candidate in best])
        return tuple(each.id for each in takewhile(lambda candidate: not tools[candidate.id], best))

    def _possible(self, ask: Ask) -> Ask:
        """The ask itself, or without a model the lexical one; refuses a recipe made for other texts."""
        recipe, texts = ask.recipe, self.index.state.texts
        if not recipe.needs_vectors:
            return ask
        if self.queries is None:
            return ask.by(with_rerank(LEXICAL if recipe.history else replace(LEXICAL, history=None), recipe.rerank))
        if not recipe.takes(texts):
            raise RecipeNeedsTexts(recipe.name, needs=str(recipe.texts), has=texts)
        return ask

    def _route_part(self, query: Query, ask: Ask) -> Route:
        start = time.perf_counter()
        from waygraph.registry.routing.exclusions import read_exclusions

        original, (query, exclusions) = query, read_exclusions(query, self.index, ask.principal)
        past, hits, votes = self._search(query, ask)
        apart = {a.id: a for a in hits.records.pinned_agents() if routable(a, ask.principal, query.filters)}
        with span("fusion"):
            best = fuse_agents(votes, query.limit + len(apart), past=past.agents, silent=past.silent)
            as_calibrated = (
                votes.recipe is ask.recipe and ask.keeps_recipe_weights and past.agents == PastVotes(past.fit)
            )
            confidence, is_doubtful = _confidence(hits, ask.recipe, past, best if as_calibrated else None)
            is_withheld = query.strict and is_doubtful
            may_see = shows(self.index, ask.principal)
            candidates = () if is_withheld else _agent_matches(hits, votes, best, may_see, past)
        matches = tuple(match for match in candidates if match.agent.id not in apart)[: query.limit]
        by_id = {match.agent.id: match for match in candidates}  # of one that was not found the score is 0
        pinned_matches = tuple(
            by_id.get(each) or AgentMatch(agent=as_seen(agent, may_see), score=0.0) for each, agent in apart.items()
        )
        return Route(
            query=without_history(original),
            matches=matches,
            pinned=pinned_matches,
            recipe=ask.recipe.name,
            revision=hits.records.state.revision,
            confidence=confidence,
            is_doubtful=is_doubtful and bool(matches),
            exclusions=exclusions,
            notices=(*self._own_notices(), *past.notices),
            reason="" if matches else self._reason(query, ask, NOTHING_ELSE_FITS if pinned_matches else NOTHING_FITS),
            nearest=tuple(each.id for each in best if each.id not in apart)[:NEAREST_SHOWN] if is_withheld else (),
            elapsed_ms=_milliseconds_since(start),
        )

    def _by_script(self, text: str, ask: Ask) -> Ask:
        """The ask itself, but where the model does not know the script of the text."""
        return ask if self.queries is None or self.queries.knows_script(text) else ask.by(for_unread_script(ask.recipe))

    def _search(self, query: Query, ask: Ask) -> tuple[Past, Hits, LegVotes]:
        """What the turns before give, what is found by the text and the words before it, and what that gives."""
        recipe, scope = ask.recipe, Scope(query.filters, ask.principal)
        words = read_words(query, recipe.history) if query.history else NO_WORDS
        literal_text = query_text(query.text, literals=True)
        text = literal_text if recipe.literals else query_text(query.text)
        earlier = query_text(words.text, literals=recipe.literals) if words.text else ""
        vector = None
        if self.queries is not None and recipe.needs_vectors:
            topic = recipe.history.topic if recipe.history and earlier else 0.0
            vector = self._embed(self.queries, text, earlier, topic)
        before = earlier if words.is_answered else ""
        with span("legs"):
            names = recipe.leg_names
            hits = self.index.search(names, vector, text, recipe.depth, scope, raw_text=literal_text, before=before)
        past = Past()
        if query.history or (recipe.history and (counts := self.index.transitions) and counts.is_counted):
            past = replace(self._read_calls(query, ask, hits), words=words)
            if hits.records is not self.index:
                hits = hits._replace(records=_WiderRecords(hits.records, self.index))
        effective_ask = self._by_script(query.text, ask)
        votes = _votes_of(hits, effective_ask.recipe, effective_ask.weights)
        if recipe.judges_calls:
            past = past.with_fit(self._judge_calls(query, hits, votes, past, vector))
        if not TEXT_LEGS.isdisjoint(names) and (cut := unread_notice(text)):
            past = replace(past, notices=(*past.notices, Notice(code="cut", text=cut)))
        return past, hits, votes

    def _judge_calls(
        self, query: Query, hits: Hits, votes: LegVotes, past: Past, vector: "Vector | None"
    ) -> tuple[Standing, ...]:
        """What the request by itself gives to single tools, and to agents for theirs."""

        def lean() -> float:
            if self.queries is None or vector is None:
                return -1.0  # by its words alone it asks for nothing else
            reads = self.queries.knows_script(query.text)
            return self.queries.lean(vector, toward=REMOVALS, away=OTHERS) if reads else 1.0

        with span("calls"):
            scores = score_tools([*votes.standings, *past.tools.votes])
            ids = best_tools(scores)
            tools = dict(zip(ids, hits.records.tools(ids), strict=True))
            calls = judge_calls(f"{past.words.text} {query.text}", tools, scores, lean)
        if votes.recipe.merge != "by_score":
            return (calls,) if calls else ()
        siblings = count_siblings(votes.standings)
        return (calls, siblings) if calls else (siblings,)

    def _read_calls(self, query: Query, ask: Ask, hits: Hits) -> Past:
        shares = ask.recipe.history
        if shares is None:
            text = f"The turns before the request do not count: {ask.recipe.name!r} takes none here."
            return Past(notices=(Notice(code="history", text=text),))
        with span("history"):
            need = 1.0 if has_words(query) else read_need(_confidence(hits, ask.recipe, Past())[0], shares)
            return read_calls(self.index, query, shares, ask.weights, ask.principal, need=need)

    def _embed(self, queries: "QueryCache", text: str, earlier: str, topic: float) -> "Vector":
        """Of the text, and of it behind what was `earlier` before, which counts for the share `topic`.

        Raises EmbedderMismatch if it cannot be compared with the registry's vectors.
        """
        with span("embed"):
            vector = queries.vector(text)
            if topic:
                vector = queries.mix(vector, f"{earlier} {text}", topic)
        dimension = self.index.state.dimension
        if dimension and len(vector) != dimension:
            raise EmbedderMismatch.of_lengths(queries.fingerprint, has=dimension, wants=len(vector))
        return vector

    def _reason(self, query: Query, ask: Ask, nothing_fits: str = NOTHING_FITS) -> str:
        """Why nothing came, of what the caller may see: what it may not see is not hinted at."""
        all_agents = self.index.agents().values()
        agents = [agent for agent in all_agents if routable(agent, ask.principal, Filters())]
        if not agents:
            waiting = any(agent.pending and not agent.hidden and visible(agent, ask.principal) for agent in all_agents)
            return NOTHING_APPROVED if waiting else NOTHING_KNOWN
        if not any(routable(agent, ask.principal, query.filters) for agent in agents):
            return NOTHING_ALLOWED
        return nothing_fits


@dataclass(frozen=True, slots=True)
class _WiderRecords:
    """The records of a search, and of what the history alone names those of the index. Implements Records."""

    own: Records
    index: SearchIndex

    @property
    def state(self) -> "IndexState":
        return self.own.state

    def agents(self) -> Mapping[str, Agent]:
        return {**self.index.agents(), **self.own.agents()}

    def pinned_agents(self) -> Sequence[Agent]:
        return self.own.pinned_agents()

    def tools(self, ids: Sequence[str]) -> list[Tool]:
        """Raises IndexOutdated."""
        try:
            return self.own.tools(ids)
        except KeyError:
            pass
        try:
            return self.index.tools(ids)
        except KeyError:  # gone since
            raise IndexOutdated from None


def without_history(query: Query) -> Query:
    """As an answer repeats it: also without the ids of what is within a category."""
    if query.filters.members is not None:
        query = replace(query, filters=replace(query.filters, members=None))
    return replace(query, history=(), step_of="") if query.history or query.step_of else query


def _votes_of(hits: Hits, recipe: Recipe, weights: Weights) -> LegVotes:
    return LegVotes(recipe=recipe, legs=hits.legs, weights=weights, agents=hits.populations["agent"])


def _tool_matches(hits: Hits, votes: LegVotes, limit: int, may_see: Shows | None, past: Past) -> tuple[ToolMatch, ...]:
    best = fuse_tools(votes, limit, past=past.tools)
    agents = hits.records.agents()
    return tuple(
        ToolMatch(
            tool=as_seen(tool, may_see),
            agent=as_seen(agents[tool.agent_id], may_see),
            score=candidate.score,
            votes=candidate.votes,
        )
        for tool, candidate in zip(hits.records.tools([c.id for c in best]), best, strict=True)
    )


def _agent_matches(
    hits: Hits, votes: LegVotes, best: Sequence[Candidate], may_see: Shows | None, past: Past
) -> tuple[AgentMatch, ...]:
    tools = tools_of(votes, [candidate.id for candidate in best], TOOLS_SHOWN, past=past.tools)
    agents = hits.records.agents()
    return tuple(
        AgentMatch(
            agent=as_seen(agents[candidate.id], may_see),
            score=candidate.score,
            votes=candidate.votes,
            tools=tuple(as_seen(tool, may_see) for tool in hits.records.tools(tools[candidate.id])),
        )
        for candidate in best
    )


def _confidence(
    hits: Hits, recipe: Recipe, past: Past, best: Sequence[Candidate] | None = None
) -> tuple[float | None, bool]:
    """How likely any agent found is right, and whether that is less than the recipe's least.

    `best` are the agents by the recipe's own weights, if they are at hand.
    """
    if best is None:
        best = fuse_agents(_votes_of(hits, recipe, recipe.weights), 1, past=PastVotes(past.fit))
    return _probability(hits, recipe, past, recipe.fit(hits.similarity, hits.coverage, best[0].score if best else 0.0))


def _tool_fit(hits: Hits, recipe: Recipe, past: Past, best: Sequence[ToolMatch] = ()) -> float:
    """Where scores are summed, of the best tool alone: an agent without tools may fit better.

    `best`: the tools by the recipe's own weights, if they are at hand.
    """
    if recipe.merge != "by_score":
        return recipe.fit(hits.similarity, hits.coverage, 0.0)
    if best:
        return best[0].score
    return max(score_tools([*_votes_of(hits, recipe, recipe.weights).standings, *past.fit]).values(), default=0.0)


def _probability(hits: Hits, recipe: Recipe, past: Past, fit: float) -> tuple[float | None, bool]:
    """1 if an entity is named outright, None where the recipe is not calibrated for the model, or not for the texts
    that are embedded; and whether it is less than the recipe's least: then nothing fits, and a strict query is
    withheld.
    """
    state = hits.records.state
    calibration = recipe.calibration(state.embedder)
    if calibration is None or recipe.texts not in (None, state.texts):
        return None, False
    name_hits = hits.legs.get("name")
    if name_hits and name_hits.entity_ids:
        return 1.0, False
    sure = calibration.probability(fit - (recipe.history.doubt if recipe.history and past.words.text else 0.0))
    return sure, sure < calibration.least


def _milliseconds_since(start: float) -> float:
    return (time.perf_counter() - start) * 1000


def parts_of(query: Query) -> list[Query]:
    """A query a step, and behind them one of the text, if there is one too; of a query without steps itself."""
    whole = replace(query, steps=())
    steps = [replace(whole, text=step, step_of=query.text) for step in query.steps]
    return [*steps, whole] if query.text or not steps else steps


def join_steps[R: (Route, ToolRoute)](query: Query, parts: tuple[R, ...]) -> R:
    """What is found for any part of the query, in order of need, and what is to be said of any. Raises IndexOutdated.

    How likely it is right is that of the least sure step.
    """
    if not query.steps:
        return parts[0]
    if len({part.revision for part in parts}) > 1:
        raise IndexOutdated
    joint = replace(
        parts[0],
        query=without_history(query),
        steps=parts,
        confidence=min((s.confidence for s in parts[: len(query.steps)] if s.confidence is not None), default=None),
        exclusions=tuple(sorted({each for part in parts for each in part.exclusions})),
        notices=tuple(dict.fromkeys(chain.from_iterable(part.notices for part in parts))),
        is_doubtful=all(part.is_doubtful for part in parts),
        walked=join_walks([part.walked for part in parts if part.walked]),
        elapsed_ms=sum(part.elapsed_ms for part in parts),
    )
    joint = _join_tools(joint, query.limit) if isinstance(joint, ToolRoute) else _join_agents(joint, query.limit)
    if joint.matches:
        return replace(joint, reason="", nearest=())
    reason = join_texts(*(part.reason for part in parts))
    return replace(joint, reason=reason, nearest=tuple(dict.fromkeys(chain.from_iterable(p.nearest for p in parts))))


def join_walks(walks: Sequence[Walked]) -> Walked | None:
    """Of all steps together."""
    if not walks:
        return None
    return Walked(
        mode=walks[0].mode,
        selected=tuple(dict.fromkeys(chain.from_iterable(each.selected for each in walks))),
        calls=sum(each.calls for each in walks),
        prompt_tokens=sum(each.prompt_tokens for each in walks),
        completion_tokens=sum(each.completion_tokens for each in walks),
        visits=tuple(chain.from_iterable(each.visits for each in walks)),
        picks=tuple(chain.from_iterable(each.picks for each in walks)),
        failure=join_texts(*(each.failure for each in walks)),
    )


def join_texts(*texts: str) -> str:
    """Each once."""
    return "; ".join(dict.fromkeys(filter(None, texts)))


def _join_agents(joint: Route, limit: int) -> Route:
    by_id: dict[str, AgentMatch] = {}  # what one step excludes, another may hold
    for match in chain.from_iterable(part.pinned for part in joint.steps):
        by_id[match.agent.id] = max(by_id.get(match.agent.id, match), match, key=attrgetter("score"))
    return replace(
        joint,
        matches=unite_matches([part.matches for part in joint.steps], limit),
        pinned=tuple(by_id.values()),
    )


def _join_tools(joint: ToolRoute, limit: int) -> ToolRoute:
    return replace(
        joint,
        matches=unite_matches([part.matches for part in joint.steps], limit),
        agents=tuple(dict.fromkeys(chain.from_iterable(part.agents for part in joint.steps))),
    )


def unite_matches[M: (AgentMatch, ToolMatch)](lists: Sequence[Sequence[M]], limit: int) -> tuple[M, ...]:
    """In order of need: each step's best first, in the steps' order, then each step's second, and so on.

    Cut to `limit`, but never below one a step.
    """
    union: dict[str, M] = {}
    for match in chain.from_iterable(zip_longest(*lists)):
        if match is not None:
            union.setdefault(match_id(match), match)
    return tuple(union.values())[: max(limit, len({match_id(matches[0]) for matches in lists if matches}))]
