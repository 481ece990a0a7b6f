"""Each method of a registry as what is asked of a service. Nothing here is sent: both clients do that.

The signatures here are those of the clients' methods, which are made of these functions.
Names, filters and settings are checked here as the registry itself does it, so that a mistake is the same error.
"""

import json
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, urlencode

from waygraph.registry.http.problems import error_of
from waygraph.registry.model import shapes
from waygraph.registry.model.changes import (
    About,
    Approved,
    Change,
    CypherResult,
    Document,
    Forgotten,
    ListedAgent,
    OperatorSettings,
    Page,
    Policy,
    SourceSummary,
    Status,
    SyncReport,
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
from waygraph.registry.model.nouns import Agent, Filters, Principal, Query, Route, TextForm, Tool, ToolRoute
from waygraph.registry.model.usage import Sort, ToolUsage, check_usage
from waygraph.registry.model.validation import (
    MAX_ID_CHARS,
    MAX_NAME_CHARS,
    MAX_PART,
    check_limit,
    check_query,
    checked_filters,
    checked_for_tools,
    checked_path,
    cursor,
    setting_changes,
)
from waygraph.registry.model.validation import after as id_of
from waygraph.registry.operators.toolset import Toolset, stated_toolset
from waygraph.registry.routing.recipes import BY_OPERATOR, DEFAULT_RECIPE, HYBRID, RECIPES, Recipe, Rerank, with_rerank
from waygraph.registry.routing.router import Ask, without_history
from waygraph.registry.taxonomy.tree import CategoryView

if TYPE_CHECKING:
    from waygraph.registry.storage.export.formats import ExportFormat


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
    params: tuple[tuple[str, str], ...] = ()
    json: object = None
    """The body; None: there is none."""
    read: Callable[[Reply], T]
    safe: bool
    """Whether it changes nothing, so that it may be sent twice."""
    slow: bool = False
    """Whether the answer may take as long as a write does."""
    refused: Callable[[str], WaygraphError] = InvalidQuery
    """The error for a request that the service does not take as it is."""

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
    _refuse_principal(principal)
    service_recipe = _service_recipe(recipe)
    Ask.of(RECIPES.get(service_recipe.name, HYBRID), agent_weight, tool_weight, None)
    full_query = check_query(query, None, limit)
    own_weights = {"agent_weight": agent_weight, "tool_weight": tool_weight}
    weights = {kind: weight for kind, weight in own_weights.items() if weight is not None}
    subject = {"steps": full_query.steps} if full_query.steps else {"text": full_query.text}

    def read(reply: Reply) -> Route:
        return replace(shapes.read(Route, reply.json()), query=without_history(full_query))

    return _asking("/v1/route", {**subject, **_query_json(full_query, service_recipe), **weights}, read)


def find_tools(
    query: str | Query,
    *,
    limit: int | None = None,
    agent_ids: Sequence[str] | None = None,
    recipe: str | Recipe = DEFAULT_RECIPE,
    principal: Principal | None = None,
) -> Call[ToolRoute]:
    _refuse_principal(principal)
    full_query = checked_for_tools(query, limit, agent_ids, limits=None)

    def read(reply: Reply) -> ToolRoute:
        return replace(shapes.read(ToolRoute, reply.json()), query=without_history(full_query))

    return _asking(
        "/v1/tools/search", {"text": full_query.text, **_query_json(full_query, _service_recipe(recipe))}, read
    )


def cypher(statement: str, params: Mapping[str, object] | None = None) -> Call[CypherResult]:
    from waygraph.registry.graph.user_cypher.sandbox import checked_params

    body = {"statement": statement, "params": checked_params(params or {})}
    call = _asking("/v1/cypher", body, lambda reply: shapes.read(CypherResult, reply.json()))
    return replace(call, refused=CypherRefused)


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
    _refuse_principal(principal)
    full_filters = checked_filters(filters)
    params = _filter_params(full_filters)
    return (yield from _parts(partial(_part, "/v1/agents", params, shapes.read_agents), after, limit))


def browse(
    path: str = "",
    *,
    filters: Filters = Filters(),  # noqa: B008 - frozen
    principal: Principal | None = None,
) -> Call[CategoryView]:
    _refuse_principal(principal)
    params = (("path", checked_path(path)), *_filter_params(checked_filters(filters)))
    return _looking("/v1/taxonomy", lambda reply: shapes.read(CategoryView, reply.json()), params)


_PLACES = ("within", "toolset")
"""Filters that a service of before does not know: they are sent where they are set."""


def _filter_params(filters: Filters) -> tuple[tuple[str, str], ...]:
    fields = (("tag", filters.tags), ("kind", filters.kinds), ("agent", filters.agent_ids))
    params = tuple((name, value) for name, values in fields for value in values)
    params += (("reachable", "true"),) if filters.reachable else ()
    return params + tuple((name, value) for name in _PLACES if (value := getattr(filters, name)))


def tools(
    agent_id: str | None = None, *, after: str = "", limit: int | None = None, principal: Principal | None = None
) -> Talk[Page[Tool]]:
    """As `agents_page`."""
    _refuse_principal(principal)
    path = f"/v1/agents/{_segment('agent', agent_id)}/tools" if agent_id is not None else "/v1/tools"
    return (yield from _parts(partial(_part, path, (("schema", "true"),), shapes.read_tools), after, limit))


def agent(agent_id: str, *, principal: Principal | None = None) -> Call[Agent]:
    _refuse_principal(principal)
    return _looking(_agent_path(agent_id), lambda reply: shapes.read(Agent, reply.json()["agent"]))


def about(agent_id: str, *, principal: Principal | None = None) -> Call[About]:
    _refuse_principal(principal)
    return _looking(_agent_path(agent_id), lambda reply: shapes.read(About, reply.json()), (("schema", "true"),))


def tool(name: str, *, principal: Principal | None = None) -> Call[Tool]:
    _refuse_principal(principal)
    owner, slash, rest = name.partition("/")
    if slash:
        path = f"/v1/tools/{_segment('agent', owner)}/{_segment('tool', rest, name)}"
    else:
        path = f"/v1/tools/{_segment('tool', name)}"
    return _looking(path, lambda reply: shapes.read(Tool, reply.json()), (("schema", "true"),))


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
    _refuse_principal(principal)
    return _looking("/v1/toolsets", lambda reply: [shapes.read(Toolset, each) for each in reply.json()["toolsets"]])


def toolset(name: str, *, principal: Principal | None = None) -> Call[Toolset]:
    _refuse_principal(principal)
    return _looking(_toolset_path(name), _read_toolset)


def _read_toolset(reply: Reply) -> Toolset:
    return shapes.read(Toolset, reply.json())


def _toolset_path(name: str) -> str:
    return f"/v1/toolsets/{_segment('toolset', name)}"


def sources(*, principal: Principal | None = None) -> Call[list[SourceSummary]]:
    _refuse_principal(principal)
    return _looking("/v1/sources", lambda reply: shapes.read_sources(reply.json()))


def changes(
    *,
    since: str = "",
    agent_id: str = "",
    after: str = "",
    limit: int | None = 100,
    principal: Principal | None = None,
) -> Talk[Page[Change]]:
    """As `agents_page`."""
    from waygraph.registry.catalog.queries import ChangesQuery

    _refuse_principal(principal)
    query = ChangesQuery.of(since, agent_id, after, limit)
    fields = (("since", query.since), ("agent", query.agent_id))
    params = tuple((name, value) for name, value in fields if value)
    return (yield from _parts(partial(_part, "/v1/changes", params, shapes.read_changes), after, limit, falling=True))


def usage(
    *, agent_id: str = "", sort: Sort = "calls", limit: int = 100, principal: Principal | None = None
) -> Call[list[ToolUsage]]:
    _refuse_principal(principal)
    check_usage(sort, limit)
    params = (("sort", sort), ("limit", str(limit)), *((("agent", agent_id),) if agent_id else ()))
    return _looking("/v1/usage", lambda reply: shapes.read_usage(reply.json()), params)


def status(*, principal: Principal | None = None) -> Call[Status]:
    _refuse_principal(principal)
    return _looking("/v1/status", lambda reply: shapes.read_status(reply.json()))


def stamp() -> Call[str]:
    return _looking("/v1/status", lambda reply: reply.headers["etag"].strip('"'))


def export(format: "ExportFormat") -> Call[str]:  # noqa: A002 - what every caller calls it
    from waygraph.registry.storage.export.formats import FORMATS

    if format not in FORMATS:
        raise UnknownName("export format", format, FORMATS)
    return replace(_looking("/v1/export", Reply.text, (("format", format),)), slow=True)


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
    call = _writing("POST", "/v1/manifests", _read_taken, body, lambda reason: SourceError(source, reason))
    return replace(call, safe=dry_run)


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


def approve(*names: str, principal: Principal | None = None) -> Call[Approved]:
    from waygraph.registry.operators.approval import checked_names

    _refuse_principal(principal)
    body = {"names": checked_names(names)}
    return _writing("POST", "/v1/approvals", lambda reply: shapes.read(Approved, reply.json()), body)


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
    changes = setting_changes(
        tags=tags, visible_to=visible_to, everyone=everyone, pinned=pinned, hidden=hidden, removed=removed
    )
    if removed:
        if len(changes) > 1:
            raise InvalidSetting("over HTTP an agent is removed by itself: set the rest before, in a call of its own")
        return remove(agent_id, principal=principal)
    _refuse_principal(principal)
    body = changes or {"pinned": None}  # nothing to set, said so that the service takes it
    return _writing("PATCH", _agent_path(agent_id), lambda reply: shapes.read(OperatorSettings, reply.json()), body)


def set_tool(name: str, changes: Mapping[str, Any], *, principal: Principal | None = None) -> Call[OperatorSettings]:
    """`name` is a tool's id (UnknownName)."""
    _refuse_principal(principal)
    owner, _, rest = name.partition("/")
    path = f"/v1/tools/{_segment('agent', owner)}/{_segment('tool', rest, name)}"
    return _writing("PATCH", path, lambda reply: shapes.read(OperatorSettings, reply.json()), changes)


def remove(agent_id: str, *, principal: Principal | None = None) -> Call[OperatorSettings]:
    _refuse_principal(principal)
    return _writing("DELETE", _agent_path(agent_id), lambda reply: shapes.read(OperatorSettings, reply.json()))


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
    _refuse_principal(principal)
    new = stated_toolset(name, description=description, tools=tools, agents=agents, tags=tags, callers=callers)
    return _writing("PUT", _toolset_path(new.name), _read_toolset, new.rule)


def remove_toolset(name: str, *, principal: Principal | None = None) -> Call[Written]:
    _refuse_principal(principal)
    return _writing("DELETE", _toolset_path(name), lambda reply: shapes.read(Written, reply.json()))


def forget(source: str, *, principal: Principal | None = None) -> Call[Forgotten]:
    _refuse_principal(principal)
    path = f"/v1/sources/{_segment('source', source, most_chars=MAX_NAME_CHARS)}"
    return _writing("DELETE", path, lambda reply: shapes.read(Forgotten, reply.json()))


# -- inside --------------------------------------------------------------------------------------------


def _looking[T](path: str, read: Callable[[Reply], T], params: tuple[tuple[str, str], ...] = ()) -> Call[T]:
    return Call(method="GET", path=path, params=params, read=read, safe=True)


def _asking[T](path: str, body: Mapping[str, object], read: Callable[[Reply], T]) -> Call[T]:
    return Call(method="POST", path=path, json=body, read=read, safe=True)


def _writing[T](
    method: str,
    path: str,
    read: Callable[[Reply], T],
    body: Mapping[str, object] | None = None,
    error: Callable[[str], WaygraphError] = InvalidSetting,
) -> Call[T]:
    return Call(method=method, path=path, json=body, read=read, safe=False, slow=True, refused=error)


class _ServiceRecipe(NamedTuple):
    """A recipe as a service takes it: by name, and whether its own reranker is to follow."""

    name: str
    is_reranked: bool = False


def _query_json(query: Query, recipe: _ServiceRecipe) -> dict[str, object]:
    filters = query.filters
    return {
        "limit": query.limit,
        "recipe": recipe.name,
        "filters": {
            "tags": filters.tags,
            "kinds": filters.kinds,
            "agent_ids": filters.agent_ids,
            "reachable": filters.reachable,
            **{name: value for name in _PLACES if (value := getattr(filters, name))},
        },
        "explain": True,
        "schema": True,
        # A service of before knows none of these.
        **({"rerank": True} if recipe.is_reranked else {}),
        **({"strict": True} if query.strict else {}),
        **({"history": [asdict(turn) for turn in query.history]} if query.history else {}),
    }


def _part[T](
    path: str, params: tuple[tuple[str, str], ...], read_page: Callable[[Any], Page[T]], after: str, limit: int
) -> Call[Page[T]]:
    """At most `limit` of a list, after an id. In `following` the service's cursor becomes an id again."""

    def read(reply: Reply) -> Page[T]:
        page = read_page(reply.json())
        return replace(page, following=_id_of(page.following))

    place = (("limit", str(limit)), *((("cursor", cursor(after)),) if after else ()))
    return _looking(path, read, (*params, *place))


def _id_of(following: str) -> str:
    try:
        return id_of(following)
    except InvalidQuery as exc:  # what the service says is at fault, not who asks
        raise ValueError(following) from exc


def _parts[T](
    part: Callable[[str, int], Call[Page[T]]], after: str, limit: int | None, *, falling: bool = False
) -> Talk[Page[T]]:
    """Parts put together until there are `limit`, or no more. `falling`: the list is in falling order of id."""
    if limit is not None:
        check_limit(limit)
    items: list[T] = []
    while True:
        page: Page[T] = yield part(after, MAX_PART if limit is None else min(MAX_PART, limit - len(items)))
        items += page.items
        goes_on = page.following and (not after or page.following < after if falling else page.following > after)
        if not goes_on or len(items) == limit:
            return replace(page, items=tuple(items))
        after = page.following


def _read_taken(reply: Reply) -> IngestReports:
    document = reply.json()
    problem = document["problem"]
    return IngestReports(
        tuple(map(shapes.read_report, document["reports"])), error_of(problem, "the service") if problem else None
    )


def _refuse_principal(principal: Principal | None) -> None:
    if principal is not None:
        raise InvalidQuery(
            "a service decides by the key that it is shown who asks, so nobody else can be named (a principal, or "
            "its groups): ask with that caller's key"
        )


def _service_recipe(recipe: str | Recipe) -> _ServiceRecipe:
    """Raises InvalidQuery for a recipe that is none of the known ones, or is no recipe."""
    if isinstance(recipe, str):
        return _ServiceRecipe(recipe)
    Ask.of(recipe, None, None, None)
    for each in RECIPES.values():
        if recipe in (each, with_rerank(each, Rerank(spec=BY_OPERATOR))):
            return _ServiceRecipe(each.name, recipe != each)
    raise InvalidQuery(
        f"a service takes recipes by name, and {recipe.name!r} is not one that it knows as it is here (a reranker "
        f"other than its own, which is {BY_OPERATOR!r}, and other weights or legs need the registry itself)"
    )


def _agent_path(agent_id: str) -> str:
    return f"/v1/agents/{_segment('agent', agent_id)}"


def _segment(noun: str, name: str, whole: str = "", *, most_chars: int = MAX_ID_CHARS) -> str:
    """A name as part of a path. Raises UnknownName for what no path can hold, and nothing is called.

    Dots are escaped too: `..` would mean another path.
    """
    if not name or len(name) > most_chars or is_broken(name) or (noun == "agent" and "/" in name):
        raise UnknownName(noun, whole or name, ())
    return quote(name, safe="").replace(".", "%2E")
