"""An A2A agent of the reference SDK on a free loopback port, in the protocol's versions 1.0 and 0.3."""

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill, Message, Part, Role, Task, TaskState
from a2a.utils.errors import InvalidParamsError
from starlette.applications import Starlette
from starlette.middleware.base import BaseHTTPMiddleware

from tests.live_http import free_port

PNG = b"\x89PNG\r\n\x1a\n"


@dataclass
class Served:
    """Where it is, and what it heard: the headers of each request, the messages, the tasks that were cancelled."""

    url: str
    version: str
    headers: list[dict[str, str]] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    token: str = ""
    """Shown by nobody, it asks for no login."""


class Desk(AgentExecutor):
    """Does what the message says: `hello`, `report`, `slowly`, `forever`, `ask`, `fail`, `login`, `refuse`."""

    def __init__(self, served: Served) -> None:
        self._served = served

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.message is not None
        self._served.messages.append(context.message)
        said = context.get_user_input()
        if said == "refuse":
            piers = [f"  {pier} is taken" for pier in range(60)]
            raise InvalidParamsError(message="\n".join(["No berth:", *piers, "Wait."]))
        if said == "hello":
            parts = [Part(text="Hello yourself."), Part(text=f"token={self._served.token}")]
            await event_queue.enqueue_event(_message(context, parts))
            return
        assert context.task_id is not None
        assert context.context_id is not None
        task = context.current_task or Task(id=context.task_id, context_id=context.context_id)
        if context.current_task is None:
            task.status.state = TaskState.TASK_STATE_SUBMITTED
            await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        await getattr(self, f"_{said.split()[0]}")(updater)

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.task_id is not None
        self._served.cancelled.append(context.task_id)
        await TaskUpdater(event_queue, context.task_id, context.context_id or "").cancel()

    async def _report(self, updater: TaskUpdater) -> None:
        parts = [
            Part(text="Three berths."),
            Part(data={"struct_value": {"berths": 3}}, media_type="application/json"),
            Part(raw=PNG, media_type="image/png", filename="map.png"),
            Part(raw=b"%PDF", media_type="application/pdf", filename="list of berths.pdf"),
            Part(url="https://desk.example.com/log", media_type="text/plain", filename="log"),
        ]
        await updater.add_artifact(parts)
        await updater.complete()

    async def _slowly(self, updater: TaskUpdater) -> None:
        await updater.start_work(updater.new_agent_message([Part(text="counting")]))
        await asyncio.sleep(0.6)
        await updater.add_artifact([Part(text="counted")])
        await updater.complete()

    async def _forever(self, updater: TaskUpdater) -> None:
        await updater.start_work()
        await asyncio.sleep(600)

    async def _ask(self, updater: TaskUpdater) -> None:
        await updater.requires_input(updater.new_agent_message([Part(text="Which harbour?")]))

    async def _fail(self, updater: TaskUpdater) -> None:
        await updater.failed(updater.new_agent_message([Part(text="No pilot is free.")]))

    async def _login(self, updater: TaskUpdater) -> None:
        await updater.requires_auth()

    async def _Lisbon(self, updater: TaskUpdater) -> None:  # noqa: N802 - what is answered to its question
        await updater.add_artifact([Part(text="Booked for Lisbon.")])
        await updater.complete()


def _message(context: RequestContext, parts: list[Part]) -> Message:
    role = Role.ROLE_AGENT
    return Message(message_id="m1", context_id=context.context_id or "", role=role, parts=parts)


def card(url: str, version: str = "1.0", binding: str = "JSONRPC") -> AgentCard:
    skill = AgentSkill(id="book", name="Book a pilot", description="Books a pilot.", tags=["pilot"])
    return AgentCard(
        name="desk",
        description="Books pilots.",
        version="1.0.0",
        supported_interfaces=[AgentInterface(url=url, protocol_binding=binding, protocol_version=version)],
        capabilities=AgentCapabilities(),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[skill],
    )


@contextmanager
def serving(version: str = "1.0", *, at: str = "", token: str = "", binding: str = "JSONRPC") -> Iterator[Served]:
    """`at`: the address that the card names, by default its own. `token`: what a request has to show."""
    port = free_port()
    served = Served(url=f"http://127.0.0.1:{port}", version=version, token=token)
    told = card(at or f"{served.url}/a2a", version, binding)
    requests = DefaultRequestHandler(agent_executor=Desk(served), task_store=InMemoryTaskStore(), agent_card=told)
    routes = [*create_agent_card_routes(told), *create_jsonrpc_routes(requests, "/a2a", enable_v0_3_compat=True)]
    app = Starlette(routes=routes)
    app.add_middleware(BaseHTTPMiddleware, dispatch=_noting(served))
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_config=None, timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.005)
    try:
        yield served
    finally:
        server.should_exit = True
        thread.join()


def _noting(served: Served) -> Any:
    from starlette.responses import PlainTextResponse

    async def dispatch(request: Any, call_next: Any) -> Any:
        if request.url.path == "/a2a":
            served.headers.append(dict(request.headers))
            if served.token and request.headers.get("authorization") != f"Bearer {served.token}":
                return PlainTextResponse("who are you?", 401)
        return await call_next(request)

    return dispatch
