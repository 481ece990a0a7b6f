"""Skills of A2A agents are asked by a message, over JSON-RPC; a task is waited for till it ends, or asks for more.

Where the agent is says its card, which is somebody else's document. It is asked only at an address that an operator
wrote into the services file, or at the very origin of an address that a person on this machine ingested the card from
(`manifest.trust_store`), with the transport as it was then.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import anyio
from anyio import to_thread

from waygraph.ingest.execution import services
from waygraph.ingest.execution.call import Request, Response, ToolCall, Web, file_of, text
from waygraph.ingest.manifest.fields import fields_of, items_of, lines_of, sendable, text_of
from waygraph.ingest.manifest.redaction import Discretion, shorten, struck_json
from waygraph.ingest.manifest.trust_store import VouchedFile
from waygraph.ingest.sources.formats.old_forms import DEFAULT_BINDING, DEFAULT_VERSION
from waygraph.ingest.upstream.connection import Host, Result
from waygraph.ingest.upstream.messages import error_words
from waygraph.registry.http.client import origin_of
from waygraph.registry.model import errors
from waygraph.registry.model.identity import CONTEXT, MESSAGE, TASK
from waygraph.registry.model.nouns import Agent, Tool, parse_field

# A2A's messages and tasks as JSON-RPC has them, in the words of protocol 1.0 and of 0.3; and as results of a tool.
#
# Pure. 1.0: `SendMessage`, ProtoJSON, states such as TASK_STATE_COMPLETED. 0.3: `message/send`, parts with a `kind`,
# states such as `completed`.


META = "waygraph/a2a"
"""In `_meta` of a result: ids of the task and the conversation, and the task's state."""
_ENDED_WELL = frozenset({"completed"})
_ENDED_BADLY = frozenset({"failed", "canceled", "rejected", "auth-required"})
_WAITING = frozenset({"input-required"})


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentMessage:
    """What goes to an agent. `output_modes`: the media types that its skill gives; empty: any."""

    message_id: str
    text: str
    skill: str
    task_id: str = ""
    context_id: str = ""
    output_modes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Dialect:
    """How one version of the protocol speaks."""

    version: str
    send: str
    get: str
    cancel: str

    def message(self, agent_message: AgentMessage, tenant: str) -> dict[str, Any]:
        """The params of `send`."""
        is_modern = self is MODERN
        message: dict[str, Any] = {
            "messageId": agent_message.message_id,
            "role": "ROLE_USER" if is_modern else "user",
            "parts": [{"text": agent_message.text} if is_modern else {"kind": "text", "text": agent_message.text}],
            "metadata": {"skillId": agent_message.skill},
        }
        message |= {} if is_modern else {"kind": "message"}
        ids = {"taskId": agent_message.task_id, "contextId": agent_message.context_id}
        message |= {name: value for name, value in ids.items() if value}
        configuration: dict[str, Any] = {"returnImmediately": True} if is_modern else {"blocking": False}
        if agent_message.output_modes:
            configuration["acceptedOutputModes"] = list(agent_message.output_modes)
        return self._of_tenant({"message": message, "configuration": configuration}, tenant)

    def task(self, task_id: str, tenant: str) -> dict[str, Any]:
        """The params of `get` and of `cancel`."""
        return self._of_tenant({"id": task_id}, tenant)

    def _of_tenant(self, params: dict[str, Any], tenant: str) -> dict[str, Any]:
        return {**params, "tenant": tenant} if tenant and self is MODERN else params


MODERN = Dialect("1.0", "SendMessage", "GetTask", "CancelTask")
OLDER = Dialect("0.3", "message/send", "tasks/get", "tasks/cancel")


# -- what came -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentReply:
    """A message, or a task as it stands. `state` is empty of a message."""

    state: str = ""
    task_id: str = ""
    context_id: str = ""
    parts: Sequence[Mapping[str, Any]] = ()
    """Of the message, or of the task's artifacts."""
    status: Sequence[Mapping[str, Any]] = field(default=())
    """Parts of what the agent says of the task's state."""

    @property
    def is_settled(self) -> bool:
        """Whether nothing more comes by waiting."""
        return not self.task_id or self.state in _ENDED_WELL | _ENDED_BADLY | _WAITING

    @property
    def status_text(self) -> str:
        return "\n".join(filter(None, (text_of(part.get("text")) for part in self.status)))


