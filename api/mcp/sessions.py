"""What the gateway remembers of a host between its requests, who sent a request, and how a host is asked."""

import secrets
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, cast, get_args
from urllib.parse import quote

import anyio
from cachetools import FIFOCache
from mcp import MCPError, types
from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.shared.message import ServerMessageMetadata
from mcp.types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel, ValidationError

from waygraph.api.mcp.protocol import UNFIT, mend_question
from waygraph.ingest.manifest.fields import fields_of
from waygraph.ingest.upstream.connection import ANSWER_S, QUESTIONS, Host, NotAnswered, Question, Through
from waygraph.registry.access.authenticator import RateLimit
from waygraph.registry.access.visibility import LOCAL, Caller
from waygraph.registry.model.errors import NeedsLogin, TooManyRequests
from waygraph.registry.model.nouns import Agent, Principal, Tool, Turn
from waygraph.registry.model.usage import Door

Context = ServerRequestContext[Any, Any]

MAX_KNOWN = 4_096
"""So many tools are remembered of a session; the least recently sent go."""
MAX_CALLS = 50
"""So many calls are remembered of a session."""
FAILED_S = 600.0
"""So long a tool is marked that failed, unless a call of it succeeds."""
_OF_SUMMARY = "~"
_STATE = "waygraph.session"


@dataclass(slots=True)
class Session:
    """Of a connection of the handshake era, or a stdio process. A modern host over HTTP has none: each request stands
    alone. `log_level` empty: all that tools log. `client`: what the host calls itself; empty: there is no host.
    """

    log_level: str = ""
    client: str = ""
    call_costs: float = 0.0
    """The sum of what its calls cost, as the policy has it."""
    _calls: tuple[tuple[str, Turn], ...] = ()
    """The last ones, oldest first, each with the id of its caller: a session may outlive a caller's key."""
    _failures: FIFOCache[tuple[str, str], tuple[float, str, int]] = field(default_factory=lambda: FIFOCache(MAX_CALLS))
    """Caller's id and call name of a tool → when its last call failed (monotonic, s), why, and how often in a row."""
    known_versions: FIFOCache[str, str] = field(default_factory=lambda: FIFOCache(MAX_KNOWN))
    """Of each tool, by call name, the version that was sent, the last one last; `~` behind it: its summary only. As
    `FindAsked.known` takes them."""

    def calls_of(self, caller: Caller) -> tuple[Turn, ...]:
        """The calls that this caller made, oldest first, by name and outcome alone."""
        return tuple(turn for caller_id, turn in self._calls if caller_id == caller.id)

    def note_call(self, caller: Caller, tool: Tool, failure: str = "") -> None:
        """`failure`: why it failed, in our own words; empty: it did not."""
        turn = Turn(role="call", tool=tool.id, outcome="failed" if failure else "ok")
        self._calls = (*self._calls, (caller.id, turn))[-MAX_CALLS:]
        _, _, count = self._failures.pop((caller.id, tool.call_name), (0.0, "", 0))
        if failure:
            self._failures[caller.id, tool.call_name] = (monotonic(), failure, count + 1)

    def failure_of(self, caller: Caller, call_name: str) -> str:
        """Such as `2 min ago: it reported an error`; empty where none is remembered."""
        at, failure, _ = self._failures.get((caller.id, call_name), (0.0, "", 0))
        ago_s = monotonic() - at
        if not failure or ago_s >= FAILED_S:
            return ""
        return f"{f'{ago_s / 60:.0f} min' if ago_s >= 60 else 'less than a minute'} ago: {failure}"

    def failure_count(self, caller: Caller, call_name: str) -> int:
        """How often in a row its calls failed, as far as `failure_of` remembers."""
        return self._failures[caller.id, call_name][2] if self.failure_of(caller, call_name) else 0

    def note_sent(self, tools: Iterable[Mapping[str, Any]]) -> None:
        """These tools have just been sent, as an answer of find_tools has them."""
        for tool in tools:
            name, version = str(tool["name"]), str(tool["version"])
            before = self.known_versions.pop(name, "")
            # Of a tool that was sent whole the summary tells nothing more.
            self.known_versions[name] = before if before == version.removesuffix(_OF_SUMMARY) else version


