"""The nouns. Frozen, slotted, keyword-only values; checked where they enter, trusted inside."""

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Annotated, Any, Literal, NamedTuple, TypedDict

AgentKind = Literal["mcp_server", "a2a_agent", "skill", "openapi", "custom"]
EntityKind = Literal["agent", "tool"]
TextForm = str
"""Which texts stand for an entity: see `validation.read_form`."""

AGENT_KINDS: tuple[AgentKind, ...] = ("mcp_server", "a2a_agent", "skill", "openapi", "custom")


CANONICAL: Mapping[str, Any] = {"sort_keys": True, "separators": (",", ":"), "ensure_ascii": False, "allow_nan": False}
"""How `json.dumps` writes canonical JSON."""


def canonical_json(value: object) -> "JsonText":
    """Sorted keys, no spaces, text as it is: equal text means equal value. Raises ValueError on NaN."""
    return json.dumps(value, **CANONICAL)


def parse_field(text: "JsonText") -> Any:
    """The value of a field that holds JSON; None for an empty text, which says that there is none."""
    return json.loads(text) if text else None


@dataclass(frozen=True, slots=True)
class JsonForm:
    """How `shapes` writes a value as JSON and reads it back, where its type alone would mean another form.

    `json`: the type that it has as JSON.
    """

    write: Callable[[Any], object]
    read: Callable[[Any], object]
    json: Any = Any

    def __get_pydantic_core_schema__(self, source: object, handler: Any) -> object:
        from pydantic import BeforeValidator, PlainSerializer

        return handler.generate_schema(Annotated[source, BeforeValidator(self.read), PlainSerializer(self.write)])


def _json_form(json_type: Any) -> JsonForm:
    return JsonForm(parse_field, lambda value: "" if value is None else canonical_json(value), json_type)


