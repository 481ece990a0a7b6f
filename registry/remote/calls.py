"""Each method of a registry as what is asked of a service. Nothing here is sent: both clients do that.

The signatures here are those of the clients' methods, which are made of these functions.
Names, filters and settings are checked here as the registry itself does it, so that a mistake is the same error.
"""

import json
import re
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial, wraps
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, urlencode

from waygraph.registry.catalog.find_tools.find import rank_tools
from waygraph.registry.http.problems import error_of
from waygraph.registry.model import shapes, validation
from waygraph.registry.model.changes import (
    About,
    Approved,
    Change,
    CypherResult,
    Document,
    Forgotten,
    KeySummary,
    ListedAgent,
    NewKey,
    OperatorSettings,
    Page,
    Policy,
    Rejections,
    SourceSummary,
    Status,
    SyncReport,
    Waiting,
    Written,
)
from waygraph.registry.model.errors import (
    CypherRefused,
    InvalidQuery,
    InvalidSetting,
    SourceError,
    UnknownName,
    WaygraphError,
)
from waygraph.registry.model.identity import is_broken
from waygraph.registry.model.nouns import Agent, Filters, Mode, Principal, Query, Route, TextForm, Tool, ToolRoute
from waygraph.registry.model.pictures import Map, Neighbourhood, check_neighbourhood
from waygraph.registry.model.tool_calls import RankedTool, RankedTools, ToolName, ToolResult, name_of
from waygraph.registry.model.usage import (
    SearchGaps,
    Sort,
    ToolUsage,
    UsageBy,
    UsageOf,
    UsagePart,
    check_days,
    check_usage,
)
from waygraph.registry.operators.toolset import Toolset, stated_toolset
from waygraph.registry.remote import operations
from waygraph.registry.remote.operations import Operation
from waygraph.registry.routing.placement import Placement
from waygraph.registry.routing.recipes import BY_OPERATOR, DEFAULT_RECIPE, HYBRID, RECIPES, Recipe, Rerank, with_rerank
from waygraph.registry.routing.router import Ask, without_history
from waygraph.registry.taxonomy.tree import CategoryView, Drift, Taxonomy

if TYPE_CHECKING:
    from waygraph.registry.storage.export.formats import ExportFormat


type Params = tuple[tuple[str, str], ...]
"""Of a query: names and values."""
_WHOLE: Params = (("schema", "true"),)
"""With the schemas of tools."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back, whole. `headers` by their names in small letters."""

    status: int
    headers: Mapping[str, str]
    content: bytes

    def json(self) -> Any:
        """Raises ValueError, RecursionError for what is no JSON."""
        return json.loads(self.content)

    def text(self) -> str:
        """Raises ValueError for what is no UTF-8."""
        return self.content.decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Call[T]:
    """`read` makes the answer of a good reply; whatever else it raises, KeyError, TypeError and ValueError mean that
    the reply is none.
    """

    method: str
    path: str
    params: Params = ()
    json: object = None
    """The body; None: there is none."""
    read: Callable[[Reply], T]
    safe: bool
    """Whether it changes nothing, so that it may be sent twice."""
    slow: bool = False
    """Whether the answer may take as long as a write does."""
    refused: Callable[[str], WaygraphError] = InvalidQuery
    """The error for a request that the service does not take as it is."""
    headers: Mapping[str, str] = MappingProxyType({})
    """Beside those of every call."""

    @property
    def target(self) -> str:
        """Path and query."""
        return f"{self.path}?{urlencode(self.params)}" if self.params else self.path

    @property
    def body(self) -> bytes | None:
        """JSON in ASCII: half of a surrogate pair stays what it is."""
        return None if self.json is None else json.dumps(self.json, separators=(",", ":"), allow_nan=False).encode()


type Talk[T] = Generator[Call[Any], Any, T]
"""Several calls, one after the other: each is sent when it is given out, and its answer or error handed back in."""


