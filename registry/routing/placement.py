"""Why not the other one? Where an agent or a tool stands for a request, what keeps it out, and what it lacks."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import chain
from typing import NamedTuple

from waygraph.registry.access.visibility import fits, tools_within
from waygraph.registry.index.analyser import telling_words
from waygraph.registry.index.names import agent_named, find_named, seen_tools
from waygraph.registry.index.search_index import SearchIndex, agent_document, tool_document
from waygraph.registry.model import nouns
from waygraph.registry.model.transitions import owner_of
from waygraph.registry.routing.exclusions import read_exclusions
from waygraph.registry.routing.history import read_words
from waygraph.registry.routing.router import Ask

_ITS_AGENT, _WAITS, _REFUSAL = "belongs to an agent that ", "waits for approval", "was rejected"
ALL = 100_000
"""A limit above the number of candidates of any search."""
MOST_RANKS = 10_000
"""So far down each part of the search is read for a place."""
LEGS = {
    "agent_vector": "nearness in meaning of the agent's text",
    "tool_vector": "nearness in meaning of a tool",
    "capability_vector": "nearness in meaning of a tool",
    "agent_text": "words in the agent's text",
    "capability_text": "words in a tool's text",
    "name": "its name in the request",
    "siblings": "what the agent's other tools add",
    "call": "what the request gives for a call",
    "together": "tools that it is used with",
}
"""Legs in plain words; others, those of a conversation, by their names."""
RANKED_LEGS: Mapping[nouns.EntityKind, Sequence[str]] = {
    "agent": ("agent_vector", "agent_text"),
    "tool": ("tool_vector", "capability_vector", "capability_text"),
}
"""Those that put all agents, or all tools, that they find in an order of their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LegPlace:
    """Where one part of the search has an agent or a tool, however far down."""

    leg: str
    rank: int
    count: int
    """How many that part found. 0: not known, since they are others' tools too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where an agent stands among the agents for a request, or a tool among the tools, and why it is not shown."""

    id: str
    kind: nouns.EntityKind
    sentence: str
    """All of it in one sentence."""
    is_shown: bool
    rank: int
    """Among all that the legs found, by score; of what is kept out, where it would be. 0: no leg found it."""
    score: float
    votes: nouns.Votes
    obstacles: tuple[str, ...]
    """What keeps it out: its state, a filter, words of the request."""
    held_words: tuple[str, ...]
    """The words of the request that its texts hold, by their stems."""
    missing_words: tuple[str, ...]
    shown_count: int
    """How many are shown."""
    last_id: str
    """The last one that is shown; empty: none is."""
    last_score: float
    last_votes: nouns.Votes
    places: tuple[LegPlace, ...]
    """By each part of the search, also beyond what the recipe reads of it (`MOST_RANKS`)."""
    recipe: str
    revision: int


class Subject(NamedTuple):
    """What is asked about: an agent, or one `tool` of it, and the words of the request that its texts hold or lack."""

    agent: nouns.Agent
    tool: nouns.Tool | None
    held_words: tuple[str, ...]
    missing_words: tuple[str, ...]

    @property
    def id(self) -> str:
        return self.tool.id if self.tool else self.agent.id


def read_subject(index: SearchIndex, name: str, query: nouns.Query, ask: Ask) -> Subject:
    """Raises UnknownName, also for what the principal may not see."""
    entity = find_named(index, name, ask.principal)
    tool = entity if isinstance(entity, nouns.Tool) else None
    agent = agent_named(index, entity.agent_id, ask.principal) if isinstance(entity, nouns.Tool) else entity
    tools = seen_tools(index, index.tool_ids(agent.id), ask.principal)
    texts = [tool_document(agent, each) for each in ([tool] if tool else tools) if tool or not each.pending]
    own_terms = set(chain(*texts, agent_document(agent, tools)))
    request = read_exclusions(query, index, ask.principal)[0]
    words = dict(telling_words(" ".join([read_words(request, ask.recipe.history).text, *request.steps, request.text])))
    held_words = tuple(word for term, word in words.items() if term in own_terms)
    return Subject(agent, tool, held_words, tuple(word for word in words.values() if word not in held_words))


type Search = Callable[[nouns.Query], nouns.Route | nouns.ToolRoute]


def place(
    subject: Subject,
    query: nouns.Query,
    answer: nouns.Route | nouns.ToolRoute,
    search: Search,
    deep_search: Search,
) -> Placement:
    """`answer`: to the query. `search`: the same without what stands before and after the fusion; `deep_search`: the
    same again, by all that each leg finds.
    """
    wide = replace(query, steps=answer.query.steps, limit=ALL, strict=False)
    best: Sequence[nouns.AgentMatch | nouns.ToolMatch] = answer.matches
    visible = (*best, *(answer.pinned if isinstance(answer, nouns.Route) else ()))
    is_shown = subject.id in map(nouns.match_id, visible)
    obstacles = () if is_shown else _find_obstacles(subject, query.filters, answer)
    candidates = list(map(nouns.match_id, own := search(wide).matches))
    if obstacles and subject.id not in candidates:
        wide = replace(wide, filters=nouns.Filters())
        candidates = list(map(nouns.match_id, own := search(wide).matches))
    rank = candidates.index(subject.id) + 1 if subject.id in candidates else 0
    match = next((each for each in visible if nouns.match_id(each) == subject.id), own[rank - 1] if rank else None)
    if is_shown:
        rank = next((at for at, each in enumerate(best, 1) if each is match), 0)
    last = best[-1] if best else None
    placement = Placement(
        id=subject.id,
        kind="tool" if subject.tool else "agent",
        sentence="",
        is_shown=is_shown,
        rank=rank,
        score=match.score if match else 0.0,
        votes=match.votes if match else (),
        obstacles=obstacles,
        held_words=subject.held_words,
        missing_words=subject.missing_words,
        shown_count=len(best),
        last_id=nouns.match_id(last) if last else "",
        last_score=last.score if last else 0.0,
        last_votes=last.votes if last else (),
        places=_read_places(subject, deep_search(replace(wide, steps=())) if wide.text else answer),
        recipe=answer.recipe,
        revision=answer.revision,
    )
    return replace(placement, sentence=_sentence(placement))