JsonText = Annotated[str, _json_form(Any)]
"""Canonical JSON: sorted keys, no spaces, UTF-8 text; equal text means equal value. Empty: there is none."""
JsonObject = Annotated[str, _json_form(dict[str, Any])]
JsonObjectOrNull = Annotated[str, _json_form(dict[str, Any] | None)]
JsonObjectsOrNull = Annotated[str, _json_form(dict[str, dict[str, Any]] | None)]
JsonTextsOrNull = Annotated[str, _json_form(dict[str, str] | None)]
JsonListsOrNull = Annotated[str, _json_form(dict[str, list[dict[str, Any]]] | None)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """Something that can act: an MCP server, an A2A agent, a skill, an OpenAPI service.

    `tags` and `visible_to` are what holds now: the source's word overlaid with the operator's.
    An empty `visible_to` means everyone. `transport` holds secret references only, never values. `status` is one of
    the texts of `statuses`.
    """

    id: str
    name: str
    description: str = ""
    kind: AgentKind = "mcp_server"
    version: str = ""
    transport: JsonObjectOrNull = ""
    """How it is reached. Without the scope `admin`: its kind and public address."""
    tags: tuple[str, ...] = ()
    visible_to: tuple[str, ...] = ()
    """The groups that may see it; empty: everyone."""
    pinned: bool = False
    hidden: bool = False
    pending: bool = False
    """Waits for approval: out of routing and search with all its tools."""
    flags: tuple[str, ...] = ()
    """Why its text looks suspicious."""
    status: str = "known"
    """known, online, `unreachable since TIME: REASON` or `failing: REASON`."""
    content_hash: str = ""
    approved_hash: str = ""
    """The content hash that somebody approved last; empty: none."""
    rejection: str = ""
    """Why an operator rejected it as it is now: it stays out, and waits no more. Empty: nobody did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """One callable of an agent. `id` is `<agent id>/<tool name>`; `call_name` is legal for every host.

    `questions` are what people might ask that it can answer, best first, by its source or made up: it is found by them.
    """

    id: str
    agent_id: str
    name: str
    call_name: str = ""
    """Its name for hosts, unique over all agents."""
    description: str = ""
    input_schema: JsonObject = "{}"
    output_schema: JsonObjectOrNull = ""
    annotations: JsonObjectOrNull = ""
    tags: tuple[str, ...] = ()
    questions: tuple[str, ...] = ()
    pending: bool = False
    """Waits for approval: out of routing and search."""
    flags: tuple[str, ...] = ()
    """Why its text looks suspicious."""
    status: str = "known"
    content_hash: str = ""
    approved_hash: str = ""
    rejection: str = ""
    """As of an agent."""

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The input schema, as a mapping."""
        schema: Mapping[str, Any] = parse_field(self.input_schema) or {}
        return schema


NOTICE = "notice: "
"""Begins a flag that is no suspicion: an operator should know it, and nothing is held for it."""


def suspicions(flags: Iterable[str]) -> tuple[str, ...]:
    """The flags but for notices."""
    return tuple(flag for flag in flags if not flag.startswith(NOTICE))


def notices_of(flags: Iterable[str]) -> tuple[str, ...]:
    """The texts of the notices among the flags."""
    return tuple(flag.removeprefix(NOTICE) for flag in flags if flag.startswith(NOTICE))


def is_approved(entity: Agent | Tool) -> bool:
    """Whether somebody approved its present text."""
    return entity.approved_hash == entity.content_hash


def is_doubtful(entity: Agent | Tool) -> bool:
    """Whether its present text looks suspicious and nobody approved it."""
    return not is_approved(entity) and bool(suspicions(entity.flags))


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """Who asks. Without groups it sees what is public; `principal=None` (library, local CLI) sees everything.

    `operates`: it may set what operators set, of what it sees (`operators.rights`).
    """

    id: str = ""
    groups: tuple[str, ...] = ()
    operates: bool = False

    def __post_init__(self) -> None:
        groups: object = self.groups
        if isinstance(groups, str):
            raise TypeError(f"groups takes a list of names, not {groups!r}")
        if not isinstance(groups, tuple):
            object.__setattr__(self, "groups", tuple(self.groups))


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """What may be found at all. Within a field any value fits; all fields must fit; empty means no limit.

    What fits any value of the fields that begin with `without` is left out.
    """

    tags: tuple[str, ...] = ()
    kinds: tuple[AgentKind, ...] = ()
    agent_ids: tuple[str, ...] = ()
    without_tags: tuple[str, ...] = ()
    without_kinds: tuple[AgentKind, ...] = ()
    without_agent_ids: tuple[str, ...] = ()
    reachable: bool = False
    """Leaves out agents that could not be reached, or fail, when they were last asked."""
    within: str = ""
    """A category of the current taxonomy, such as `travel/flights`: what stands in it or under it."""
    toolset: str = ""
    """The name of a toolset: what is in it."""
    members: frozenset[str] | None = field(default=None, repr=False)
    """Ids of what is within and in the toolset, agents and tools, which the registry that answers fills in.

    None: no limit.
    """


TurnRole = Literal["user", "assistant", "call"]
CallOutcome = Literal["ok", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One turn of a conversation before a request: what was said (`text`), or a call and how it ended.

    `tool` is a tool's id or call name, or the id of an agent that was called as a whole. `result` is a short part of
    what a call gave; it is never read as a request.
    """

    role: TurnRole
    text: str = ""
    tool: str = ""
    outcome: CallOutcome = "ok"
    result: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A request: `text`, `steps` of one, or both. `limit` ≥ 1 is the number of agents wanted.

    Each step is searched by itself, then the text. What the text excludes holds for each step too.

    `strict`: an answer of a confidence below the recipe's least is withheld; its `nearest` are named instead.
    `history`: the turns before the request, oldest first. It is part of no log, audit, or answer.
    """

    text: str = ""
    steps: tuple[str, ...] = ()
    limit: int = 5
    filters: Filters = field(default_factory=Filters)
    strict: bool = False
    history: tuple[Turn, ...] = field(default=(), repr=False)
    step_of: str = field(default="", repr=False)
    """The text of the request of which this is a step; the router fills it in."""


class QueryJson(TypedDict):
    """A query in an answer: the filters stand beside the text."""

    text: str
    steps: list[str]
    limit: int
    tags: list[str]
    kinds: list[AgentKind]
    agent_ids: list[str]
    without_tags: list[str]
    without_kinds: list[AgentKind]
    without_agent_ids: list[str]
    reachable: bool
    within: str
    toolset: str
    strict: bool


def _flat(query: Query) -> dict[str, object]:
    of_query = {each.name for each in fields(query)}
    return {name: getattr(query if name in of_query else query.filters, name) for name in QueryJson.__annotations__}


FlatQuery = Annotated[Query, JsonForm(_flat, lambda document: {**document, "filters": document}, QueryJson)]


class Vote(NamedTuple):
    """How one entity spoke for an agent. `rank` 1 is best; `contribution` is what it adds to the agent's score:
    weight / (k + rank) where a recipe merges by rank, else `weight` times a share of the score that the leg gave.

    A tuple, as every answer has some twenty, and a tuple is made in a sixth of the time of a frozen dataclass.
    """

    entity_id: str
    kind: EntityKind
    leg: str
    rank: int
    score: float
    weight: float
    contribution: float


Votes = tuple[Annotated[Vote, JsonForm(Vote._asdict, lambda document: document, Vote)], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentMatch:
    """An agent that fits. `score` is the sum of the votes' contributions; `tools` are its best for the query."""

    agent: Agent
    score: float
    tools: tuple[Tool, ...] = ()
    votes: Votes = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolMatch:
    tool: Tool
    agent: Agent
    score: float
    votes: Votes = ()


def match_id(match: AgentMatch | ToolMatch) -> str:
    return match.tool.id if isinstance(match, ToolMatch) else match.agent.id


class Of(StrEnum):
    """What a taxonomy sorts."""

    AGENTS = "agents"
    TOOLS = "tools"


DEFAULT_TAXONOMY = "main"
"""Of a taxonomy that nobody names."""


class Mode(StrEnum):
    """What a walk looks for: all that could serve, one of each function, or the single best."""

    ALL = "get_all"
    IMPORTANT = "get_important"
    ONE = "get_one"


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """A category whose children were shown: the names of those that the model opened, and of the others."""

    path: str
    opened: tuple[str, ...]
    pruned: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pick:
    """A group of entities that were shown: where they stand, how many, and how many of them the model selected."""

    paths: tuple[str, ...]
    shown: int
    selected: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Walked:
    """What a walk found and cost. `mode`: a `Mode`. `selected`: all ids; none of a walk with a `failure`.

    Of several steps all together, while the route of each step holds its own.
    """

    mode: str
    selected: tuple[str, ...] = ()
    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    visits: tuple[Visit, ...] = ()
    picks: tuple[Pick, ...] = ()
    failure: str = ""
    """Why the walk ended early; what it cost until then is counted."""


NoticeCode = Literal[
    "withheld", "nothing", "better_agents", "unlikely", "unsure", "not_split", "not_walked", "not_reranked",
    "excluded", "together", "skill", "history", "cut", "failed", "sent_before", "words_only",
]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """What is to be known beside an answer, as a sentence. `about`: ids of agents or tools, or call names."""

    code: NoticeCode
    text: str
    about: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What every answer says beside its matches. Same query, history, recipe and revision: the same answer.

    `confidence`: where beforehand it is as likely as not; of several steps the least. None: not known, see
    `Calibration`.
    """

    query: FlatQuery
    recipe: str
    revision: int
    """All of the answer is of this revision."""
    confidence: float | None = None
    """How likely the registry holds what is right, from 0 to 1."""
    is_doubtful: bool = False
    """Whether the confidence is below the recipe's least: probably nothing here is right."""
    exclusions: tuple[str, ...] = ()
    """Ids of agents and tools that the request's words exclude, such as "without Slack"."""
    notices: tuple[Notice, ...] = ()
    """All that is to be known beside the answer, the gravest first."""
    walked: Walked | None = None
    """How a language model walked the taxonomy, if the recipe has it do so."""
    reason: str = ""
    """Why there is no match."""
    nearest: tuple[str, ...] = ()
    """What came nearest, where an answer is withheld: at most 3 ids of agents, or call names of tools."""
    elapsed_ms: float = field(default=0.0, compare=False)

    def notice(self, code: NoticeCode | None = None) -> str:
        """Return the texts of its notices, or of those with this code; empty: it has none."""
        return " ".join(each.text for each in self.notices if code in (None, each.code))


@dataclass(frozen=True, slots=True, kw_only=True)
class Route(Answer):
    """Agents, the best first.

    `pinned` agents stand apart and never count to the limit; their score is 0 where they are not among the
    best. `steps` holds a route per step of the query, and behind them one of its text, if it has one too.
    """

    matches: tuple[AgentMatch, ...]
    pinned: tuple[AgentMatch, ...] = ()
    steps: tuple["Route", ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRoute(Answer):
    """Tools, the best first; `steps` as of a `Route`."""

    matches: tuple[ToolMatch, ...]
    steps: tuple["ToolRoute", ...] = ()
    agents: tuple[str, ...] = ()
    """Ids of agents without tools that fit better than every tool, the best first."""


NO_DESCRIPTION = "States no description: "
"""Begins the sentence that stands for the description of an agent that has none; what its tools say follows it."""


def stated_text(description: str) -> str:
    """Return what the ranking reads of a description: without the sentence that was made for people."""
    return description.partition("\n\n")[2] if description.startswith(NO_DESCRIPTION) else description


_MOST_NAMES = 10


def name_undescribed(agents: Collection[Agent]) -> str:
    """Names the agents that state no description, by id; empty if all state one."""
    ids = sorted(each.id for each in agents if not each.description or each.description.startswith(NO_DESCRIPTION))
    more = f" and {len(ids) - _MOST_NAMES} more" if len(ids) > _MOST_NAMES else ""
    return f"{len(ids)} of {len(agents)} agents state no description: {', '.join(ids[:_MOST_NAMES])}{more}" * bool(ids)


Word = Literal["known", "online", "unreachable", "failing"]
KNOWN, ONLINE = "known", "online"
"""Never asked; answered when it was last asked."""
UNREACHABLE, FAILING = "unreachable since ", "failing: "
MAX_REASON_CHARS = 200
HIDDEN_REASON = "operators see why"
_UNREACHABLE = re.compile(re.escape(UNREACHABLE) + r"\d{4}-\d\d-\d\d[^\s]*: \S.*")
_FAILING = re.compile(re.escape(FAILING) + r"\S.*")


def unreachable(since: str, reason: str) -> str:
    """Cannot be reached since then (ISO 8601), as far as one knows."""
    return f"{UNREACHABLE}{since}: {_one_line(reason)}"


def failing(reason: str) -> str:
    """Answers, but not as it should."""
    return f"{FAILING}{_one_line(reason)}"


def reachable(status: str) -> bool:
    """Whether nothing speaks against it: it answered when it was last asked, or was never asked."""
    return not status.startswith((UNREACHABLE, FAILING))


def is_status(text: str) -> bool:
    """Whether it is one of the four."""
    return text in (KNOWN, ONLINE) or bool(_UNREACHABLE.fullmatch(text) or _FAILING.fullmatch(text))


def word_of(status: str) -> Word:
    """Which of the four it is."""
    if status.startswith(UNREACHABLE):
        return "unreachable"
    if status.startswith(FAILING):
        return "failing"
    return "online" if status == ONLINE else "known"


def unreachable_since(status: str) -> str:
    """The time it tells, ISO 8601; empty for another status."""
    return status.removeprefix(UNREACHABLE).partition(": ")[0] if status.startswith(UNREACHABLE) else ""


def reason_of_status(status: str) -> str:
    """Why it does not work; empty for one that does."""
    word = word_of(status)
    if word == "unreachable":
        return status.removeprefix(UNREACHABLE).partition(": ")[2]
    return status.removeprefix(FAILING) if word == "failing" else ""


def public_status(status: str) -> str:
    """Without the reason, which may quote a command or a path of the machine that asked."""
    if word_of(status) == "unreachable":
        return unreachable(unreachable_since(status), HIDDEN_REASON)
    return failing(HIDDEN_REASON) if word_of(status) == "failing" else status


def continue_outage(status: str, now: str) -> str:
    """`now`, dated from the beginning of the outage where the server was gone before."""
    since = unreachable_since(status)
    if not since or word_of(now) != "unreachable":
        return now
    return unreachable(since, reason_of_status(now))


def _one_line(reason: str) -> str:
    """White space as single spaces, not empty, without the middle of a long one: what helps stands at its end."""
    line, half = " ".join(reason.split()) or "no reason given", MAX_REASON_CHARS // 2
    return line if len(line) <= MAX_REASON_CHARS else f"{line[: half - 1]}…{line[-half:]}"