@dataclass(frozen=True, slots=True)
class IngestReports:
    """What became of a source: a report for each manifest it held, up to the first that was not taken, and why."""

    reports: tuple[SyncReport, ...]
    error: WaygraphError | None = None

    def all(self) -> list[SyncReport]:
        """Raises the error if there is one."""
        if self.error:
            raise self.error
        return list(self.reports)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ingest:
    """What a service takes after it has answered, as it stands now: queued, running, done or failed. Times are in
    ISO 8601; empty: not yet.

    `reports`: of the manifests that were taken, and why others were not. `id` empty: the service knows no later, and
    has taken it.
    """

    id: str
    state: str
    source: str = ""
    arrival_time: str = ""
    start_time: str = ""
    end_time: str = ""
    reports: IngestReports

    @property
    def has_ended(self) -> bool:
        return self.state in ("done", "failed")


# -- asking --------------------------------------------------------------------------------------------


def route(
    query: str | Query,
    *,
    limit: int | None = None,
    recipe: str | Recipe = DEFAULT_RECIPE,
    agent_weight: float | None = None,
    tool_weight: float | None = None,
    principal: Principal | None = None,
) -> Call[Route]:
    full_query = validation.check_query(query, None, limit)
    body = _route_json(full_query, recipe, agent_weight, tool_weight)
    call = _call(operations.ROUTE, principal=principal, body=body)
    return _read(call, lambda document: _as_asked(shapes.read(Route, document), full_query))


def why(
    name: str,
    query: str | Query,
    *,
    limit: int | None = None,
    recipe: str | Recipe = DEFAULT_RECIPE,
    agent_weight: float | None = None,
    tool_weight: float | None = None,
    principal: Principal | None = None,
) -> Call[Placement]:
    _segment("tool" if "/" in name else "agent", name)  # what no service takes is no name
    body = _route_json(validation.check_query(query, None, limit), recipe, agent_weight, tool_weight)
    return _call(operations.WHY, principal=principal, body={**body, "id": name})


def _route_json(
    query: Query, recipe: str | Recipe, agent_weight: float | None, tool_weight: float | None
) -> dict[str, object]:
    service_recipe = _service_recipe(recipe)
    Ask.of(RECIPES.get(service_recipe.name, HYBRID), agent_weight, tool_weight, None)
    own_weights = {"agent_weight": agent_weight, "tool_weight": tool_weight}
    weights = {kind: weight for kind, weight in own_weights.items() if weight is not None}
    return {**_query_json(query, service_recipe), **weights}


def find_tools(
    query: str | Query,
    *,
    limit: int | None = None,
    agent_ids: Sequence[str] | None = None,
    recipe: str | Recipe = DEFAULT_RECIPE,
    principal: Principal | None = None,
) -> Call[ToolRoute]:
    full_query = validation.checked_for_tools(query, limit, agent_ids, limits=None)
    return _search_tools(full_query, recipe, principal, lambda _, route: route)


def find(
    query: str | Query,
    *,
    limit: int | None = None,
    agent_ids: Sequence[str] | None = None,
    recipe: str | Recipe = DEFAULT_RECIPE,
    principal: Principal | None = None,
) -> Call[RankedTools]:
    """As `find_tools`; each tool says whether it can run there, and why not."""
    full_query = validation.checked_for_tools(query, limit, agent_ids, limits=None)

    def rank(matches: Any, route: ToolRoute) -> RankedTools:
        return rank_tools((shapes.read(RankedTool, each) for each in matches), route)

    return _search_tools(full_query, recipe, principal, rank)


def _search_tools[R](
    query: Query, recipe: str | Recipe, principal: Principal | None, finish: Callable[[Any, ToolRoute], R]
) -> Call[R]:
    """`finish`: of the matches as the service has them, and the route that they are of."""
    call = _call(operations.SEARCH_TOOLS, principal=principal, body=_query_json(query, _service_recipe(recipe)))
    return _read(call, lambda answer: finish(answer["matches"], _as_asked(shapes.read(ToolRoute, answer), query)))


def call_tool(
    tool: ToolName,
    arguments: Mapping[str, Any] = MappingProxyType({}),
    *,
    timeout_s: float | None = None,
    consent: str = "",
    for_model: bool = False,
    principal: Principal | None = None,
) -> Call[ToolResult]:
    """Runs a tool through the service's gateway. Raises NotCallable, InvalidArguments, CallTimedOut, UpstreamError."""
    body = {"arguments": dict(arguments), "timeout_s": timeout_s, "consent": consent, "for_model": for_model}
    name = name_of(tool)
    path = "/".join(_tool_segments(name)) if "/" in name else _segment("tool", name)
    call = _read(_call(operations.CALL_TOOL, path, principal=principal, body=body), ToolResult.read)
    return replace(call, refused=InvalidQuery)


