"""find_tools: what a language model is told that fits its request, in as few words as it needs."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from waygraph.registry.access.policy import FREE, CallPolicy, Judgement, danger_of, judge
from waygraph.registry.catalog import resolve, tool_formats
from waygraph.registry.model import nouns
from waygraph.registry.model.errors import InvalidQuery, ServiceFailed, UnknownName, WaygraphError
from waygraph.registry.model.tool_calls import RankedTool, RankedTools
from waygraph.registry.model.transitions import is_tool, owner_of
from waygraph.registry.routing.needs import Givers, required_ids
from waygraph.registry.routing.recipes import DEFAULT_RECIPE, RECIPES, Recipe

if TYPE_CHECKING:
    from waygraph.registry.catalog.searchable import Searchable
    from waygraph.registry.model.changes import ListedAgent
    from waygraph.registry.taxonomy.tree import CategoryView


@dataclass(frozen=True, slots=True, kw_only=True)
class Judging:
    """Of the agents as they are now: made anew for each answer and each call."""

    policy: CallPolicy
    principal: nouns.Principal | None
    claims: Mapping[str, frozenset[str]]
    """Agent id → names of the sources that claim it; empty where the policy names no source."""

    def judge(self, agent: nouns.Agent, tool: nouns.Tool, *, by_name: bool) -> Judgement:
        """See `policy.judge`."""
        sources = self.claims.get(agent.id, frozenset())
        return judge(agent, tool, self.policy, by_name=by_name, principal=self.principal, sources=sources)

    def callable_tools(self, agent: nouns.Agent, tools: Iterable[nouns.Tool]) -> list[nouns.Tool]:
        """Those that may be called by name."""
        return [tool for tool in tools if not tool.pending and self.judge(agent, tool, by_name=True).verdict != "deny"]


def judging(registry: "Searchable", policy: CallPolicy | None, principal: nouns.Principal | None) -> Judging:
    """Without a policy the one that says nothing holds."""
    policy = policy or FREE
    claims = _claims(registry, principal) if policy.names_sources else {}
    return Judging(policy=policy, principal=principal, claims=claims)


def refusals(judges: Judging, why_not: resolve.WhyNot) -> Callable[[nouns.ToolMatch], str]:
    """Why a call by name is refused, or nothing runs the tool; empty: a call can be tried."""

    def refusal(match: nouns.ToolMatch) -> str:
        judgement = judges.judge(match.agent, match.tool, by_name=True)
        return judgement.reason if judgement.verdict == "deny" else why_not(match.agent)

    return refusal


def rank_tools(tools: Iterable[RankedTool], route: nouns.ToolRoute) -> RankedTools:
    """The matches of a route: one that can run comes before those that fit hardly better and cannot."""
    return RankedTools(tuple(resolve.runnable_first(list(tools), lambda tool: tool.cannot_run)), route)


def _claims(registry: "Searchable", principal: nouns.Principal | None) -> dict[str, frozenset[str]]:
    claims: dict[str, set[str]] = {}
    for source in registry.sources(principal=principal):
        for agent_id in source.agent_ids:
            claims.setdefault(agent_id, set()).add(source.name)
    return {agent_id: frozenset(names) for agent_id, names in claims.items()}


TAGS, SOURCES = 20, 15
"""The most frequent, so many of each."""
TAG_CHARS = 40


def overview(
    registry: "Searchable",
    principal: nouns.Principal | None,
    agent_ids: frozenset[str] | None,
    title_of: Callable[[str], str] = str,
) -> dict[str, Any]:
    """Of what this caller may find: `tools`, `agents` by kind, `sources` by title and `tags` with the number of their
    agents, the most frequent first; `waiting` and `unreachable` count agents, where there are such.
    """
    entries = list_agents(registry, principal, agent_ids)
    ready = [each for each in entries if not each.agent.pending]
    visible_ids = {each.agent.id for each in entries}
    sources = registry.sources(principal=principal)
    claims = (title_of(source.name) for source in sources for each in source.agent_ids if each in visible_ids)
    waiting = Counter[str]()  # how many tools of each agent wait or were rejected; they are listed only where any is
    if any(each.standing and (each.standing.pending_tools or each.standing.rejections) for each in sources):
        waiting.update(tool.agent_id for tool in registry.tools(principal=principal) if tool.pending)
    facts: dict[str, Any] = {
        "tools": sum(each.tools - waiting[each.agent.id] for each in ready),
        "agents": _order_counts(Counter(each.agent.kind for each in ready)),
        "sources": _order_counts(Counter(claims), SOURCES),
        "tags": _order_counts(_tags(ready), TAGS),
        "waiting": sum(each.agent.pending and not each.agent.rejection for each in entries),
        "unreachable": sum(not nouns.reachable(each.agent.status) for each in ready),
    }
    return {key: value for key, value in facts.items() if value or key == "tools"}


def _tags(entries: "Sequence[ListedAgent]") -> Counter[str]:
    """Of agents whose text is in doubt none: a model reads them."""
    agents = (each.agent for each in entries if not nouns.is_doubtful(each.agent))
    return Counter(tag[:TAG_CHARS] for agent in agents for tag in agent.tags)


def list_agents(
    registry: "Searchable", principal: nouns.Principal | None, agent_ids: frozenset[str] | None
) -> "Sequence[ListedAgent]":
    if agent_ids is not None and not agent_ids:
        return ()
    page = registry.agents_page(filters=nouns.Filters(agent_ids=tuple(sorted(agent_ids or ()))), principal=principal)
    return [each for each in page.items if not each.agent.hidden]


def _order_counts(counts: Counter[Any], most: int | None = None) -> dict[str, int]:
    """The most frequent first, then by name."""
    return dict(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))[:most])


DEFAULT_LIMIT, MAX_LIMIT = 8, 50
SPARE = 5
"""So many more are read than wanted, in the place of those that may not be called."""
FAR = 100
"""The same, where those do not suffice."""
REFUSED_TOLD = 5
NO_AGENTS = "no agent is in this namespace"
NO_TOOLS = "nothing here has a tool"
STEP = "`within` goes into one, down to its tools; with a `query` too only it is searched"


@dataclass(frozen=True, slots=True, kw_only=True)
class FindAsked:
    """What is asked. `limit` of tools, 1 to 50; `known`: tool's call name or id → version that the caller has.

    `agent_ids`: only the tools of these; None: of all, an empty set: of none. `within`: only what is in this category
    of the taxonomy. `browses`: whether an empty query is answered by the taxonomy, where there is one; `offset`: how
    many of what that answer lists are left out, since they were listed before. `run_by`: the tool that runs what is
    found; empty: each is called by its own name. `tells_selection`: whether `selected` holds the ids of all that a walk
    selected. `history`: as a query's; the answer's `notice` says what of it is unknown. `title_of`: what a model is
    told for the name of a source, which may be a place on this machine. `login_of`: how the caller logs in at an agent
    first; empty: there is no need.
    """

    query: str = ""
    steps: tuple[str, ...] = ()
    limit: int = DEFAULT_LIMIT
    detail: tool_formats.Detail = "summary"
    known: Mapping[str, str] = field(default_factory=dict)
    tool_format: tool_formats.ToolFormat = "mcp"
    agent_ids: frozenset[str] | None = None
    within: str = ""
    browses: bool = False
    offset: int = 0
    recipe: str | Recipe = DEFAULT_RECIPE
    run_by: str = "use_tool"
    tells_selection: bool = False
    history: tuple[nouns.Turn, ...] = field(default=(), repr=False)
    title_of: Callable[[str], str] = str
    login_of: Callable[[str], str] = lambda _: ""


@dataclass(frozen=True, slots=True)
class ToolsAnswer:
    """`tools`, best first, each as `describe_tool` has it. `facts`: what else the answer says, by name. `can_run`:
    whether any of the tools can be run here.
    """

    tools: Sequence[dict[str, Any]]
    facts: Mapping[str, Any] = field(default_factory=dict)
    can_run: bool = False

    def as_json(self) -> dict[str, Any]:
        """How sure it is comes before the tools: a model reads it first."""
        before = {
            name: self.facts[name] for name in ("confidence", "notices", "better_agents", "hint") if name in self.facts
        }
        return before | {"tools": list(self.tools)} | dict(self.facts)


@dataclass(frozen=True, slots=True)
class RowsAnswer:
    """What `within` opens of a category: its `categories`, or the agents that are its `members`; and no tool.

    `rows`: path → what it is, in few words.
    """

    kind: Literal["categories", "members"]
    rows: Mapping[str, str]
    facts: Mapping[str, Any]

    def as_json(self) -> dict[str, Any]:
        return {**self.facts, self.kind: dict(self.rows), "hint": STEP}


@dataclass(frozen=True, slots=True)
class OverviewAnswer:
    """What there is to find, in numbers, and no tool."""

    facts: Mapping[str, Any]

    def as_json(self) -> dict[str, Any]:
        return dict(self.facts)


type FindAnswer = ToolsAnswer | RowsAnswer | OverviewAnswer


@dataclass(frozen=True, slots=True)
class _JudgedTool:
    """A tool that fits, whether it may be called by its name, and why it could not be run all the same."""

    agent: nouns.Agent
    tool: nouns.Tool
    judgement: Judgement
    why_not: str


def find(
    registry: "Searchable",
    request: FindAsked,
    *,
    principal: nouns.Principal | None = None,
    policy: CallPolicy | None = None,
    why_not: resolve.WhyNot = resolve.RUNS,
) -> dict[str, Any]:
    """The answer of `answer_request`, as JSON has it. Raises what that raises."""
    return answer_request(registry, request, principal=principal, policy=policy, why_not=why_not).as_json()


def answer_request(
    registry: "Searchable",
    request: FindAsked,
    *,
    principal: nouns.Principal | None = None,
    policy: CallPolicy | None = None,
    why_not: resolve.WhyNot = resolve.RUNS,
) -> FindAnswer:
    """Tools, best first; `not_callable`, what fits as well and why it cannot be called (`not_callable_more`: how many
    beside those); `confidence`, how likely any of it is right, where that is known; `better_agents`, those without
    tools that fit better; `hint`, what to do next. Nothing
    found, or with a strict policy nothing that surely fits: `reason` and `nearest`. An empty query: `overview`, or of a
    taxonomy `categories`, in one without any its `members` or its tools; `holds` says how many tools or agents there
    are, `next_offset` where the next part begins. A tool that nothing runs here says so (`cannot_run`); where it is all
    of them, `hint` does.

    What has nothing to tell is left out. Raises InvalidQuery, UnknownName of another format, and what
    `Registry.find_tools` raises.
    """
    _check(request)
    search = _Search(request, resolve.SearchScope(registry, principal, request.agent_ids), policy, why_not)
    is_blank = not (request.query.strip() or request.steps)
    if is_blank and not (request.browses and (request.agent_ids is None or request.agent_ids)):
        return search.survey()
    if request.agent_ids is not None and not request.agent_ids:
        return ToolsAnswer([], {"reason": NO_AGENTS})
    return search.browse() if is_blank else search.find()


def confidence_field(confidence: float | None) -> dict[str, Any]:
    """As a model reads it: two digits, and nothing where it is not known."""
    return {} if confidence is None else {"confidence": round(confidence, 2)}


_FACTS = frozenset({"nothing", "withheld", "better_agents", "skill", "words_only"})
"""Codes of notices that stand as `reason`, `nearest`, `better_agents` and entries of skills, and one that an operator
alone can change.
"""


def notices_field(route: nouns.Route | nouns.ToolRoute, tool_ids: frozenset[str] | None = None) -> dict[str, Any]:
    """The notices of an answer, as a model reads them, without what other facts of it say.

    `tool_ids`: of the tools that are shown; no others are told as used together. None: any.
    """
    notices = [
        {"code": each.code, "text": each.text}
        for each in route.notices
        if each.code not in _FACTS and (each.code != "together" or tool_ids is None or tool_ids.issuperset(each.about))
    ]
    return {"notices": notices} if notices else {}


def _check(request: FindAsked) -> None:
    limit: object = request.limit
    if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= MAX_LIMIT:
        raise InvalidQuery(f"limit must be a whole number from 1 to {MAX_LIMIT}, not {limit!r}")
    if request.detail not in tool_formats.DETAILS:
        raise InvalidQuery(f"detail is one of {', '.join(tool_formats.DETAILS)}, not {request.detail!r}")
    if request.tool_format not in tool_formats.TOOL_FORMATS:
        raise UnknownName("tool format", str(request.tool_format), tool_formats.TOOL_FORMATS)
    if not isinstance(request.query, str):
        raise InvalidQuery("query must be a text")
    offset: object = request.offset
    if not isinstance(offset, int) or isinstance(offset, bool) or offset < 0:
        raise InvalidQuery(f"offset must be a whole number, 0 or more, not {offset!r}")
    if offset and (request.query.strip() or request.steps):
        raise InvalidQuery("offset goes on in a category; of what fits a query, a larger limit shows more")


_NUMBER = re.compile(r"\d")
"""Nearly every id that a request gives has a digit."""
ROWS = 25
"""Categories, or agents, of one answer."""
_ABOUT_CHARS = 60
_EXAMPLE_CHARS = 40


@dataclass(frozen=True)
class _Search:
    """One request, over the registry that it is made to."""

    request: FindAsked
    scope: resolve.SearchScope
    policy: CallPolicy | None
    why_not: resolve.WhyNot

    @cached_property
    def _judges(self) -> Judging:
        return judging(self.scope.registry, self.policy, self.scope.principal)

    def find(self) -> ToolsAnswer:
        """What fits the query."""
        request = self.request
        recipe = RECIPES.get(request.recipe) if isinstance(request.recipe, str) else request.recipe
        asks_model = recipe is not None and (recipe.walk is not None or bool(recipe.steps_by))
        spare = FAR if asks_model else SPARE  # no model is asked twice
        route = self._route_tools(request.limit + spare)
        candidates = self._judge_matches(route.matches)
        callables = sum(each.judgement.verdict != "deny" for each in candidates)
        if spare < FAR and len(route.matches) >= request.limit + SPARE and callables < request.limit:
            route = self._route_tools(request.limit + FAR)
            candidates = self._judge_matches(route.matches)
        better_agents = list(map(self._agent, route.agents))
        # Without those whose text is in doubt: a model reads it. A skill that can be read is an entry as a tool is.
        agents = {
            each.id: tool_formats.summary(each.description) for each in better_agents if not nouns.is_doubtful(each)
        }
        if not route.nearest:  # else nothing surely fits
            skills = [pair for each in better_agents if each.kind == "skill" and (pair := self._callable(each.id))]
            candidates = [*skills, *candidates]
            agents = {each: about for each, about in agents.items() if each not in {pair.agent.id for pair in skills}}
        facts: dict[str, Any] = {"better_agents": agents} if agents else {}
        # On request all that a walk selected.
        selection = route.walked.selected if request.tells_selection and route.walked else ()
        more = {"selected": list(selection)} if selection else {}
        if not candidates:
            near = resolve.nearest(self.scope, request.query, steps=request.steps, within=request.within)
            hint = "these are the nearest: if one is meant, find it by its name"
            advice = {"nearest": near, "hint": hint} if near else {}
            return ToolsAnswer([], facts | {"reason": route.reason} | advice | notices_field(route) | more)
        # At least one tool a step.
        answer = self._result_of(candidates, max(request.limit, len(route.query.steps)))
        names = {each["name"] for each in answer.tools}
        ids = frozenset(each.tool.id for each in candidates if each.tool.call_name in names)
        facts |= notices_field(route, ids) | more | _tools_by_step(route, answer.tools, request.limit)
        facts |= confidence_field(route.confidence) if answer.tools else {}
        tools = self._add_lessons(answer.tools, facts, route, candidates)
        if request.detail != "names" and not _NUMBER.search(" ".join((request.query, *request.steps))):
            self._add_needs(answer.tools, candidates)
        return ToolsAnswer(tools, {**answer.facts, **facts}, answer.can_run)

    def _add_lessons(
        self,
        answers: Sequence[dict[str, Any]],
        facts: dict[str, Any],
        route: nouns.ToolRoute,
        candidates: Sequence[_JudgedTool],
    ) -> list[dict[str, Any]]:
        """Return the entries and behind them the tools that skills among them teach. A skill that teaches the best tool
        is a notice.
        """
        lessons = {
            each.about[0]: each.about[1:]
            for part in (route, *route.steps)
            for each in part.notices
            if each.code == "skill"
        }
        by_name = {each.tool.call_name: each for each in candidates}
        entries = {each["name"]: each for each in answers}
        best = next(iter(entries.values()), {})
        for skill, tools in lessons.items():
            pairs = [pair for pair in (self._callable(skill), *map(self._callable, tools)) if pair]
            if not pairs or pairs[0].agent.id != skill:
                continue
            read, *others = pairs
            if skill in {by_name[each["name"]].agent.id for each in answers}:
                for each in others:
                    entry = entries.setdefault(each.tool.call_name, self._entry(each, tell_why_not=True))
                    entry["taught_by"] = read.tool.call_name
            elif (
                best
                and by_name[best["name"]].tool.id in tools
                and "skill" not in {each["code"] for each in facts.get("notices", ())}
            ):
                text = f"A skill explains {best['name']}: {skill}; read it with {read.tool.call_name} first."
                facts["notices"] = [*facts.get("notices", ()), {"code": "skill", "text": text}]
        return list(entries.values())

    def _callable(self, name: str) -> _JudgedTool | None:
        """The tool of this id, or that which reads the skill; None: this caller cannot call it from here."""
        with suppress(UnknownName):
            agent = self._agent(owner_of(name))
            each = self._judge(agent, self.scope.tool(name) if is_tool(name) else resolve.reading_tool(agent))
            if not (each.why_not or each.judgement.verdict == "deny" or nouns.is_doubtful(agent)):
                return each
        return None

    def _add_needs(self, entries: Iterable[dict[str, Any]], candidates: Iterable[_JudgedTool]) -> None:
        """To the entry of a tool that requires an id, say which tool of its agent gives it."""
        pairs = {each.tool.call_name: each for each in candidates}
        wanting = [(entry, pairs[entry["name"]]) for entry in entries if required_ids(pairs[entry["name"]].tool)]
        for agent in {pair.agent.id: pair.agent for _, pair in wanting}.values():
            try:
                tools = self.scope.registry.tools(agent.id, principal=self.scope.principal)
            except WaygraphError:  # gone since, or a service that does not list tools for this key: only a hint is lost
                continue
            givers = Givers(self._judges.callable_tools(agent, tools))
            for entry, pair in wanting:
                if pair.agent.id == agent.id and (need := givers.need_of(pair.tool)):
                    entry["needs"] = f"{need.argument} ← {need.tool.call_name}"

    def _agent(self, agent_id: str) -> nouns.Agent:
        return self.scope.registry.agent(agent_id, principal=self.scope.principal)

    def _route_tools(self, limit: int) -> nouns.ToolRoute:
        request = self.request
        query = nouns.Query(
            text=request.query,
            steps=request.steps,
            limit=max(limit, resolve.BORNE_BY) if resolve.is_name_like(request.query) else limit,
            filters=nouns.Filters(within=request.within),
            strict=self._judges.policy.strict,
            history=request.history,
        )
        return self.scope.find_tools(query, request.recipe)

    def _judge_matches(self, matches: Sequence[nouns.ToolMatch]) -> list[_JudgedTool]:
        """In order; a tool that is named outright and waits for approval, which no search finds, before all others.

        It stands in no category.
        """
        query = self.request.query
        in_order = resolve.exact_first(query, resolve.runnable_first(matches, lambda match: self.why_not(match.agent)))
        pairs = [(match.agent, match.tool) for match in in_order]
        is_named = bool(pairs) and resolve.exactness(query, pairs[0][1]) == 0
        if resolve.is_name_like(query) and not (is_named or self.request.within):
            pair = resolve.named_outright(self.scope, query)
            pairs = [pair, *pairs] if pair else pairs
        return [self._judge(agent, tool) for agent, tool in pairs]

    def _judge(self, agent: nouns.Agent, tool: nouns.Tool) -> _JudgedTool:
        return _JudgedTool(agent, tool, self._judges.judge(agent, tool, by_name=True), self.why_not(agent))

    def _result_of(self, candidates: Sequence[_JudgedTool], limit: int) -> ToolsAnswer:
        """As many as wanted that may be called, and those that may not among the best or between them."""
        places = [place for place, each in enumerate(candidates) if each.judgement.verdict != "deny"][:limit]
        last = max(limit, places[-1] + 1) if len(places) == limit else len(candidates)
        refusals = [each for each in candidates[:last] if each.judgement.verdict == "deny"]
        choices = [candidates[place] for place in places]
        some_run = not all(each.why_not for each in choices)
        facts: dict[str, Any] = {}
        if refusals:
            some = refusals[:REFUSED_TOLD]
            facts["not_callable"] = [{"name": each.tool.call_name, "why": each.judgement.reason} for each in some]
        if len(refusals) > REFUSED_TOLD:
            facts["not_callable_more"] = len(refusals) - REFUSED_TOLD
        if choices:
            reasons = "; ".join(dict.fromkeys(each.why_not for each in choices))
            facts["hint"] = self._hint() if some_run else f"none of these can be run from here: {reasons}"
        return ToolsAnswer([self._entry(each, tell_why_not=some_run) for each in choices], facts, some_run)

    def _entry(self, each: _JudgedTool, *, tell_why_not: bool) -> dict[str, Any]:
        request, tool = self.request, each.tool
        version_of_host = request.known.get(tool.call_name) or request.known.get(tool.id) or ""
        entry = tool_formats.describe_tool(tool, request.detail, request.tool_format, version_of_host)
        if each.why_not and tell_why_not:
            entry["cannot_run"] = each.why_not
        if login := request.login_of(each.agent.id):
            entry["login"] = f"needed first: {login}"
        if each.agent.kind == "skill":
            entry |= {"kind": "skill"} | ({"agent": each.agent.id} if tool.name == resolve.READ else {})
        if request.detail == "names":
            return entry
        if each.judgement.verdict == "ask":
            entry["consent"] = "asked of a person at each call"
        if danger_of(each.agent, tool) == "destructive":
            entry["destructive"] = True
        if not nouns.reachable(each.agent.status):
            # Of when it was last asked: a call may yet succeed.
            entry["status"] = nouns.public_status(each.agent.status)
        return entry

    def _hint(self) -> str:
        by = self.request.run_by
        run = f"run one with {by}(name=…, params=…)" if by else "call one by its name"
        return run if self.request.detail == "schema" else f'{run}; detail="schema" tells its parameters in full'

    def survey(self) -> OverviewAnswer:
        request = self.request
        if request.offset:
            raise InvalidQuery(
                "offset goes on in a category of a taxonomy; this answer counts what there is, in one part"
            )
        hint = "say in `query` what you want to do, or name a tool, to find those that fit"
        counts = overview(*self.scope, request.title_of)
        return OverviewAnswer({"overview": counts, "hint": hint})

    def browse(self) -> FindAnswer:
        """Of the category the children; of one without any its agents or tools. Without a taxonomy the overview.

        Raises UnknownName for a category that is not there.
        """
        request = self.request
        filters = nouns.Filters(agent_ids=tuple(sorted(request.agent_ids or ())))
        try:
            view = self.scope.registry.browse(request.within, filters=filters, principal=self.scope.principal)
        except (UnknownName, ServiceFailed) as exc:
            if request.within or (isinstance(exc, UnknownName) and exc.noun != "taxonomy"):
                raise
            return self.survey()  # none is built, or the service is of before
        place: dict[str, Any] = {"within": view.path} if view.path else {}
        place |= {"holds": {view.of.value: view.count}, "by": view.built_by}
        if view.children:
            rows = list(_category_rows(view))
            part = dict(rows[request.offset : request.offset + ROWS])
            return RowsAnswer("categories", part, {**place, **self._next(ROWS, len(rows))})
        tools = view.members if view.of is nouns.Of.TOOLS else self._tools_of_few(view)
        if tools is None:
            ids = view.members[request.offset : request.offset + ROWS]
            part = dict(_member_rows(view, self._list_by_id(ids)))
            return RowsAnswer("members", part, {**place, **self._next(ROWS, len(view.members))})
        answer = self._tools_part(tools)
        return ToolsAnswer(answer.tools, {**place, **answer.facts})

    def _next(self, most: int, total: int) -> dict[str, Any]:
        """Where the next part begins, if there is one."""
        if self.request.offset >= total > 0:
            return {"reason": f"offset is behind the last of {total}"}
        end = self.request.offset + most
        return {"next_offset": end} if end < total else {}

    def _list_by_id(self, agent_ids: Sequence[str]) -> "Sequence[ListedAgent]":
        filters = nouns.Filters(agent_ids=tuple(agent_ids))
        return (
            self.scope.registry.agents_page(filters=filters, principal=self.scope.principal).items if agent_ids else ()
        )

    def _tools_of_few(self, view: "CategoryView") -> list[nouns.Tool] | None:
        """All of one agent, or of several if one answer tells them all."""
        limit = self.request.limit
        if len(view.members) > limit:
            return None
        agents = self._list_by_id(view.members)
        are_few = sum(max(each.tools, 1) for each in agents) <= limit
        all_have_tools = all(each.tools or each.agent.kind == "skill" for each in agents)
        if len(agents) > 1 and not (are_few and all_have_tools):
            return None
        return [tool for each in agents for tool in self._tools_of_agent(each.agent)]

    def _tools_of_agent(self, agent: nouns.Agent) -> list[nouns.Tool]:
        tools = [
            tool for tool in self.scope.registry.tools(agent.id, principal=self.scope.principal) if not tool.pending
        ]
        return tools or ([resolve.reading_tool(agent)] if agent.kind == "skill" else [])

    def _tools_part(self, tools: Sequence[nouns.Tool | str]) -> ToolsAnswer:
        """`tools`: all of a category, each as it is, or its id."""
        request = self.request
        rows = tools[request.offset : request.offset + request.limit]
        part = [self.scope.tool(each) if isinstance(each, str) else each for each in rows]
        owners = {each: self._agent(each) for each in {tool.agent_id for tool in part}}
        answer = self._result_of([self._judge(owners[tool.agent_id], tool) for tool in part], request.limit)
        following = self._next(request.limit, len(tools)) if tools else {"reason": NO_TOOLS}
        return ToolsAnswer(answer.tools, {**following, **answer.facts})


def _tools_by_step(route: nouns.ToolRoute, tools: Iterable[Mapping[str, Any]], limit: int) -> dict[str, Any]:
    """Which of the tools are among the `limit` best of which step of the request, in the steps' order."""
    names = {str(tool["name"]) for tool in tools}
    steps = route.steps[: len(route.query.steps)]
    rows = [[match.tool.call_name for match in step.matches[:limit] if match.tool.call_name in names] for step in steps]
    return {"steps": rows} if rows else {}