def _read_places(subject: Subject, answer: nouns.Route | nouns.ToolRoute) -> tuple[LegPlace, ...]:
    own_legs, counts = RANKED_LEGS["tool" if subject.tool else "agent"], Counter[str]()
    own: nouns.Votes = ()
    for match in answer.matches:
        own = match.votes if nouns.match_id(match) == subject.id else own
        for vote in match.votes:
            if vote.leg in own_legs:
                counts[vote.leg] = max(counts[vote.leg], vote.rank)
    legs = {*chain(*RANKED_LEGS.values())}
    return tuple(LegPlace(leg=each.leg, rank=each.rank, count=counts[each.leg]) for each in own if each.leg in legs)


def without_unread(placement: Placement) -> Placement:
    """For those who may not read a text that waits or was rejected: without its words, its flag and the reason."""
    bare = {
        each: each[: each.index(start) + len(start)]
        for each in placement.obstacles
        for start in (_WAITS, _REFUSAL)
        if each.removeprefix(_ITS_AGENT).startswith(start)
    }
    if not bare:
        return placement
    obstacles = tuple(bare.get(each, each) for each in placement.obstacles)
    placement = replace(placement, obstacles=obstacles, held_words=(), missing_words=())
    return replace(placement, sentence=_sentence(placement))


def _find_obstacles(subject: Subject, filters: nouns.Filters, answer: nouns.Route | nouns.ToolRoute) -> tuple[str, ...]:
    """Each as what follows `it` in a sentence."""
    agent, tool, *_ = subject
    its = _ITS_AGENT if tool else ""
    waiting = tool if tool and tool.pending else agent
    flags = nouns.suspicions(waiting.flags)[:1]
    wait = f"{_REFUSAL}: {waiting.rejection}" if waiting.rejection else f"{_WAITS}{f' ({flags[0]})' if flags else ''}"
    within, walk = tools_within(filters), answer.walked
    clauses = {
        f"{its}is hidden by an operator": agent.hidden,
        f"{its if waiting is agent else ''}{wait}": waiting.pending,
        **{f"{its}{clause}": True for clause in _find_misfits(agent, filters)},
        "is not among the tools of the category or toolset": tool and within and tool.id not in within,
        "is what the request's words exclude": tool and tool.id in answer.exclusions,
        f"{its}is what the request's words exclude": agent.id in answer.exclusions,
        "was not selected by the walk of the taxonomy": walk
        and not answer.notice("not_walked")
        and agent.id not in map(owner_of, walk.selected),
        f"would be in an answer that is withheld: {answer.reason}": answer.nearest,
    }
    return tuple(clause for clause, holds in clauses.items() if holds)


def _find_misfits(agent: nouns.Agent, filters: nouns.Filters) -> list[str]:
    """What leaves an agent out, by the rule itself: each filter alone."""
    values = {each.name: getattr(filters, each.name) for each in fields(nouns.Filters)}
    names = [name for name, value in values.items() if not fits(agent, replace(nouns.Filters(), **{name: value}))]
    own_words = {
        "members": f"is not in {' and '.join(filter(None, (filters.within, filters.toolset)))}",
        "reachable": f"is {nouns.word_of(agent.status)}",
    }
    return [own_words.get(name) or f"is left out by the filter {name} ({', '.join(values[name])})" for name in names]


def _sentence(of: Placement) -> str:
    number = f"number {of.rank} of the {of.kind}s"
    if of.is_shown:
        return f"It is shown, as {number}." if of.rank else "It is shown apart, since an operator pinned it."
    if of.obstacles:
        would = f"; without that it would be {number}" if of.rank else ""
        return f"It {', and '.join(of.obstacles)}{would}."
    missing = f"its texts hold none of the words {', '.join(of.missing_words)}" if of.missing_words else ""
    if not of.rank:
        words = missing if not of.held_words else f"its texts hold {', '.join(of.held_words)}, but others fit better"
        far = [f"{each.rank}{f' of {each.count}' if each.count else ''} by {LEGS[each.leg]}" for each in of.places]
        down = f"; it is number {', '.join(far)}" if far else ""
        return f"No part of the search has it among its best{f': {words}' if words else ''}{down}."
    if not of.last_id or of.rank <= of.shown_count:
        return f"It is {number} by its score, but what orders the best preferred others."
    leg = _find_lack(of.votes, of.last_votes)
    lack = f": it lacks most {LEGS.get(leg, leg)}" if leg else ""
    return f"It is {number}, and {of.shown_count} are shown{lack}{f'; {missing}' if missing else ''}."


def _find_lack(votes: Sequence[nouns.Vote], others: Sequence[nouns.Vote]) -> str:
    """The leg that gives most more to the others; empty: none gives more."""
    lacks = Counter[str]()
    for sign, side in ((-1, votes), (1, others)):
        for vote in side:
            lacks[vote.leg] += sign * vote.contribution  # type: ignore[assignment] # counts may be fractions
    return next((leg for leg, lack in lacks.most_common(1) if lack > 0), "")