def _as_asked[R: (Route, ToolRoute)](route: R, query: Query) -> R:
    """With the query as it was asked, and the steps into which the service split it."""
    return replace(route, query=replace(without_history(query), steps=route.query.steps))


def cypher(statement: str, params: Mapping[str, object] | None = None) -> Call[CypherResult]:
    from waygraph.registry.graph.user_cypher.sandbox import checked_params

    body = {"statement": statement, "params": checked_params(params or {})}
    return replace(_call(operations.CYPHER, body=body), refused=CypherRefused)


def draw_map(*, principal: Principal | None = None) -> Call[Map]:
    return replace(_call(operations.MAP, principal=principal), slow=True)


def neighbourhood(
    around: Sequence[str], *, kinds: Sequence[str] = (), limit: int = 60, principal: Principal | None = None
) -> Call[Neighbourhood]:
    check_neighbourhood(around, kinds, limit)
    params = (*(("around", node) for node in around), *(("kinds", kind) for kind in kinds), ("limit", str(limit)))
    return _call(operations.GRAPH, principal=principal, params=params)


# -- looking -------------------------------------------------------------------------------------------


def agents(*, principal: Principal | None = None) -> Talk[list[Agent]]:
    page = yield from agents_page(principal=principal)
    return [entry.agent for entry in page.items]


def agents_page(
    *,
    filters: Filters = Filters(),  # noqa: B008 - frozen
    after: str = "",
    limit: int | None = None,
    principal: Principal | None = None,
) -> Talk[Page[ListedAgent]]:
    """In parts as large as a service gives; each is of one revision, and the page says that of the last."""
    call = _call(operations.AGENTS, principal=principal, params=_filter_params(validation.checked_filters(filters)))
    return (yield from _parts(_read(call, shapes.read_agents), after, limit))


def browse(
    path: str = "",
    *,
    filters: Filters = Filters(),  # noqa: B008 - frozen
    principal: Principal | None = None,
) -> Call[CategoryView]:
    params = (("path", validation.checked_path(path)), *_filter_params(validation.checked_filters(filters)))
    return _call(operations.TAXONOMY, principal=principal, params=params)


def _filter_params(filters: Filters) -> Params:
    lists = validation.FILTER_LISTS.items()
    params = tuple((name, value) for name, field in lists for value in getattr(filters, field))
    reachable = "true" if filters.reachable else ""
    return params + _set_params(reachable=reachable, within=filters.within, toolset=filters.toolset)


def tools(
    agent_id: str | None = None, *, after: str = "", limit: int | None = None, principal: Principal | None = None
) -> Talk[Page[Tool]]:
    """As `agents_page`."""
    if agent_id is None:
        call = _call(operations.TOOLS, principal=principal, params=_WHOLE)
    else:
        call = _call(operations.AGENT_TOOLS, _segment("agent", agent_id), principal=principal, params=_WHOLE)
    return (yield from _parts(_read(call, shapes.read_tools), after, limit))


def agent(agent_id: str, *, principal: Principal | None = None) -> Call[Agent]:
    call = _call(operations.AGENT, _segment("agent", agent_id), principal=principal)
    return _read(call, lambda document: shapes.read(Agent, document["agent"]))


def about(agent_id: str, *, principal: Principal | None = None) -> Call[About]:
    call = _call(operations.AGENT, _segment("agent", agent_id), principal=principal, params=_WHOLE)
    return _read(call, partial(shapes.read, About))


def tool(name: str, *, principal: Principal | None = None) -> Call[Tool]:
    if "/" in name:
        call = _call(operations.TOOL, *_tool_segments(name), principal=principal, params=_WHOLE)
    else:
        call = _call(operations.TOOL_CALLED, _segment("tool", name), principal=principal, params=_WHOLE)
    return _read(call, partial(shapes.read, Tool))


