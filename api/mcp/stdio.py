"""`waygraph mcp`: one host, over standard input and output. Nothing but the protocol is ever written to output."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import anyio

from waygraph.api.mcp import Surface
from waygraph.api.mcp.gateway import Parts
from waygraph.api.mcp.server import open_server
from waygraph.api.mcp.sessions import Asker, Session
from waygraph.api.mcp.stdio_transport import host_streams, leave, until_signal
from waygraph.api.telemetry.audit import Audit
from waygraph.api.telemetry.logs import take_over_logging
from waygraph.ingest.execution.services import load_services
from waygraph.ingest.manifest.environment import Surroundings
from waygraph.registry.access.policy import load_policy
from waygraph.registry.access.visibility import LOCAL
from waygraph.registry.model.settings import Settings
from waygraph.registry.storage.local_registry import LocalRegistry

MOST_AT_WORK = 40
"""Questions to the registry, at a time; whatever else waits for its turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """What is served to the host, and how. `namespace` empty: the whole registry."""

    registry: LocalRegistry
    settings: Settings
    surroundings: Surroundings
    surface: Surface = "default"
    namespace: str = ""


def run_stdio(served: Served) -> None:
    """Serves until the host closes its side, or SIGTERM or SIGINT. Before it begins it raises InvalidSetting."""
    settings = served.settings
    policy, services = load_policy(settings.policy_file), load_services(settings.services_file)
    take_over_logging(settings.log_format, settings.log_level, sys.stderr)
    asker = Asker(caller=LOCAL, session=Session(), namespace=served.namespace)
    parts = Parts(
        registry=served.registry,
        settings=settings,
        surroundings=served.surroundings,
        policy=policy,
        services=services,
        audit=Audit(settings.audit_path),
        ask=InThreads(settings.request_timeout_s),
        asker_of=lambda _: asker,
        surface=served.surface,
    )
    try:
        anyio.run(_serve, parts, backend_options={"use_uvloop": True})
    finally:
        parts.audit.close()


async def _serve(parts: Parts) -> None:
    async with host_streams() as (reading, writing):
        is_stopped = await until_signal(lambda: _answer(parts, reading, writing))
        if is_stopped:
            parts.audit.close()
            parts.registry.close()
            leave()


async def _answer(parts: Parts, reading: Any, writing: Any) -> None:
    async with open_server(parts) as server:
        await server.run(reading, writing, server.create_initialization_options())


class InThreads:
    """An `Ask`: threads of its own, so that finds that hang take none of those in which calls are prepared.

    Raises TimeoutError for work that takes longer than `timeout_s`; its thread may go on, and another takes its place.
    """

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s, self._places = timeout_s, anyio.CapacityLimiter(MOST_AT_WORK)

    async def __call__[T](self, work: Callable[[], T], /) -> T:
        with anyio.fail_after(self._timeout_s):
            return await anyio.to_thread.run_sync(work, abandon_on_cancel=True, limiter=self._places)
