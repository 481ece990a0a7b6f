"""`waygraph mcp`: one host, over standard input and output. Nothing but the protocol is ever written to output."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass, replace
from threading import Event, Thread
from types import ModuleType

import anyio

from waygraph.api.mcp.direct.answers import DirectAnswers
from waygraph.api.mcp.direct.pipe import DirectPipe
from waygraph.api.mcp.gateway import Asker, Parts, Session, discovery_of, load_rules
from waygraph.api.mcp.host_pipes import HostPipes, host_pipes
from waygraph.api.mcp.last_answers import stopped_by_signal
from waygraph.api.mcp.tools import Surface
from waygraph.api.telemetry.audit import Audit
from waygraph.api.telemetry.logs import take_over_logging
from waygraph.ingest.manifest.environment import Surroundings
from waygraph.registry.access.arguments import check_arguments
from waygraph.registry.access.visibility import LOCAL
from waygraph.registry.model.errors import WaygraphError
from waygraph.registry.model.nouns import Tool
from waygraph.registry.model.process import uncollected
from waygraph.registry.model.settings import Settings
from waygraph.registry.registry import Registry

# What a host's first question would wait for, had before it comes: index and model; a little later what calls need.


FIRST_QUESTIONS_S = 1.0
"""So long what only calls need waits: to import it meanwhile would hold up the first questions."""

_NOT_PLAIN = '{"type":"object","minProperties":0}'
"""Arguments of plain schemas are accepted without the library that is to be imported."""


@contextmanager
def loading(registry: Registry) -> Iterator[None]:
    """Loads in a thread while the block begins: what it imports meanwhile, the SDK above all, takes as long."""
    ended = Event()
    thread = Thread(target=_load, args=(registry, ended), name="load", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()  # it uses the registry, which is closed next


def _load(registry: Registry, ended: Event) -> None:
    """Why something cannot be had is told to who asks for it."""
    with suppress(WaygraphError):
        if registry.exists:
            registry.route("are you ready")
    if not ended.wait(FIRST_QUESTIONS_S):
        check_arguments(Tool(id="", agent_id="", name="", input_schema=_NOT_PLAIN), {})


MOST_AT_WORK = 40
"""Questions to the registry, at a time; whatever else waits for its turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """What is served to the host, and how. `namespace` empty: the whole registry."""

    registry: Registry
    settings: Settings
    surroundings: Surroundings
    surface: Surface = "default"
    namespace: str = ""


def run_stdio(served: Served) -> None:
    """Serves until the host closes its side, or SIGTERM or SIGINT. Before it begins it raises InvalidSetting."""
    settings = served.settings
    rules = load_rules(settings)
    audit = Audit(settings.audit_path)
    take_over_logging(settings.log_format, settings.log_level, sys.stderr)
    ask = InThreads(settings.request_timeout_s)
    discovery = discovery_of(served.registry, settings, rules, ask, served.surface)
    asker = Asker(caller=LOCAL, session=Session(), namespace=served.namespace)
    parts = Parts(
        discovery=discovery,
        settings=settings,
        surroundings=served.surroundings,
        rules=rules,
        audit=audit,
        asker_of=lambda _: asker,
    )
    try:
        anyio.run(_serve, parts, asker, backend_options={"use_uvloop": True})
    finally:
        audit.close()


async def _serve(parts: Parts, asker: Asker) -> None:
    async with host_pipes() as pipes:
        stopped = False
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stopped_by_signal, tasks.cancel_scope)
            await (_by_the_sdk(parts) if pipes is None else _directly(parts, asker, pipes))
            stopped = True
            tasks.cancel_scope.cancel()
        if not stopped:
            _leave(parts)


async def _by_the_sdk(parts: Parts) -> None:
    await _sdk().serve(parts, None)


async def _directly(parts: Parts, asker: Asker, pipes: HostPipes) -> None:
    """What can be answered directly is; the rest by the SDK, which is imported when it is wanted, or a little later."""
    # What is printed now and flushed at the end of the process would still come out where the host listens.
    with redirect_stdout(sys.stderr):
        async with anyio.create_task_group() as tasks:
            answers = DirectAnswers(parts.discovery, asker)
            direct = DirectPipe(pipes.asked, pipes.told, answers, tasks)
            if sdk := await _wanted_sdk(direct):
                timed = replace(parts, waited_s=lambda ctx: direct.waited_s(ctx.request_id))
                await sdk.serve(timed, HostPipes(direct, pipes.told), direct.has_answer, answers.listed)
            tasks.cancel_scope.cancel()


async def _wanted_sdk(direct: DirectPipe) -> ModuleType | None:
    """None: the host left, and all that it asked is answered."""
    made: list[ModuleType] = []

    async def have(scope: anyio.CancelScope) -> None:
        with anyio.move_on_after(FIRST_QUESTIONS_S):
            await direct.wanted.wait()
        if direct.has_left and not direct.wanted.is_set():
            return
        made.append(await anyio.to_thread.run_sync(_sdk, abandon_on_cancel=True))
        scope.cancel()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(have, tasks.cancel_scope)
        await direct.hold()
        if not direct.wanted.is_set():
            tasks.cancel_scope.cancel()
    return made[0] if made else None


def _sdk() -> ModuleType:
    """It takes half a second to import."""
    with uncollected():
        from waygraph.api.mcp import by_sdk
    return by_sdk


class InThreads:
    """An `Ask`: threads of its own, so that finds that hang take none of those in which calls are prepared.

    Raises TimeoutError for work that takes longer than `timeout_s`; its thread may go on, and another takes its place.
    """

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s, self._places = timeout_s, anyio.CapacityLimiter(MOST_AT_WORK)

    async def __call__[T](self, work: Callable[[], T], /) -> T:
        with anyio.fail_after(self._timeout_s):
            return await anyio.to_thread.run_sync(work, abandon_on_cancel=True, limiter=self._places)


def _leave(parts: Parts) -> None:
    """Ends the process: where the host gave no pipe a thread waits for its next line, and nothing wakes it."""
    parts.audit.close()
    parts.discovery.registry.close()
    sys.stderr.flush()
    os._exit(0)