def lookup(name: str, *, principal: Principal | None = None) -> Talk[Agent | Tool]:
    entity: Agent | Tool
    try:
        entity = yield agent(name, principal=principal) if "/" not in name else tool(name, principal=principal)
    except UnknownName as no_agent:
        if "/" in name:
            raise
        try:
            entity = yield tool(name, principal=principal)
        except UnknownName as no_tool:
            raise (no_tool if "__" in name else no_agent) from None
    return entity


def toolsets(*, principal: Principal | None = None) -> Call[list[Toolset]]:
    return _read_list(Toolset, "toolsets", _call(operations.TOOLSETS, principal=principal))


def toolset(name: str, *, principal: Principal | None = None) -> Call[Toolset]:
    return _call(operations.TOOLSET, _segment("toolset", name), principal=principal)


def sources(*, principal: Principal | None = None) -> Call[list[SourceSummary]]:
    return _read(_call(operations.SOURCES, principal=principal), shapes.read_sources)


def changes(
    *,
    since: str = "",
    agent_id: str = "",
    after: str = "",
    limit: int | None = 100,
    principal: Principal | None = None,
) -> Talk[Page[Change]]:
    """As `agents_page`."""
    from waygraph.registry.catalog.change_log import ChangesQuery

    query = ChangesQuery.of(since, agent_id, after, limit)
    params = _set_params(since=query.since, agent=query.agent_id)
    call = _call(operations.CHANGES, principal=principal, params=params)
    return (yield from _parts(_read(call, shapes.read_changes), after, limit, falling=True))


def waiting(*, after: str = "", limit: int | None = None, principal: Principal | None = None) -> Talk[Page[Waiting]]:
    """As `agents_page`."""
    call = _call(operations.WAITING, principal=principal)
    return (yield from _parts(_read(call, shapes.read_waiting), after, limit))


def usage(
    *, agent_id: str = "", sort: Sort = "calls", limit: int = 100, principal: Principal | None = None
) -> Call[list[ToolUsage]]:
    check_usage(sort, limit)
    params = _set_params(sort=sort, limit=str(limit), agent=agent_id)
    return _read_list(ToolUsage, "usage", _call(operations.USAGE, principal=principal, params=params))


def usage_days(*, of: UsageOf = "tool", by: UsageBy = "day", name: str = "", days: int = 30) -> Call[list[UsagePart]]:
    check_days(of, by, days)
    params = _set_params(of=of, by=by, name=name, days=str(days))
    return _read_list(UsagePart, "usage", _call(operations.USAGE_DAYS, params=params))


def search_gaps() -> Call[SearchGaps]:
    return _call(operations.SEARCH_GAPS)


def api_keys() -> Call[list[KeySummary]]:
    return _read_list(KeySummary, "keys", _call(operations.KEYS))


def create_key(
    name: str,
    scopes: Sequence[str],
    groups: Sequence[str] = (),
    *,
    everything: bool = False,
    toolset: str = "",
    expires_in_days: float | None = None,
) -> Call[NewKey]:
    return _call(operations.CREATE_KEY, body=locals())


def revoke_key(key_id: str) -> Call[KeySummary]:
    return _call(operations.REVOKE_KEY, _segment("key", key_id))


def status(*, principal: Principal | None = None) -> Call[Status]:
    return _read(_call(operations.STATUS, principal=principal), shapes.read_status)


def stamp() -> Call[str]:
    return _read_reply(_call(operations.STATUS), lambda reply: reply.headers["etag"].strip('"'))


def export(format: "ExportFormat") -> Call[str]:  # noqa: A002 - what every caller calls it
    from waygraph.registry.storage.export.formats import FORMATS

    if format not in FORMATS:
        raise UnknownName("export format", format, FORMATS)
    return replace(_call(operations.EXPORT, params=_set_params(format=format)), read=Reply.text, slow=True)


# -- writing -------------------------------------------------------------------------------------------


def take(
    documents: Sequence[Document],
    *,
    source: str,
    namespace: str = "",
    kind: str = "",
    policy: Policy | None = None,
    texts: TextForm | None = None,
    partial: bool = False,
    dry_run: bool = False,
    allow_mass_removal: bool = False,
) -> Call[IngestReports]:
    """As `ingest`, where the error of a later manifest stands beside the reports of those before it."""
    document_rows = [
        {"name": each.name, "unreadable": each.unreadable}
        if each.unreadable
        else {"name": each.name, "text": each.text}
        for each in documents
    ]
    body = {
        "source": source,
        "documents": document_rows,
        "namespace": namespace,
        "kind": kind,
        "policy": policy,
        "texts": texts,
        "partial": partial,
        "dry_run": dry_run,
        "allow_mass_removal": allow_mass_removal,
    }
    call = _call(operations.MANIFESTS, body=body)
    return replace(_read(call, _read_reports), safe=dry_run, refused=lambda reason: SourceError(source, reason))


