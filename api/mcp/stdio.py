"""`waygraph mcp`: one host, over standard input and output. Nothing but the protocol is ever written to output."""

import os
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, redirect_stdout
from dataclasses import dataclass

import anyio

from waygraph.api.mcp.gateway import Asker
from waygraph.api.mcp.host_pipes import host_pipes
from waygraph.api.mcp.last_answers import until_answered
from waygraph.api.mcp.opening import open_gateway
from waygraph.api.mcp.rules import Rules, load_rules
from waygraph.api.mcp.server import GatewayServer
from waygraph.api.mcp.session import Session
from waygraph.api.mcp.stopping import stopped_by_signal
from waygraph.api.mcp.surface import Surface
from waygraph.api.observing.audit import Audit
from waygraph.api.observing.logs import take_over_logging
from waygraph.ingest.surroundings import Surroundings
from waygraph.registry.access import LOCAL
from waygraph.registry.registry import Registry
from waygraph.registry.settings import Settings

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
    try:
        anyio.run(_serve, served, rules, audit, backend_options={"use_uvloop": True})
    finally:
        audit.close()


async def _serve(served: Served, rules: Rules, audit: Audit) -> None:
    async with host_pipes() as streams:
        reading, writing = until_answered(streams)
        # What is printed now and flushed at the end of the process would still come out where the host listens.
        with redirect_stdout(sys.stderr):
            stopped = False
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(stopped_by_signal, tasks.cancel_scope)
                async with _opened(served, rules, audit) as server:
                    await server.run(reading, writing, server.create_initialization_options())
                    stopped = True
                tasks.cancel_scope.cancel()
            if not stopped:
                _leave(served, audit)


def _opened(served: Served, rules: Rules, audit: Audit) -> AbstractAsyncContextManager[GatewayServer]:
    asker = Asker(caller=LOCAL, session=Session(), namespace=served.namespace)
    return open_gateway(
        served.registry,
        served.settings,
        served.surroundings,
        rules,
        audit=audit,
        ask=InThreads(served.settings.request_timeout_s),
        asker_of=lambda _: asker,
        surface=served.surface,
    )


class InThreads:
    """An `Ask`: threads of its own, so that finds that hang take none of those in which calls are prepared.

    Raises TimeoutError for work that takes longer than `timeout_s`; its thread may go on, and another takes its place.
    """

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s, self._places = timeout_s, anyio.CapacityLimiter(MOST_AT_WORK)

    async def __call__[T](self, work: Callable[[], T], /) -> T:
        with anyio.fail_after(self._timeout_s):
            return await anyio.to_thread.run_sync(work, abandon_on_cancel=True, limiter=self._places)


def _leave(served: Served, audit: Audit) -> None:
    """Ends the process: a thread of the transport waits for the host's next line, and nothing wakes it."""
    audit.close()
    served.registry.close()
    sys.stderr.flush()
    os._exit(0)