def parse_result(result: object) -> AgentReply | None:
    """The result of a request, in either dialect; None: it is neither message nor task."""
    fields = fields_of(result)
    task = fields_of(fields.get("task")) or (fields if fields.get("kind") == "task" or "status" in fields else {})
    if task and text_of(task.get("id")):
        return _task(task)
    message = fields_of(fields.get("message")) or (fields if "parts" in fields else {})
    if "parts" not in message:
        return None
    return AgentReply(context_id=text_of(message.get("contextId")), parts=_parts(message))


def _task(task: Mapping[str, Any]) -> AgentReply:
    status = fields_of(task.get("status"))
    artifacts = [part for artifact in items_of(task.get("artifacts")) for part in _parts(fields_of(artifact))]
    return AgentReply(
        state=text_of(status.get("state")).lower().removeprefix("task_state_").replace("_", "-"),
        task_id=text_of(task.get("id")),
        context_id=text_of(task.get("contextId")),
        parts=artifacts or _last_words(task),
        status=_parts(fields_of(status.get("message"))),
    )


def _last_words(task: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Of a task without artifacts and without a word on its state: what the agent said last."""
    if fields_of(task.get("status")).get("message"):
        return []
    messages = [fields_of(message) for message in items_of(task.get("history"))]
    words = (_parts(each) for each in reversed(messages) if text_of(each.get("role")).lower().endswith("agent"))
    return next(words, [])


def _parts(of: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [part for part in items_of(of.get("parts")) if isinstance(part, Mapping)]


# -- as a result -----------------------------------------------------------------------------------


def result_of(reply: AgentReply) -> Result:
    """A settled message or task as the result of a tool."""
    content = [item for part in (*reply.parts, *reply.status) for item in _content(part)]
    ids = {"taskId": reply.task_id, "contextId": reply.context_id, "state": reply.state}
    meta = {META: {name: value for name, value in ids.items() if value}}
    result: dict[str, Any] = {"content": content, "_meta": meta}
    data = [fields_of(part.get("data")) for part in reply.parts if isinstance(part.get("data"), Mapping)]
    if len(data) == 1:
        result["structuredContent"] = data[0]
    if reply.state in _WAITING:
        pairs = ((TASK, reply.task_id), (CONTEXT, reply.context_id))
        arguments = ", ".join(f"{name}={json.dumps(value)}" for name, value in pairs if value)
        how = f"Answer by calling this tool again with {arguments}."
        content.append(text(f"The agent asks for more before it goes on. {how}"))
    if reply.state in _ENDED_BADLY:
        login = "The agent asks for a login before it goes on: write `auth` for it into the services file."
        content.insert(
            0, text(login if reply.state == "auth-required" else f"The agent's task ended as {reply.state}.")
        )
        result["isError"] = True
    if not content:
        content.append(text("The agent has done it, and says nothing of it."))
    return result


def _content(part: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """A part in either dialect."""
    file = fields_of(part.get("file"))
    media = text_of(part.get("mediaType")) or text_of(file.get("mimeType"))
    name = text_of(part.get("filename")) or text_of(file.get("name"))
    if isinstance(part.get("text"), str):
        yield text(part["text"])
    elif isinstance(blob := part.get("raw") or file.get("bytes"), str):
        yield file_of(blob, media, quote(name or "file", safe=""))
    elif address := text_of(part.get("url")) or text_of(file.get("uri")):
        link = {"type": "resource_link", "uri": address, "name": name or address}
        yield {**link, "mimeType": media} if media else link
    elif "data" in part:
        yield text(json.dumps(part["data"], ensure_ascii=False))


FIRST_LOOK_S, LONGEST_LOOK_S = 0.1, 2.0
"""From one look at a task to the next, longer each time."""
CANCEL_S = 1.0
"""For the agent to be told that nobody waits any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interface:
    """Where an agent is, and how it is spoken to."""

    url: str = field(repr=False)
    dialect: Dialect
    tenant: str = ""
    login: services.Login = field(default_factory=services.Login, repr=False)
    allow_private: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class A2aCaller:
    """A ToolCaller for agents of the kind `a2a_agent`."""

    finder: services.ServiceFinder
    trust_file: VouchedFile
    web: Web

    async def call(self, call: ToolCall) -> Result:
        """As `ToolCaller.call`. A task that fails is a result that is an error; one that asks for more says how to go
        on. Cancelled, the agent is asked to cancel the task.
        """
        interface = await self._interface(call)  # who mends its arguments should not learn only then that it is nowhere
        message = _message_of(call.tool, call.arguments)
        return result_of(await _Conversation(self.web, interface).await_end(message, call.host))

    async def _interface(self, call: ToolCall) -> Interface:
        """Raises NotCallable."""
        name, agent = call.name, call.agent
        interfaces = list(_interfaces(agent))
        if service := await self.finder.service(agent):
            try:
                return self._choose_interface(interfaces, service)
            except services.Incomplete as reason:
                raise errors.NotCallable(name, f"{reason} ({self.finder.place_of(service)})") from None
        if not interfaces:
            raise errors.NotCallable(name, "its card names no interface that speaks JSON-RPC over HTTP")
        origins = await to_thread.run_sync(
            lambda: services.origins_vouched_for(
                self.trust_file, services.claims_on(self.finder.registry, agent.id), agent
            )
        )
        for interface in interfaces:
            if origin_of(interface.url) in origins:
                return replace(interface, allow_private=True)  # by its own name or number a person named it
        raise errors.NotCallable(name, self._not_vouched(agent, interfaces, origins))

    def _choose_interface(self, interfaces: list[Interface], service: services.Service) -> Interface:
        """The one at that address; else the first, or one of 1.0, at that address. Raises Incomplete."""
        first = interfaces[0] if interfaces else Interface(url=service.base_url, dialect=MODERN)
        elsewhere = replace(first, url=service.base_url)
        interface = next((each for each in interfaces if each.url.rstrip("/") == service.base_url), elsewhere)
        return replace(interface, login=service.login(self.finder.surroundings), allow_private=service.allow_private)

    def _not_vouched(self, agent: Agent, interfaces: list[Interface], origins: set[str]) -> str:
        """What to write where."""
        url = interfaces[0].url[:200] if interfaces[0].url.isprintable() else "what cannot be shown"
        entry = f'[[service]] agent = {json.dumps(agent.id, ensure_ascii=False)} base_url = "…" (three lines)'
        where = self.finder.services.where_to_write()
        if origins:
            at = f"its card came from {sorted(origins)[0]}, and says that it is at {url!r}"
            return f"{at}: if you trust that, write {entry} into {where}"
        return (
            f"nobody here named its address; its card says {url!r}. Run `waygraph ingest https://HOST`, with the "
            f"address of the agent itself, on the machine of this gateway, or write {entry} into {where}"
        )


class _Conversation:
    """One message and what becomes of it."""

    def __init__(self, web: Web, interface: Interface) -> None:
        self._web, self._interface = web, interface
        self._secrets = services.confidential(interface.login, interface.url)

    async def await_end(self, agent_message: AgentMessage, host: Host) -> AgentReply:
        """The message, or the task when nothing more comes by waiting."""
        dialect, tenant = self._interface.dialect, self._interface.tenant
        now = await self._ask(dialect.send, dialect.message(agent_message, tenant))
        try:
            pause_s, looks = FIRST_LOOK_S, 0
            while not now.is_settled:
                looks += 1
                await host.progress(float(looks), None, now.status_text or now.state or None)
                await anyio.sleep(pause_s)
                pause_s = min(1.5 * pause_s, LONGEST_LOOK_S)
                now = await self._ask(dialect.get, dialect.task(now.task_id, tenant))
        except anyio.get_cancelled_exc_class():
            with anyio.move_on_after(CANCEL_S, shield=True), suppress(errors.UpstreamError):  # nobody hears why
                await self._send(dialect.cancel, dialect.task(now.task_id, tenant))
            raise
        return now

    async def _ask(self, method: str, params: Mapping[str, Any]) -> AgentReply:
        """Raises UpstreamError."""
        answer = _message_in(await self._send(method, params), self._secrets)
        if (error := answer.get("error")) is not None:
            code, reason = error_words(error)
            most = self._web.most_error_chars
            data = Discretion().redact_data(fields_of(error).get("data"), most)
            raise errors.UpstreamAnswered(code, shorten(reason, most), data)
        if (reply := parse_result(answer.get("result"))) is None:
            raise errors.UpstreamRefused("answered with neither a message nor a task")
        return reply

    async def _send(self, method: str, params: Mapping[str, Any]) -> Response:
        interface = self._interface
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        query = "&".join(f"{quote(name)}={quote(text, safe='')}" for name, text in interface.login.query.items())
        mark = "&" if "?" in interface.url else "?"
        cookies = "; ".join(f"{name}={text}" for name, text in interface.login.cookies.items())
        return await self._web.ask(
            Request(
                method="POST",
                url=f"{interface.url}{mark if query else ''}{query}",
                headers={
                    "Accept": "application/json",
                    **({"Cookie": cookies} if cookies else {}),
                    **interface.login.headers,
                    "Content-Type": "application/json",
                    "A2A-Version": interface.dialect.version,
                },
                content=json.dumps(body, ensure_ascii=False).encode("utf-8", "surrogatepass"),
                allow_private=interface.allow_private,
            )
        )


def _message_in(response: Response, secrets: tuple[str, ...]) -> Mapping[str, Any]:
    """The JSON-RPC message of an answer, in which no secret stands. Raises UpstreamBusy, UpstreamRefused."""
    response.refuse_if_busy(secrets)
    if not response.whole:
        raise errors.UpstreamRefused("answered with more than may be read (WAYGRAPH_UPSTREAM_MAX_MESSAGE_BYTES)")
    try:
        message = struck_json(sendable(json.loads(response.content.decode("utf-8-sig", "replace"))), secrets)
    except (ValueError, RecursionError):
        message = None
    if isinstance(message, Mapping) and ("result" in message or "error" in message):
        return message
    if response.status in (401, 403):
        raise errors.UpstreamRefused(f"needs a login ({response.reason}): write `auth` for it into the services file")
    raise errors.UpstreamRefused(f"answered with {response.reason}, and with no message of JSON-RPC")


def _message_of(tool: Tool, arguments: Mapping[str, Any]) -> AgentMessage:
    """Raises InvalidArguments."""
    texts = {name: arguments.get(name, "") for name in (MESSAGE, TASK, CONTEXT)}
    faults = [(f"/{name}", "a text") for name, value in texts.items() if not isinstance(value, str)]
    if faults or not texts[MESSAGE].strip():
        name = tool.call_name or tool.id
        raise errors.InvalidArguments(name, faults or [(f"/{MESSAGE}", "what the agent is asked, in words")])
    annotations = fields_of(parse_field(tool.annotations))
    return AgentMessage(
        message_id=uuid4().hex,
        text=texts[MESSAGE],
        skill=tool.name,
        task_id=texts[TASK],
        context_id=texts[CONTEXT],
        output_modes=tuple(lines_of(annotations.get("outputModes"))),
    )


def _interfaces(agent: Agent) -> Iterator[Interface]:
    """Those that speak JSON-RPC, the preferred one first."""
    transport = fields_of(parse_field(agent.transport))
    for each in map(fields_of, items_of(transport.get("interfaces")) or [transport]):
        url, binding = text_of(each.get("url")), text_of(each.get("protocolBinding")) or DEFAULT_BINDING
        if binding.upper() == "JSONRPC" and origin_of(url).startswith(("http://", "https://")):
            version = text_of(each.get("protocolVersion")) or DEFAULT_VERSION
            dialect = OLDER if version.strip().startswith("0.") else MODERN
            yield Interface(url=url, dialect=dialect, tenant=text_of(each.get("tenant")))