def _reports[**P](take: Callable[P, Call[IngestReports]]) -> Callable[P, Talk[list[SyncReport]]]:
    """Brings the registry to what a source says now, which the service reads and embeds: a report for each manifest,
    several of an export.

    `partial`: what the documents do not list is not removed. Raises SourceError, MassRemoval, InvalidSetting and
    what a write raises; see `take` for what was done before that.
    """

    @wraps(take)
    def talk(*args: P.args, **options: P.kwargs) -> Talk[list[SyncReport]]:
        receipt: IngestReports = yield take(*args, **options)
        return receipt.all()

    talk.__doc__ = _reports.__doc__
    return talk


ingest = _reports(take)


def _later[**P](take: Callable[P, Call[IngestReports]]) -> Callable[P, Call[Ingest]]:
    """As `ingest`, but the service takes the documents when their turn comes, and answers at once: `ingest_status`
    says how they stand. Raises ServiceBusy if too many wait. A service that stops fails what waits.
    """

    @wraps(take)
    def start(*args: P.args, **options: P.kwargs) -> Call[Ingest]:
        return replace(_read(take(*args, **options), _read_ingest), headers={"Prefer": "respond-async"})

    start.__name__, start.__doc__ = "start_ingest", _later.__doc__
    return start


start_ingest = _later(take)


def ingest_status(ingest_id: str) -> Call[Ingest]:
    """How an ingest stands that `start_ingest` began. Raises UnknownName, also for one that others sent."""
    return _read(_call(operations.INGEST, _segment("ingest", ingest_id)), _read_ingest)


def approve(*names: str, hashes: Mapping[str, str] | None = None, principal: Principal | None = None) -> Call[Approved]:
    return _call(operations.APPROVE, principal=principal, body=_decision_body("approve", names, hashes))


def _decision_body(doing: str, names: Sequence[str], hashes: Mapping[str, str] | None) -> dict[str, Any]:
    from waygraph.registry.operators.approval import checked_names

    unique_names = checked_names(names, doing, hashes)
    return {"hashes": dict(hashes)} if hashes else {"names": unique_names}


def reject(
    *names: str,
    reason: str,
    by: str = "",
    hashes: Mapping[str, str] | None = None,
    principal: Principal | None = None,
) -> Call[Rejections]:
    from waygraph.registry.operators.approval import checked_reason

    if by:
        raise InvalidQuery("a service notes the caller of the key that it is shown: nobody else can be named")
    body = {**_decision_body("reject", names, hashes), "reason": checked_reason(reason)}
    return _call(operations.REJECT, principal=principal, body=body)


def set_agent(
    agent_id: str,
    *,
    tags: Sequence[str] | None = None,
    visible_to: Sequence[str] | None = None,
    everyone: bool = False,
    pinned: bool | None = None,
    hidden: bool | None = None,
    removed: bool | None = None,
    principal: Principal | None = None,
) -> Call[OperatorSettings]:
    """`removed=True` goes by itself (InvalidSetting)."""
    changes = validation.setting_changes(
        tags=tags, visible_to=visible_to, everyone=everyone, pinned=pinned, hidden=hidden, removed=removed
    )
    if removed:
        if len(changes) > 1:
            raise InvalidSetting("over HTTP an agent is removed by itself: set the rest before, in a call of its own")
        return remove(agent_id, principal=principal)
    body = changes or {"pinned": None}  # nothing to set, said so that the service takes it
    return _call(operations.SET_AGENT, _segment("agent", agent_id), principal=principal, body=body)


def set_tool(name: str, changes: Mapping[str, Any], *, principal: Principal | None = None) -> Call[OperatorSettings]:
    """`name` is a tool's id (UnknownName)."""
    return _call(operations.SET_TOOL, *_tool_segments(name), principal=principal, body=changes)


