"""One query through the index: embed, search the legs, fuse, show the best. Holds no state."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from itertools import chain, islice, takewhile, zip_longest
from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from waygraph.registry.access.visibility import Shows, as_seen, routable, tools_within, visible
from waygraph.registry.embedding.texts import query_text
from waygraph.registry.index.analyser import unread_notice
from waygraph.registry.index.names import shows
from waygraph.registry.index.search_index import TEXT_LEGS, Hits, Leg, QueryText, Scope, SearchIndex, no_hits
from waygraph.registry.model import nouns
from waygraph.registry.model.errors import EmbedderMismatch, IndexOutdated, InvalidQuery, RecipeNeedsTexts
from waygraph.registry.model.numbers import read_number, show_value
from waygraph.registry.model.tracing import span
from waygraph.registry.model.transitions import Partner, owner_of
from waygraph.registry.routing.history import (
    NO_WORDS,
    Past,
    Words,
    Worths,
    has_words,
    read_calls,
    read_need,
    read_partners,
    read_words,
)
from waygraph.registry.routing.notices import pair_notices, skill_notice
from waygraph.registry.routing.ranking import OTHERS, REMOVALS, Ranking
from waygraph.registry.routing.recipes import LEXICAL, MOST_WEIGHT, Recipe, for_unread_script, with_rerank
from waygraph.registry.routing.votes import Candidate, best_candidates, best_tools

if TYPE_CHECKING:
    from waygraph.registry.embedding.cache import QueryCache
    from waygraph.registry.embedding.embedder import Vector


TOOLS_SHOWN = 5
"""Tools named for an agent, at most."""
FIRST_TOOLS = 3
"""What conversations call beside these is brought, too."""
NEAREST_SHOWN = 3
"""Named where an answer is withheld, at most."""
CAPABILITY_LEGS: tuple[Leg, ...] = ("capability_vector", "capability_text")
"""They give tools, and agents without any."""
SKILLS_NAMED, MOST_TAUGHT = 2, 5
"""Skills named for the best tool, and tools named for a skill that was found, at most."""
BETTER_SHOWN = 2
"""Agents without tools that fit better than the tools result, at most."""
NOTHING_FITS = "nothing in this registry fits the request closely enough"
NOTHING_ELSE_FITS = "beside the pinned agents nothing in this registry fits the request closely enough"
NOTHING_ALLOWED = "no agent passes the filters"
NOTHING_APPROVED = "all that this registry holds waits for approval (`waygraph approve`)"
NOTHING_KNOWN = "this registry holds no agent yet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """How to route: the recipe, the weights α per entity kind (`overrides`, else the recipe's), and who asks."""

    recipe: Recipe
    weights: Mapping[nouns.EntityKind, float]
    overrides: Mapping[nouns.EntityKind, float]
    principal: nouns.Principal | None = None

    @classmethod
    def of(
        cls, recipe: Recipe, agent_weight: float | None, tool_weight: float | None, principal: nouns.Principal | None
    ) -> "Ask":
        """Weights not given are the recipe's. Raises InvalidQuery for a negative or infinite one, and what is no recipe
        or principal.
        """
        if not isinstance(recipe, Recipe):
            raise InvalidQuery(f"a recipe is a name or a Recipe, not {type(recipe).__name__}")
        if principal is not None and not isinstance(principal, nouns.Principal):
            raise InvalidQuery(f"a principal is a Principal, not {type(principal).__name__}")
        weights: Mapping[nouns.EntityKind, float | None] = {"agent": agent_weight, "tool": tool_weight}
        overrides = {kind: weight for kind, weight in weights.items() if weight is not None}
        for kind, weight in overrides.items():
            if read_number(weight, 0, MOST_WEIGHT) is None:
                limits = f"a number from 0 to {MOST_WEIGHT:g}"
                raise InvalidQuery(f"{kind}_weight must be {limits}, not {show_value(weight)}")
        return cls(recipe=recipe, weights={**recipe.weights, **overrides}, overrides=overrides, principal=principal)

    def by(self, recipe: Recipe) -> "Ask":
        """The same, by another recipe."""
        return replace(self, recipe=recipe, weights={**recipe.weights, **self.overrides})


@dataclass(frozen=True, kw_only=True)
class Router:
    """Routes over one index. `queries` gives their vectors (None: no model, and `notice` says so)."""

    index: SearchIndex
    queries: "QueryCache | None"
    notice: str = ""

    def route(self, query: nouns.Query, ask: Ask) -> nouns.Route:
        """The top agents, all of one revision. Raises InvalidQuery, RecipeNeedsTexts, IndexOutdated."""
        ask = self._possible(ask)
        return join_steps(query, tuple([self._route_part(part, ask) for part in parts_of(query)]))

    def find_tools(self, query: nouns.Query, ask: Ask) -> nouns.ToolRoute:
        """The top tools, of all agents or of `query.filters.agent_ids`. Raises InvalidQuery, RecipeNeedsTexts."""
        ask = self._possible(ask)
        if not ask.recipe.ranks_tools:
            raise InvalidQuery(f"recipe {ask.recipe.name!r} ranks no tools; choose another to find tools")
        return join_steps(query, tuple([self._find_part(part, ask) for part in parts_of(query)]))

    def _find_part(self, query: nouns.Query, ask: Ask) -> nouns.ToolRoute:
        start = time.perf_counter()
        from waygraph.registry.routing.exclusions import read_exclusions

        original, (query, exclusions) = query, read_exclusions(query, self.index, ask.principal)
        result = self._search(query, ask)
        hits = result.hits
        with span("fusion"):
            candidates = _tool_matches(result.ranking, query.limit, shows(self.index, ask.principal))
            agents = self._better_agents(result.ranking)
            confidence, is_doubtful = _probability(result, ask.recipe, _tool_fit(result, ask))
        is_withheld = query.strict and is_doubtful
        matches = () if is_withheld else candidates
        return nouns.ToolRoute(
            query=without_history(original),
            matches=matches,
            recipe=ask.recipe.name,
            revision=hits.records.state.revision,
            confidence=confidence,
            agents=agents,
            is_doubtful=is_doubtful and bool(matches),
            exclusions=exclusions,
            notices=(
                *result.notices,
                *pair_notices(matches, result.partners),
                *self._skill_notices(matches, agents, query, ask),
            ),
            reason="" if matches else self._reason(query, ask),
            nearest=tuple(match.tool.call_name for match in candidates[:NEAREST_SHOWN]) if is_withheld else (),
            elapsed_ms=(time.perf_counter() - start) * 1000,
        )

    @cached_property
    def _lessons(self) -> tuple[Mapping[str, Sequence[str]], Mapping[str, Sequence[str]]]:
        """By skill the tools that it teaches, and by tool its skills."""
        if not self.index.has_values("skill_links"):
            return {}, {}
        from waygraph.registry.operators.skill_links import LINKS  # imports what writes need

        lessons = {each.name: each.teaches for each in self.index.values(LINKS)}
        skills: dict[str, list[str]] = {}
        for skill, tools in lessons.items():
            for tool in tools:
                skills.setdefault(tool, []).append(skill)
        return lessons, skills

    def _skill_notices(
        self, matches: Sequence[nouns.ToolMatch], agents: Sequence[str], query: nouns.Query, ask: Ask
    ) -> Iterator[nouns.Notice]:
        """Of the skills that were found, and of those that teach the best tool."""
        lessons, skills = self._lessons
        best = skills.get(matches[0].tool.id, ()) if matches else ()
        hits = dict.fromkeys(each for each in (*agents, *(match.agent.id for match in matches)) if each in lessons)
        if not (hits or best):
            return
        owners, within = self.index.agents(), tools_within(query.filters)

        @cache
        def may_name(agent_id: str) -> bool:
            return agent_id in owners and routable(owners[agent_id], ask.principal, query.filters)

        for skill in hits:
            ids = (each for each in lessons[skill] if (within is None or each in within) and may_name(owner_of(each)))
            tools = [tool.id for tool in self.index.tools(list(islice(ids, MOST_TAUGHT))) if not tool.pending]
            if tools:
                yield skill_notice(skill, tuple(tools))
        for skill in islice((each for each in best if each not in hits and may_name(each)), SKILLS_NAMED):
            yield skill_notice(skill, (matches[0].tool.id,))

    def _better_agents(self, ranking: Ranking) -> tuple[str, ...]:
        """Ids of the agents without tools that come before those with tools."""
        is_agent = ranking.candidates.is_agent
        if not any(is_agent[leg.at].any() for leg in ranking.legs if leg.use.leg in CAPABILITY_LEGS):
            return ()
        best = best_candidates(ranking.agents, BETTER_SHOWN)
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

    def _route_part(self, query: nouns.Query, ask: Ask) -> nouns.Route:
        start = time.perf_counter()
        from waygraph.registry.routing.exclusions import read_exclusions

        original, (query, exclusions) = query, read_exclusions(query, self.index, ask.principal)
        result = self._search(query, ask)
        hits = result.hits
        apart = {a.id: a for a in hits.records.pinned_agents() if routable(a, ask.principal, query.filters)}
        with span("fusion"):
            best = best_candidates(result.ranking.agents, query.limit + len(apart))
            confidence, is_doubtful = _confidence(result, ask)
            is_withheld = query.strict and is_doubtful
            may_see = shows(self.index, ask.principal)
            candidates = () if is_withheld else _agent_matches(result.ranking, best, may_see)
        matches = tuple([match for match in candidates if match.agent.id not in apart][: query.limit])
        by_id = {match.agent.id: match for match in candidates}  # of one that was not found the score is 0
        pinned_matches = tuple(
            [
                by_id.get(each) or nouns.AgentMatch(agent=as_seen(agent, may_see), score=0.0)
                for each, agent in apart.items()
            ]
        )
        return nouns.Route(
            query=without_history(original),
            matches=matches,
            pinned=pinned_matches,
            recipe=ask.recipe.name,
            revision=hits.records.state.revision,
            confidence=confidence,
            is_doubtful=is_doubtful and bool(matches),
            exclusions=exclusions,
            notices=result.notices,
            reason="" if matches else self._reason(query, ask, NOTHING_ELSE_FITS if pinned_matches else NOTHING_FITS),
            nearest=tuple([each.id for each in best if each.id not in apart][:NEAREST_SHOWN]) if is_withheld else (),
            elapsed_ms=(time.perf_counter() - start) * 1000,
        )

    def _search(self, query: nouns.Query, ask: Ask) -> "_Result":
        """Search by the text and the words before it, and rank by that and what the turns before give."""
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
            names, query_words = recipe.leg_names, QueryText.of(text, literal_text, before)
            hits = self.index.search(names, vector, query_words, recipe.depth, scope)
        past: Past[Worths] = Past()
        notices: tuple[nouns.Notice, ...] = ()
        partners: Mapping[str, Partner] = {}
        is_counted = recipe.history is not None and (counts := self.index.transitions) is not None and counts.is_counted
        if query.history or is_counted:
            past, notices = self._read_calls(query, ask, hits)
        effective_ask = ask
        if self.queries is not None and not self.queries.knows_script(query.text):
            effective_ask = ask.by(for_unread_script(recipe))

        def rank(past: Past[Worths]) -> Ranking:
            ranking = Ranking.of(effective_ask.recipe, effective_ask.weights, hits, past)
            if recipe.judges_calls:
                with span("calls"):
                    both = f"{words.text} {query.text}" if words.text else query.text
                    ranking.add_fit(both, partial(self._lean, query, vector))
            return ranking

        ranking = rank(past)
        if is_counted and not any(turn.role == "call" for turn in query.history):
            together, partners = self._read_partners(query, ask, ranking)
            ranking = rank(past._replace(together=together)) if together else ranking
        if self.notice:
            notices = (nouns.Notice(code="words_only", text=self.notice), *notices)
        if not TEXT_LEGS.isdisjoint(names) and (cut := unread_notice(text)):
            notices = (*notices, nouns.Notice(code="cut", text=cut))
        return _Result(ranking, words, notices, partners)

    def _lean(self, query: nouns.Query, vector: "Vector | None") -> float:
        """How far the request leans towards removals, as a cosine."""
        if self.queries is None or vector is None:
            return -1.0  # by its words alone it asks for nothing else
        reads = self.queries.knows_script(query.text)
        return self.queries.lean(vector, toward=REMOVALS, away=OTHERS) if reads else 1.0

    def _read_calls(self, query: nouns.Query, ask: Ask, hits: Hits) -> tuple[Past[Worths], tuple[nouns.Notice, ...]]:
        shares = ask.recipe.history
        if shares is None:
            text = f"The turns before the request do not count: {ask.recipe.name!r} takes none here."
            return Past(), (nouns.Notice(code="history", text=text),)
        with span("history"):
            alone = _Result(Ranking.of(ask.recipe, ask.recipe.weights, hits, Past()))
            need = (
                1.0 if has_words(query) else read_need(_confidence(alone, ask)[0], shares, is_first=not query.history)
            )
            return read_calls(self.index, query, shares, ask.weights, ask.principal, need=need)

    def _read_partners(
        self, query: nouns.Query, ask: Ask, ranking: Ranking
    ) -> tuple[Worths | None, Mapping[str, Partner]]:
        """What is often called beside the first tools."""
        shares, scores = ask.recipe.history, ranking.tools_by_text
        first = [each.id for each in best_candidates(scores, FIRST_TOOLS)]
        weight = shares.together * scores.best if shares else 0.0
        if not first or weight <= 0:
            return None, {}
        return read_partners(self.index, query, first, weight, ask.principal)

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

    def _reason(self, query: nouns.Query, ask: Ask, nothing_fits: str = NOTHING_FITS) -> str:
        """Why nothing came, of what the caller may see: what it may not see is not hinted at."""
        all_agents = self.index.agents().values()
        agents = [agent for agent in all_agents if routable(agent, ask.principal, nouns.Filters())]
        if not agents:
            waiting = any(agent.pending and not agent.hidden and visible(agent, ask.principal) for agent in all_agents)
            return NOTHING_APPROVED if waiting else NOTHING_KNOWN
        if not any(routable(agent, ask.principal, query.filters) for agent in agents):
            return NOTHING_ALLOWED
        return nothing_fits


class _Result(NamedTuple):
    """What one search result, the words before it, and what is to be said of it."""

    ranking: Ranking
    words: Words = NO_WORDS
    notices: tuple[nouns.Notice, ...] = ()
    partners: Mapping[str, Partner] = MappingProxyType({})

    @property
    def hits(self) -> Hits:
        return self.ranking.hits

    def as_calibrated(self, ask: Ask) -> Ranking:
        """The ranking as the calibration of the recipe means it."""
        is_so = self.ranking.recipe is ask.recipe and ask.weights == ask.recipe.weights and not any(self.ranking.past)
        return self.ranking if is_so else self.ranking.as_calibrated(ask.recipe)


def without_history(query: nouns.Query) -> nouns.Query:
    """As an answer repeats it: also without the ids of what is within a category."""
    if query.filters.members is not None:
        query = replace(query, filters=replace(query.filters, members=None))
    return replace(query, history=(), step_of="") if query.history or query.step_of else query


def _tool_matches(ranking: Ranking, limit: int, may_see: Shows | None) -> tuple[nouns.ToolMatch, ...]:
    best, records = best_candidates(ranking.tools, limit), ranking.hits.records
    at = [candidate.at for candidate in best]
    rows, owners = ranking.candidates.rows[at], ranking.candidates.rows[ranking.candidates.owners[at]]
    tools, agents = _all_as_seen(records.tools_at(rows), may_see), _all_as_seen(records.agents_at(owners), may_see)
    return tuple(
        [
            nouns.ToolMatch(tool=tool, agent=agent, score=candidate.score, votes=candidate.votes)
            for tool, agent, candidate in zip(tools, agents, best, strict=True)
        ]
    )


def _agent_matches(ranking: Ranking, best: Sequence[Candidate], may_see: Shows | None) -> tuple[nouns.AgentMatch, ...]:
    """With their best tools, in the order of the tools."""
    records = ranking.hits.records
    rows = best_tools(ranking.tools, best, TOOLS_SHOWN)
    if not best:
        return ()
    tools = iter(_all_as_seen(records.tools_at(np.concatenate(rows)), may_see))
    agents = records.agents_at(ranking.candidates.rows[[candidate.at for candidate in best]])
    return tuple(
        [
            nouns.AgentMatch(
                agent=agent, score=candidate.score, votes=candidate.votes, tools=tuple(islice(tools, len(own)))
            )
            for agent, candidate, own in zip(_all_as_seen(agents, may_see), best, rows, strict=True)
        ]
    )


def _all_as_seen[E: nouns.Agent | nouns.Tool](entities: Sequence[E], may_see: Shows | None) -> list[E]:
    """Return agents or tools that may be found, so that none of them waits for approval, as the caller sees them."""
    return [as_seen(each, may_see) if each.flags else each for each in entities]


def _confidence(result: _Result, ask: Ask) -> tuple[float | None, bool]:
    """How likely any agent found is right, and whether that is less than the recipe's least."""
    best = result.as_calibrated(ask).agents.best
    return _probability(result, ask.recipe, ask.recipe.fit(result.hits.similarity, result.hits.coverage, best))


def _tool_fit(result: _Result, ask: Ask) -> float:
    """Where scores are summed, of the best tool alone: an agent without tools may fit better."""
    if ask.recipe.merge != "by_score":
        return ask.recipe.fit(result.hits.similarity, result.hits.coverage, 0.0)
    return result.as_calibrated(ask).tools.best


def _probability(result: _Result, recipe: Recipe, fit: float) -> tuple[float | None, bool]:
    """1 if an entity is named outright, None where the recipe is not calibrated for the model, or not for the texts
    that are embedded; and whether it is less than the recipe's least: then nothing fits, and a strict query is
    withheld.
    """
    state = result.hits.records.state
    calibration = recipe.calibration(state.embedder)
    if calibration is None or recipe.texts not in (None, state.texts):
        return None, False
    if len(result.hits.legs.get("name", no_hits()).rows):
        return 1.0, False
    sure = calibration.probability(fit - (recipe.history.doubt if recipe.history and result.words.text else 0.0))
    return sure, sure < calibration.least


def parts_of(query: nouns.Query) -> list[nouns.Query]:
    """A query a step, and behind them one of the text, if there is one too; of a query without steps itself."""
    if not query.steps:
        return [query]
    whole = replace(query, steps=())
    steps = [replace(whole, text=step, step_of=query.text) for step in query.steps]
    return [*steps, whole] if query.text else steps


def join_steps[R: (nouns.Route, nouns.ToolRoute)](query: nouns.Query, parts: tuple[R, ...]) -> R:
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
    if isinstance(joint, nouns.ToolRoute):
        agents = tuple(dict.fromkeys(chain.from_iterable(part.agents for part in joint.steps)))
        joint = replace(
            joint, matches=unite_matches([part.matches for part in joint.steps], query.limit), agents=agents
        )
    else:
        by_id: dict[str, nouns.AgentMatch] = {}  # what one step excludes, another may hold
        for match in chain.from_iterable(part.pinned for part in joint.steps):
            by_id[match.agent.id] = max(by_id.get(match.agent.id, match), match, key=attrgetter("score"))
        matches = unite_matches([part.matches for part in joint.steps], query.limit)
        joint = replace(joint, matches=matches, pinned=tuple(by_id.values()))
    if joint.matches:
        return replace(joint, reason="", nearest=())
    reason = join_texts(*(part.reason for part in parts))
    return replace(joint, reason=reason, nearest=tuple(dict.fromkeys(chain.from_iterable(p.nearest for p in parts))))


def join_walks(walks: Sequence[nouns.Walked]) -> nouns.Walked | None:
    """Of all steps together."""
    if not walks:
        return None
    return nouns.Walked(
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


def unite_matches[M: (nouns.AgentMatch, nouns.ToolMatch)](lists: Sequence[Sequence[M]], limit: int) -> tuple[M, ...]:
    """In order of need: each step's best first, in the steps' order, then each step's second, and so on.

    Cut to `limit`, but never below one a step.
    """
    union: dict[str, M] = {}
    for match in chain.from_iterable(zip_longest(*lists)):
        if match is not None:
            union.setdefault(nouns.match_id(match), match)
    return tuple(union.values())[: max(limit, len({nouns.match_id(matches[0]) for matches in lists if matches}))]