@dataclass(frozen=True, slots=True, kw_only=True)
class Asker:
    """Who sent a request, and to which endpoint. `namespace`: of a toolset or of sources; empty: the whole registry.

    `owner`: whose request it is, as far as that is known. Requests of different owners come from different hosts.
    `token`: the bearer token that the request showed. `site`: where a person reaches this gateway with a browser;
    empty: that is not known; None: there is no such place. `door`: by which it came.
    """

    caller: Caller
    session: Session
    namespace: str = ""
    owner: str = ""
    token: str = field(default="", repr=False)
    site: str | None = None
    door: Door = "mcp"

    def login_page(self, agent_id: str) -> str:
        """Where the caller logs in at the agent's server; empty: nowhere."""
        return f"{self.site}/login/{quote(agent_id)}" if self.site else ""

    def needs_login(self, tool: str, agent_id: str) -> NeedsLogin:
        """The error that says where this caller logs in at the agent's server."""
        page = self.login_page(agent_id)
        how = "" if self.site is None or page else "the operator has to set WAYGRAPH_PUBLIC_URL: it has a page for it"
        return NeedsLogin(tool, agent_id, page=page, how=how)

    @property
    def principal(self) -> Principal | None:
        return self.caller.principal

    @property
    def call_caller(self) -> str:
        """As `ToolCall.caller` has it: empty where callers are not distinguished."""
        return "" if self.caller == LOCAL else self.caller.id


def connection_of(ctx: Context) -> Connection:
    """The connection that a request came over; of a modern host one that ends with the request.

    The SDK documents its `state` for handlers, and gives them no other way to it than this.
    """
    return ctx.session._connection


def session_of(ctx: Context) -> Session:
    """The session of a request that came over HTTP."""
    state = connection_of(ctx).state
    return cast("Session", state.setdefault(_STATE, Session()))


_LEVELS: tuple[str, ...] = get_args(types.LoggingLevel)
Request = types.CreateMessageRequest | types.ElicitRequest | types.ListRootsRequest
_GONE = (anyio.BrokenResourceError, anyio.ClosedResourceError)


def takes(capabilities: types.ClientCapabilities | None, question: Question) -> bool:
    """Whether a host with these capabilities takes such questions."""
    if capabilities is None:
        return False
    capability: Mapping[Question, object] = {
        "elicitation/create": capabilities.elicitation,
        "sampling/createMessage": capabilities.sampling,
        "roots/list": capabilities.roots,
    }
    return capability[question] is not None


def untakable(capabilities: types.ClientCapabilities | None, question: Question, params: Mapping[str, Any]) -> str:
    """Why a host with these capabilities cannot be asked this question; empty if it can."""
    if capabilities is None or not takes(capabilities, question):
        return f"the host does not take {question}"
    elicitation, sampling = capabilities.elicitation, capabilities.sampling
    if question == "elicitation/create" and elicitation and params.get("mode") == "url" and elicitation.url is None:
        return "the host shows no pages"
    wants_tools = bool(params.get("tools") or params.get("toolChoice"))
    if question == "sampling/createMessage" and sampling and wants_tools and sampling.tools is None:
        return "the host's model is not offered tools"
    return ""


def as_request(question: Question, params: Mapping[str, Any]) -> tuple[Request, type[BaseModel]]:
    """The question as the protocol has it, and what its answer is. Raises NotAnswered, pydantic's ValidationError."""
    request = {"method": question, "params": dict(_as_host_takes_it(question, params))}
    match question:
        case "elicitation/create":
            return types.ElicitRequest.model_validate(request), types.ElicitResult
        case "sampling/createMessage":
            with_tools = bool(params.get("tools") or params.get("toolChoice"))
            answer = types.CreateMessageResultWithTools if with_tools else types.CreateMessageResult
            return types.CreateMessageRequest.model_validate(request), answer
        case "roots/list":
            return types.ListRootsRequest(), types.ListRootsResult