def remove(agent_id: str, *, principal: Principal | None = None) -> Call[OperatorSettings]:
    return _call(operations.REMOVE_AGENT, _segment("agent", agent_id), principal=principal)


def set_toolset(
    name: str,
    *,
    description: str = "",
    tools: Sequence[str] = (),
    agents: Sequence[str] = (),
    tags: Sequence[str] = (),
    callers: Sequence[str] = (),
    principal: Principal | None = None,
) -> Call[Toolset]:
    new = stated_toolset(name, description=description, tools=tools, agents=agents, tags=tags, callers=callers)
    return _call(operations.SET_TOOLSET, _segment("toolset", new.name), principal=principal, body=new.rule)


def remove_toolset(name: str, *, principal: Principal | None = None) -> Call[Written]:
    return _call(operations.REMOVE_TOOLSET, _segment("toolset", name), principal=principal)


def use_taxonomy(name: str, *, principal: Principal | None = None) -> Call[Written]:
    return _call(operations.USE_TAXONOMY, principal=principal, body={"name": name})


def taxonomy(name: str | None = None, *, principal: Principal | None = None) -> Call[Taxonomy]:
    call = _call(operations.TAXONOMY_TREE, principal=principal, params=_set_params(name=name or ""))
    return _read(call, Taxonomy.of_json)


def taxonomies() -> Call[list[Drift]]:
    return _read_list(Drift, "taxonomies", _call(operations.TAXONOMIES))


def sync_source(name: str) -> Call[list[SyncReport]]:
    """Reads a source now that the service follows, and asks its servers: a report. Raises UnknownName, and
    InvalidSetting with what to do for one that it does not follow; SourceError, MassRemoval and what a write raises.
    """
    segment = _segment("source", name, most_chars=validation.MAX_NAME_CHARS)
    return _read(_call(operations.SYNC_SOURCE, segment), lambda document: _read_reports(document).all())


def forget(source: str, *, principal: Principal | None = None) -> Call[Forgotten]:
    segment = _segment("source", source, most_chars=validation.MAX_NAME_CHARS)
    return _call(operations.FORGET_SOURCE, segment, principal=principal)


# -- inside --------------------------------------------------------------------------------------------


def _call[T](
    operation: Operation[T],
    *segments: str,
    principal: Principal | None = None,
    params: Params = (),
    body: Mapping[str, object] | None = None,
) -> Call[T]:
    """`segments` fill the path, in order. The answer is read as the operation's noun. Raises InvalidQuery."""
    if principal is not None:
        raise InvalidQuery(
            "a service decides by the key that it is shown who asks, so nobody else can be named (a principal, or "
            "its groups): ask with that caller's key"
        )
    values = iter(segments)
    return Call(
        method=operation.method,
        path=re.sub(r"\{.*?\}", lambda _: next(values), operation.path),
        params=params,
        json=body,
        read=lambda reply: shapes.read(operation.answer, reply.json()),
        safe=not operation.is_write,
        slow=operation.is_write,
        refused=InvalidSetting if operation.is_write else InvalidQuery,
    )


def _read[T](call: Call[Any], read: Callable[[Any], T]) -> Call[T]:
    """The call, whose answer is read by this function of its JSON."""
    return _read_reply(call, lambda reply: read(reply.json()))


def _read_list[T](kind: type[T], name: str, call: Call[Any]) -> Call[list[T]]:
    return _read(call, lambda document: [shapes.read(kind, each) for each in document[name]])


def _read_reply[T](call: Call[Any], read: Callable[[Reply], T]) -> Call[T]:
    return replace(call, read=read)


def _set_params(**values: str) -> Params:
    """Those that are not empty."""
    return tuple((name, value) for name, value in values.items() if value)


class _ServiceRecipe(NamedTuple):
    """A recipe as a service takes it: by name, whether its own reranker is to follow, the mode of its walk, and whether
    its own model is to split.
    """

    name: str
    is_reranked: bool = False
    mode: str = ""
    is_split: bool = False