def _category_rows(view: "CategoryView") -> Iterator[tuple[str, str]]:
    """Path → such as `12: skyscan, aviato. Fares and seats`; the last one is what stands in no other."""
    from waygraph.registry.taxonomy.tree import HERE, SEPARATOR

    for child in view.children:
        yield child.path, _row(f"{child.count}: {_examples(child.examples)}", child.description)
    if view.members:
        path = f"{view.path}{SEPARATOR}{HERE}" if view.path else HERE
        yield path, _row(f"{len(view.members)}: {_examples(view.members[:2])}", "In none of the others")


def _member_rows(view: "CategoryView", agents: "Iterable[ListedAgent]") -> Iterator[tuple[str, str]]:
    """Of agents whose text is in doubt the path alone: a model reads it."""
    from waygraph.registry.taxonomy.tree import SEPARATOR

    for each in agents:
        path = f"{view.path}{SEPARATOR}{each.agent.id}" if view.path else each.agent.id
        yield path, _row("", "" if nouns.is_doubtful(each.agent) else each.agent.description)


def _examples(ids: Sequence[str]) -> str:
    return ", ".join(each[:_EXAMPLE_CHARS] for each in ids)


def _row(counts: str, description: str) -> str:
    about = " ".join(description.split())
    short = about if len(about) <= _ABOUT_CHARS else about[: _ABOUT_CHARS - 1].rsplit(" ", 1)[0] + "…"
    return ". ".join(filter(None, (counts, short)))


def capabilities(registry: "Searchable") -> dict[str, Any]:
    """As JSON has it. `backends`: what tools are found by."""
    return {
        "backends": ["keyword", "embedding"] if registry.status().state.embedder else ["keyword"],
        "recipes": {name: recipe.purpose for name, recipe in RECIPES.items() if recipe.ranks_tools},
        "default_recipe": DEFAULT_RECIPE,
        "formats": list(tool_formats.TOOL_FORMATS),
        "details": list(tool_formats.DETAILS),
        "limits": {
            "default": FindAsked().limit,
            "max": MAX_LIMIT,
            "max_query_chars": registry.settings.max_query_chars,
            "summary_chars": tool_formats.SUMMARY_CHARS,
            "parameters_told": tool_formats.PARAMETERS_TOLD,
        },
    }