def _as_host_takes_it(question: Question, params: Mapping[str, Any]) -> Mapping[str, Any]:
    """By the protocol's schema. Raises NotAnswered for a question that a host would refuse, or an address to open
    that is no web page.
    """
    if question == "roots/list":
        return params
    if question == "elicitation/create" and params.get("mode") == "url":
        params = {"elicitationId": secrets.token_urlsafe(12), **params}  # the revision of 2026-07-28 has none
        if not str(params.get("url", "")).lower().startswith(("https://", "http://")):
            raise NotAnswered("the address to open is no web page")
    message = mend_question(question, params)
    if message is UNFIT:
        raise NotAnswered("the question is not of the protocol")
    return cast("Mapping[str, Any]", message)


class CallNews:
    """Progress and logs of a call for its host: progress if it asked for it, logs from the level it set."""

    def __init__(self, ctx: Context, session: Session) -> None:
        self._ctx, self._session = ctx, session

    async def progress(self, amount: float, total: float | None, message: str | None) -> None:
        try:
            await self._ctx.session.report_progress(amount, total, message)
        except _GONE:
            return

    async def log(self, level: str, data: object, logger: str | None) -> None:
        # A modern host says with each request how loud it wants logs, and hears nothing unless it does.
        least = self.log_level or ("" if self._is_modern else _LEVELS[0])
        if level not in _LEVELS or least not in _LEVELS or _LEVELS.index(level) < _LEVELS.index(least):
            return
        params = types.LoggingMessageNotificationParams(level=level, data=data, logger=logger)  # type: ignore[arg-type]
        try:
            await self._ctx.session.send_notification(
                types.LoggingMessageNotification(params=params), related_request_id=self._ctx.request_id
            )
        except _GONE:
            return

    @property
    def log_level(self) -> str:
        level = (self._ctx.meta or {}).get(types.LOG_LEVEL_META_KEY) if self._is_modern else self._session.log_level
        return str(level) if level in _LEVELS else ""

    @property
    def _is_modern(self) -> bool:
        return self._ctx.protocol_version in MODERN_PROTOCOL_VERSIONS


class OfSession:
    """Made anew for each call, and equal to all others of its session, which is a connection's or a stdio process'.

    A modern host over HTTP has no session: each of its requests counts as a host of its own. Nobody can tell whether
    two came from the same host; they only have the same owner.
    """

    _session: Session
    owner: object

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OfSession) and self._session is other._session

    def __hash__(self) -> int:
        return id(self._session)


class SessionHost(OfSession, CallNews):
    """A host of the handshake era, asked over its connection while it waits for the answer of the call."""

    def __init__(self, ctx: Context, asker: Asker) -> None:
        super().__init__(ctx, asker.session)
        self.owner = asker.owner

    def can(self, question: Question) -> bool:
        return self._ctx.session.can_send_request and takes(self._ctx.session.client_capabilities, question)

    async def ask(self, question: Question, params: Mapping[str, Any]) -> Mapping[str, Any]:
        capabilities = self._ctx.session.client_capabilities
        if reason := untakable(capabilities, question, params):
            raise NotAnswered(reason)
        if not self._ctx.session.can_send_request:
            raise NotAnswered("the host's connection carries no questions")
        try:
            return await self._ask(question, params)
        except ValidationError as exc:
            raise NotAnswered("the question, or its answer, is not of the protocol") from exc
        except MCPError as exc:
            raise NotAnswered(f"the host answered with error {exc.code}: {exc.message}") from exc
        except _GONE as exc:
            raise NotAnswered("the host is gone") from exc

    async def _ask(self, question: Question, params: Mapping[str, Any]) -> Mapping[str, Any]:
        request, kind = as_request(question, params)
        answer = await self._ctx.session.send_request(
            request,
            kind,
            request_read_timeout_seconds=ANSWER_S,
            metadata=ServerMessageMetadata(related_request_id=self._ctx.request_id),
        )
        return answer.model_dump(by_alias=True, mode="json", exclude_none=True)