def _query_json(query: Query, recipe: _ServiceRecipe) -> dict[str, object]:
    filters = query.filters
    return {
        **({"text": query.text} if query.text else {}),
        **({"steps": query.steps} if query.steps else {}),
        "limit": query.limit,
        "recipe": recipe.name,
        "filters": {
            **{field: values for field in validation.FILTER_LISTS.values() if (values := getattr(filters, field))},
            "reachable": filters.reachable,
            # A service of before does not know these.
            **dict(_set_params(within=filters.within, toolset=filters.toolset)),
        },
        "explain": True,
        "schema": True,
        # Nor any of these.
        **({"rerank": True} if recipe.is_reranked else {}),
        **({"mode": recipe.mode} if recipe.mode else {}),
        **({"by_steps": True} if recipe.is_split else {}),
        **({"strict": True} if query.strict else {}),
        **({"history": [asdict(turn) for turn in query.history]} if query.history else {}),
    }


def _id_of(following: str) -> str:
    try:
        return validation.after(following)
    except InvalidQuery as exc:  # what the service says is at fault, not who asks
        raise ValueError(following) from exc


def _parts[T](call: Call[Page[T]], after: str, limit: int | None, *, falling: bool = False) -> Talk[Page[T]]:
    """Parts put together until there are `limit`, or no more. `falling`: the list is in falling order of id.

    In `following` the service's cursor becomes an id again.
    """
    if limit is not None:
        validation.check_limit(limit)

    def read(reply: Reply) -> Page[T]:
        page = call.read(reply)
        return replace(page, following=_id_of(page.following))

    items: list[T] = []
    while True:
        most = validation.MAX_PART if limit is None else min(validation.MAX_PART, limit - len(items))
        place = _set_params(limit=str(most), cursor=validation.cursor(after))
        page: Page[T] = yield replace(call, read=read, params=(*call.params, *place))
        items += page.items
        goes_on = page.following and (not after or page.following < after if falling else page.following > after)
        if not goes_on or len(items) == limit:
            return replace(page, items=tuple(items))
        after = page.following


def _read_reports(document: Mapping[str, Any]) -> IngestReports:
    problem = document["problem"]
    return IngestReports(
        tuple(map(shapes.read_report, document["reports"])), error_of(problem, "the service") if problem else None
    )


def _read_ingest(document: Mapping[str, Any]) -> Ingest:
    """A service of before knows no later: it answers with the reports."""
    reports = _read_reports(document)
    if "state" not in document:
        return Ingest(id="", state="failed" if reports.error else "done", reports=reports)
    texts = ("id", "state", "source", "arrival_time", "start_time", "end_time")
    return Ingest(reports=reports, **{name: str(document[name]) for name in texts})


def _service_recipe(recipe: str | Recipe) -> _ServiceRecipe:
    """Raises InvalidQuery for a recipe that is none of the known ones, or is no recipe."""
    if isinstance(recipe, str):
        return _ServiceRecipe(recipe)
    Ask.of(recipe, None, None, None)
    is_split = recipe.steps_by == BY_OPERATOR
    plain = replace(recipe, steps_by="") if is_split else recipe
    mode = recipe.walk.mode if recipe.walk else Mode.ALL
    plain = replace(plain, walk=replace(recipe.walk, mode=Mode.ALL)) if recipe.walk else plain
    for each in RECIPES.values():
        if plain in (each, with_rerank(each, Rerank(spec=BY_OPERATOR))):
            return _ServiceRecipe(each.name, plain != each, "" if mode is Mode.ALL else mode, is_split)
    raise InvalidQuery(
        f"a service takes recipes by name, and {recipe.name!r} is not one that it knows as it is here (a reranker "
        f"other than its own, which is {BY_OPERATOR!r}, and other weights or legs need the registry itself)"
    )


def _tool_segments(name: str) -> tuple[str, str]:
    owner, _, rest = name.partition("/")
    return _segment("agent", owner), _segment("tool", rest, name)


def _segment(noun: str, name: str, whole: str = "", *, most_chars: int = validation.MAX_ID_CHARS) -> str:
    """A name as part of a path. Raises UnknownName for what no path can hold, and nothing is called.

    Dots are escaped too: `..` would mean another path.
    """
    if not name or len(name) > most_chars or is_broken(name) or (noun == "agent" and "/" in name):
        raise UnknownName(noun, whole or name, ())
    return quote(name, safe="").replace(".", "%2E")
