"""Skills of A2A agents are asked by a message, over JSON-RPC; a task is waited for till it ends, or asks for more.

Where the agent is says its card, which is somebody else's document. It is asked only at an address that an operator
wrote into the services file, or at the very origin of an address that a person on this machine ingested the card from
(`ingest.vouched`), with the transport as it was then.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import anyio
from anyio import to_thread

from waygraph.ingest.calling.a2a_messages import MODERN, Dialect, Heard, Said, dialect_of, heard, result_of
from waygraph.ingest.calling.call import Host, Result, ToolCall
from waygraph.ingest.calling.claims import claims_on, origins_vouched_for
from waygraph.ingest.calling.configured import Configured, confidential
from waygraph.ingest.calling.services import Incomplete, Login, Service
from waygraph.ingest.calling.web import Request, Response, Web
from waygraph.ingest.origins import origin_of
from waygraph.ingest.sources.a2a_card import DEFAULT_BINDING, DEFAULT_VERSION
from waygraph.ingest.sources.foreign import fields_of, items_of, lines_of, text_of
from waygraph.ingest.striking import struck_json
from waygraph.ingest.upstream.sendable import sendable
from waygraph.ingest.upstream.telling import MOST_CHARS
from waygraph.ingest.vouched import VouchedFile
from waygraph.registry.errors import InvalidArguments, NotCallable, UpstreamAnswered, UpstreamError, UpstreamRefused
from waygraph.registry.identity import parsed
from waygraph.registry.model import Agent, Tool
from waygraph.registry.skill_message import CONTEXT, MESSAGE, TASK

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
    login: Login = field(default_factory=Login, repr=False)
    allow_private: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class A2aCaller:
    """A ToolCaller for agents of the kind `a2a_agent`."""

    configured: Configured
    vouched: VouchedFile
    web: Web

    async def call(self, call: ToolCall) -> Result:
        """As `ToolCaller.call`. A task that fails is a result that is an error; one that asks for more says how to go
        on. Cancelled, the agent is asked to cancel the task.
        """
        interface = await self._interface(call)  # who mends its arguments should not learn only then that it is nowhere
        said = _said(call.tool, call.arguments)
        return result_of(await _Conversation(self.web, interface).settled(said, call.host))

    async def _interface(self, call: ToolCall) -> Interface:
        """Raises NotCallable."""
        name, agent = call.name, call.agent
        offered = list(_interfaces(agent))
        if service := await self.configured.service(agent):
            try:
                return self._configured(offered, service)
            except Incomplete as reason:
                raise NotCallable(name, f"{reason} ({self.configured.place_of(service)})") from None
        if not offered:
            raise NotCallable(name, "its card names no interface that speaks JSON-RPC over HTTP")
        origins = await to_thread.run_sync(self._vouched_origins, agent)
        for interface in offered:
            if origin_of(interface.url) in origins:
                return replace(interface, allow_private=True)  # by its own name or number a person named it
        raise NotCallable(name, self._not_vouched(agent, offered, origins))

    def _configured(self, offered: list[Interface], service: Service) -> Interface:
        """The one at that address; else the first, or one of 1.0, at that address. Raises Incomplete."""
        first = offered[0] if offered else Interface(url=service.base_url, dialect=MODERN)
        elsewhere = replace(first, url=service.base_url)
        found = next((each for each in offered if each.url.rstrip("/") == service.base_url), elsewhere)
        login = service.login(self.configured.surroundings)
        return replace(found, login=login, allow_private=service.allow_private)

    def _vouched_origins(self, agent: Agent) -> set[str]:
        return origins_vouched_for(self.vouched, claims_on(self.configured.registry, agent.id), agent)

    def _not_vouched(self, agent: Agent, offered: list[Interface], origins: set[str]) -> str:
        """What to write where."""
        shown = offered[0].url[:200] if offered[0].url.isprintable() else "what cannot be shown"
        entry = f'[[service]] agent = {json.dumps(agent.id, ensure_ascii=False)} base_url = "…" (three lines)'
        where = self.configured.services.where_to_write()
        if origins:
            first = sorted(origins)[0]
            at = f"its card came from {first}, and says that it is at {shown!r}"
            return f"{at}: if you trust that, write {entry} into {where}"
        return (
            f"nobody here named its address; its card says {shown!r}. Run `waygraph ingest https://HOST`, with the "
            f"address of the agent itself, on the machine of this gateway, or write {entry} into {where}"
        )


class _Conversation:
    """One message and what becomes of it."""

    def __init__(self, web: Web, interface: Interface) -> None:
        self._web, self._interface = web, interface
        self._secrets = confidential(interface.login, interface.url)

    async def settled(self, said: Said, host: Host) -> Heard:
        """The message, or the task when nothing more comes by waiting."""
        dialect, tenant = self._interface.dialect, self._interface.tenant
        now = await self._asked(dialect.send, dialect.message(said, tenant))
        try:
            pause_s, told = FIRST_LOOK_S, 0
            while not now.is_settled:
                told += 1
                await host.progress(float(told), None, now.status_text or now.state or None)
                await anyio.sleep(pause_s)
                pause_s = min(1.5 * pause_s, LONGEST_LOOK_S)
                now = await self._asked(dialect.get, dialect.task(now.task_id, tenant))
        except anyio.get_cancelled_exc_class():
            with (
                anyio.move_on_after(CANCEL_S, shield=True),
                suppress(UpstreamError),
            ):  # nobody hears why
                await self._cancelled(now.task_id)
            raise
        return now

    async def _cancelled(self, task_id: str) -> None:
        dialect = self._interface.dialect
        await self._sent(dialect.cancel, dialect.task(task_id, self._interface.tenant))

    async def _asked(self, method: str, params: Mapping[str, Any]) -> Heard:
        """Raises UpstreamError."""
        answer = _message_in(await self._sent(method, params), self._secrets)
        error = answer.get("error")
        if isinstance(error, Mapping):
            raise self._error(error)
        found = heard(answer.get("result"))
        if found is None:
            raise UpstreamRefused("answered with neither a message nor a task")
        return found

    async def _sent(self, method: str, params: Mapping[str, Any]) -> Response:
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

    @staticmethod
    def _error(error: Mapping[str, Any]) -> UpstreamAnswered:
        code, message = error.get("code"), error.get("message")
        told = message if isinstance(message, str) else "no reason given"
        return UpstreamAnswered(code if isinstance(code, int) else 0, told[:MOST_CHARS], error.get("data"))


def _message_in(response: Response, secrets: tuple[str, ...]) -> Mapping[str, Any]:
    """The JSON-RPC message of an answer, in which no secret stands. Raises UpstreamRefused."""
    if not response.whole:
        raise UpstreamRefused("answered with more than may be read (WAYGRAPH_CALL_MAX_ANSWER_BYTES)")
    try:
        message = struck_json(sendable(json.loads(response.content.decode("utf-8", "replace"))), secrets)
    except (ValueError, RecursionError):
        message = None
    if isinstance(message, Mapping) and ("result" in message or "error" in message):
        return message
    if response.status in (401, 403):
        raise UpstreamRefused(f"needs a login ({response.reason}): write `auth` for it into the services file")
    raise UpstreamRefused(f"answered with {response.reason}, and with no message of JSON-RPC")


def _said(tool: Tool, arguments: Mapping[str, Any]) -> Said:
    """Raises InvalidArguments."""
    given = {name: arguments.get(name, "") for name in (MESSAGE, TASK, CONTEXT)}
    faults = [(f"/{name}", "a text") for name, value in given.items() if not isinstance(value, str)]
    if faults or not given[MESSAGE].strip():
        name = tool.call_name or tool.id
        raise InvalidArguments(name, faults or [(f"/{MESSAGE}", "what the agent is asked, in words")])
    annotations = fields_of(parsed(tool.annotations))
    return Said(
        message_id=uuid4().hex,
        text=given[MESSAGE],
        skill=tool.name,
        task_id=given[TASK],
        context_id=given[CONTEXT],
        output_modes=tuple(lines_of(annotations.get("outputModes"))),
    )


def _interfaces(agent: Agent) -> Iterator[Interface]:
    """Those that speak JSON-RPC, the preferred one first."""
    transport = fields_of(parsed(agent.transport))
    for each in map(fields_of, items_of(transport.get("interfaces")) or [transport]):
        url, binding = text_of(each.get("url")), text_of(each.get("protocolBinding")) or DEFAULT_BINDING
        if binding.upper() == "JSONRPC" and origin_of(url).startswith(("http://", "https://")):
            version = text_of(each.get("protocolVersion")) or DEFAULT_VERSION
            yield Interface(url=url, dialect=dialect_of(version), tenant=text_of(each.get("tenant")))