class FetchingHost(SessionHost):
    """A host that fetches a task: it answers the questions of its server, though by itself."""

    def can(self, question: Question) -> bool:
        return takes(self._ctx.session.client_capabilities, question)


MOST_QUESTIONS = 16
"""Of one call to its host."""
QUESTIONS_PER_MINUTE, QUESTIONS_AT_ONCE = 30.0, 30
"""Of one agent to the hosts of one caller."""


class OnBehalf(Through):
    """The host, as a tool's agent reaches it: questions, logs and progress name the agent first.

    An agent may ask no more than `MOST_QUESTIONS` in a call, nor than `questions` lets through of the `caller`. Equal
    where one host is asked on behalf of one agent.
    """

    def __init__(self, host: Host, agent: Agent, caller: Caller, questions: RateLimit) -> None:
        super().__init__(host)
        self._agent, self._caller, self._questions = agent, caller, questions
        self._asked = 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OnBehalf) and self._agent.id == other._agent.id and super().__eq__(other)

    def __hash__(self) -> int:
        return hash((self._agent.id, self._host))

    async def ask(self, question: Question, params: Mapping[str, Any]) -> Mapping[str, Any]:
        self._asked += 1
        if self._asked > MOST_QUESTIONS:
            raise NotAnswered(f"a call may ask {MOST_QUESTIONS} questions, and asked more")
        try:
            self._questions.take(f"{self._caller.id} {self._agent.id}")
        except TooManyRequests as exc:
            raise NotAnswered(f"the agent asks more than {QUESTIONS_PER_MINUTE:g} questions a minute") from exc
        return await super().ask(question, _sign_question(question, params, self._agent.id))

    async def progress(self, amount: float, total: float | None, message: str | None) -> None:
        text = f"Agent {self._agent.id}: {message}" if message else f"Agent {self._agent.id}"
        await super().progress(amount, total, text)

    async def log(self, level: str, data: object, logger: str | None) -> None:
        value = "" if data is None else data  # the protocol demands some, and the SDK sends no null
        await super().log(level, value, f"{self._agent.id}/{logger}" if logger else self._agent.id)


def _sign_question(question: Question, params: Mapping[str, Any], agent_id: str) -> Mapping[str, Any]:
    """The agent's id stands first: the registry gives it, while names and titles are the agent's own."""
    if question == "elicitation/create":
        return {**params, "message": f"Agent {agent_id} asks: {params.get('message', '')}"}
    if question == "sampling/createMessage" and isinstance(params.get("messages"), list):
        preface = {"type": "text", "text": f"Agent {agent_id} asks your model, not your user:"}
        return {**params, "messages": [{"role": "user", "content": preface}, *params["messages"]]}
    return params


def sign_requests(
    requests: Mapping[str, object], agent_id: str, capabilities: types.ClientCapabilities | None
) -> dict[str, dict[str, Any]]:
    """The questions of a server's task, for a host that answers them by itself; without those that it cannot take."""
    questions: dict[str, dict[str, Any]] = {}
    for key, request in list(requests.items())[:MOST_QUESTIONS]:
        question, params = fields_of(request).get("method"), fields_of(fields_of(request).get("params"))
        if question in QUESTIONS and not untakable(capabilities, question, params):
            with suppress(NotAnswered, ValidationError):
                entry, _ = as_request(question, _sign_question(question, params, agent_id))
                questions[key] = entry.model_dump(by_alias=True, mode="json", exclude_none=True)
    return questions
