"""What `waygraph serve` runs: the service in one process or several, as the options say."""

import asyncio
import errno
import json
import os
import select
import signal
import socket
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from math import ceil
from multiprocessing import parent_process
from multiprocessing.resource_tracker import ensure_running
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import uvicorn
from uvicorn.supervisors import Multiprocess, multiprocess

from waygraph.api.rest.application import application
from waygraph.api.rest.browser_sessions import BrowserSessions, share_key
from waygraph.api.rest.follow import Follower, follow_sources, sources_to_follow
from waygraph.api.rest.mcp_mount import OfferedGateway
from waygraph.api.rest.middleware import LOOPBACK, Protocol
from waygraph.api.rest.service import Lanes, Readiness, Service
from waygraph.api.telemetry.audit import Audit
from waygraph.api.telemetry.logs import open_logs
from waygraph.api.telemetry.metrics import SHARED_FOLDER, Holding, Metrics, shared_folder
from waygraph.api.telemetry.traces import Traces, open_traces
from waygraph.registry.access.authenticator import Authenticator, FailureLimit, RateLimit, authentication_of, key_file
from waygraph.registry.http.addresses import is_loopback
from waygraph.registry.model.errors import InvalidSetting
from waygraph.registry.model.files import as_written
from waygraph.registry.model.nouns import word_of
from waygraph.registry.model.process import die_with, forbid_inspection, take_short_turns
from waygraph.registry.model.settings import Settings, load_settings
from waygraph.registry.model.tracing import set_meter
from waygraph.registry.storage.local_registry import LocalRegistry
from waygraph.registry.storage.location import is_server
from waygraph.registry.storage.store import MEMORY
from waygraph.registry.storage.usage_file import UsageCounter

if TYPE_CHECKING:
    from waygraph.api.mcp import Surface
    from waygraph.api.telemetry.logs import Logger
    from waygraph.api.telemetry.request_log import Application


STARTING_S = 20
"""A worker that gives no sign for so long is ended, and another one started; on a slow machine to start takes long."""
KEEP_ALIVE_S = 30


def listen(host: str, port: int) -> socket.socket:
    """Raises InvalidSetting for an address that cannot be had."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listening = socket.create_server((host, port), family=family, backlog=2048)
    except OSError as exc:
        advice = "; name another with --port" if exc.errno == errno.EADDRINUSE else ""
        reason = os.strerror(exc.errno) if exc.errno and exc.errno in errno.errorcode else exc.strerror
        raise InvalidSetting(f"cannot listen on {host}:{port}: {reason}{advice}") from exc
    listening.set_inheritable(True)
    return listening


@contextmanager
def stops_in_order() -> Iterator[list[int]]:
    """Signals to stop that come before uvicorn handles them itself.

    uvicorn raises the signal that stopped it again when it is done. Here that signal has no further effect.
    """
    signals: list[int] = []
    stops = (signal.SIGTERM, signal.SIGINT)
    before = {number: signal.signal(number, lambda number, _: signals.append(number)) for number in stops}
    try:
        yield signals
    finally:
        for number, action in before.items():
            signal.signal(number, action)


_TURNS = 5
"""Of the loop: so many pass before a connection that was taken is read from."""


class Alone(uvicorn.Server):
    """One process. It stops at once if a signal came before uvicorn handled signals."""

    def __init__(self, config: uvicorn.Config, signals: Sequence[int]) -> None:
        super().__init__(config)
        self._signals = signals

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self._signals:
            self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # Who is in the port's queue came before: closed with it, the connection would be reset.
        ports = [each.fileno() for server in self.servers for each in server.sockets]
        quiet = 0
        for _ in range(self.config.backlog):
            await asyncio.sleep(0)
            quiet = 0 if select.select(ports, (), (), 0)[0] else quiet + 1
            if quiet == _TURNS:
                break
        await super().shutdown(sockets)


class Worker(multiprocess.Process):
    """One of several, which stops as the only one does. uvicorn makes its own kind, whose server closes the port at
    once: whoever is in its queue would be reset.
    """

    @cached_property
    def server(self) -> uvicorn.Server:
        return Alone(self.config, ())


class Workers(Multiprocess):
    """Several processes and their parent, which stops at once if a signal came before uvicorn handled signals."""

    def __init__(self, config: uvicorn.Config, sockets: list[socket.socket], signals: Sequence[int]) -> None:
        super().__init__(config, sockets)
        multiprocess.Process = Worker  # type: ignore[misc]  # it takes no class
        self.signal_queue += signals

    def terminate_all(self) -> None:
        """Who comes from now on is refused: held open here, the port would take connections that nobody serves."""
        for listening in self.sockets:
            listening.close()
        super().terminate_all()


def configuration(
    app: "Application | str", settings: Settings, environ: Mapping[str, str], *, workers: int = 1
) -> uvicorn.Config:
    """How uvicorn serves it. `app` as text: where its factory is. `environ` names the proxies that are believed."""
    proxies = environ.get("FORWARDED_ALLOW_IPS")
    return uvicorn.Config(
        app,
        factory=isinstance(app, str),
        workers=workers,
        http=Protocol,
        log_config=None,
        access_log=False,
        server_header=False,
        ws="none",
        proxy_headers=bool(proxies),
        forwarded_allow_ips=proxies,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=ceil(settings.drain_timeout_s),
        timeout_worker_healthcheck=STARTING_S,
        lifespan="on",
    )


OPTIONS_VARIABLE = "WAYGRAPH_SERVICE_CHOSEN"
"""The variable by which workers get the options of their parent."""
FAILURES_BURST = 20
"""Requests of an address whose caller is not known, at once."""
MAX_CALLERS = 10_000
"""So many are counted at a time, so that memory is bounded."""
_SERVER_THREADS = 32
"""On a graph server a question mostly waits for it."""


@dataclass(frozen=True, kw_only=True)
class ServiceOptions:
    """The options of the command `serve`. `embedder` empty: the registry's own."""

    location: str
    embedder: str = ""
    host: str = "127.0.0.1"
    port: int = 8080
    workers: int = 1
    open_to_all: bool = False
    """No authentication, whatever keys there are."""
    watch: Sequence[str] = ()
    """Sources to follow, as a person names them."""
    mcp: bool = True
    """Whether the gateway is offered beside REST."""
    surface: "Surface" = "default"
    """What the gateway lists."""
    """Whose servers the gateway starts before they are called."""
    local: str = ""
    """Only who shows this text may call, and everything."""


def serve(options: ServiceOptions) -> None:
    """Serves until SIGTERM or SIGINT, and then ends what was begun.

    Before it begins it raises InvalidSetting, and what opening a registry or a file of keys raises.
    """
    settings = load_settings()
    asks = not options.open_to_all and authentication_of(settings) is not None
    check_address(options, asks_who_calls=asks)
    if options.workers > 1 and options.location == MEMORY:
        raise InvalidSetting("a registry in memory belongs to one process: use --workers 1, or a file")
    with closing(listen(options.host, options.port)) as listening, _hand_over(os.environ, options):
        app = worker() if options.workers == 1 else _try_factory(options, settings)
        with stops_in_order() as signals:
            print(_first_words(options, listening, asks_who_calls=asks), file=sys.stderr, flush=True)  # noqa: T201
            _run(app, options, settings, listening, signals)


def explore(
    options: ServiceOptions, settings: Settings, show: Callable[[str], None], report: Callable[[bool], None]
) -> None:
    """Serves to one person alone, until SIGTERM or SIGINT. `show` gets the address that opens it, once.

    `report` is told when a browser opens it, and whether another one did before: then nobody may go on.

    Raises as `serve`, and what `show` raises.
    """

    def note_shown(is_again: bool) -> None:
        if is_again and service.authenticator:
            service.authenticator.forget_local()
        report(is_again)

    take_short_turns()
    # Whoever opens it could start each server from a terminal: tools may be tried, by the policy and with consent.
    settings = replace(settings, log_level="error", explorer_calls=True)
    with closing(listen(options.host, options.port)) as listening:
        service = open_service(options, settings, os.environ)
        app = compose_application(service, options, os.environ, sys.stderr)
        with stops_in_order() as signals:
            invitation = service.sessions.invite(options.local, note_shown)
            show(f"http://{options.host}:{listening.getsockname()[1]}/explore#{invitation}")
            _run(app, options, settings, listening, signals)


def _first_words(options: ServiceOptions, listening: socket.socket, *, asks_who_calls: bool) -> str:
    """Where it is and who may call; also that there is no registry yet, by which a mistyped file is noticed."""
    host, port = listening.getsockname()[:2]
    address = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    who = "asks who calls" if asks_who_calls else "without authentication: whoever reaches it may do everything"
    words = f"Waygraph on {address} ({who})"
    if is_server(options.location) or options.location == MEMORY or as_written(options.location).exists():
        return words
    return f"{words}\nThere is no registry at {options.location} yet: the first manifest makes it."


def check_address(options: ServiceOptions, *, asks_who_calls: bool) -> None:
    """Without authentication only this machine is listened to. Raises InvalidSetting."""
    if asks_who_calls or options.open_to_all or is_loopback(options.host):
        return
    raise InvalidSetting(
        f"{options.host} can be reached from other machines, and nothing says who may call: make a key "
        "(`waygraph keys create`), name an OIDC issuer (WAYGRAPH_OIDC_ISSUER), or say --no-auth if that is meant."
    )


def worker() -> "Application":
    """The application of one process, by the options of its parent. A factory for uvicorn."""
    forbid_inspection()
    if parent := parent_process():  # it holds the port, and nobody else would end it
        die_with(parent.pid or 0, signal.SIGTERM)
    take_short_turns()
    options = ServiceOptions(**json.loads(os.environ[OPTIONS_VARIABLE]))
    return compose_application(open_service(options, load_settings(), os.environ), options, os.environ, sys.stderr)


def open_service(options: ServiceOptions, settings: Settings, environ: Mapping[str, str]) -> Service:
    """Raises what opening a registry and sources raises, InvalidSetting and KeysUnusable."""
    if not settings.service_threads and is_server(options.location):
        settings = replace(settings, service_threads=_SERVER_THREADS)
    authenticator = None if options.open_to_all else authentication_of(settings)
    if options.local:
        authenticator = Authenticator(key_file(settings), local=options.local)
    # Of several workers none follows: the registry has one writer, and their parent is it.
    follows = options.watch if options.workers == 1 else ()
    sources = sources_to_follow(follows, options.location, settings, environ)
    registry = _registry(options, settings, environ)
    folder = environ.get(SHARED_FOLDER)
    metrics = Metrics(lambda: _holding(registry), folder=Path(folder) if folder else None)
    audit = Audit(settings.audit_path, metrics=metrics)
    share = options.workers
    return Service(
        registry=registry,
        settings=settings,
        authenticator=authenticator,
        requests=RateLimit(settings.rate_per_minute / share, settings.rate_burst, max_callers=MAX_CALLERS),
        failures=FailureLimit(RateLimit(settings.failures_per_minute / share, FAILURES_BURST, max_callers=MAX_CALLERS)),
        lanes=Lanes(settings),
        audit=audit,
        metrics=metrics,
        readiness=Readiness(registry, authenticator.keys if authenticator else None),
        follower=Follower(registry, sources, settings, audit),
        sessions=BrowserSessions(settings, Path(folder) if folder else None),
        usage=UsageCounter(registry.store, settings) if settings.usage and options.location != MEMORY else None,
    )


def _registry(options: ServiceOptions, settings: Settings, environ: Mapping[str, str]) -> LocalRegistry:
    return LocalRegistry.open(options.location, embedder=options.embedder or None, settings=settings, environ=environ)


def compose_application(
    service: Service, options: ServiceOptions, environ: Mapping[str, str], stream: TextIO
) -> "Application":
    """What a server runs: the service behind its limits, logging to `stream`. Raises InvalidSetting, MissingExtra."""
    # Without authentication a web page could reach the service under a name that it makes point to this machine.
    alone = (service.authenticator is None or options.local) and is_loopback(options.host)
    hosts = (*LOOPBACK, options.host) if alone else None
    log, gateway, traces = _open_surroundings(service, options, environ, stream)
    set_meter(service.metrics.time_operation)
    return application(service, gateway, log=log, traces=traces, hosts=hosts)


def _open_surroundings(
    service: Service, options: ServiceOptions, environ: Mapping[str, str], stream: TextIO
) -> "tuple[Logger, OfferedGateway | None, Traces | None]":
    """What stands around a service: all that can fail of an application. Raises InvalidSetting, MissingExtra."""
    settings = service.settings
    log = open_logs(settings.log_level, stream, service.metrics.lost_log_line)
    gateway, alone = None, options.workers == 1
    if options.mcp:
        gateway = OfferedGateway(service, environ, surface=options.surface, alone=alone)
    return log, gateway, open_traces(environ, stream)


def _holding(registry: LocalRegistry) -> Holding:
    status = registry.status()
    state = status.state
    statuses: Counter[str] = Counter(word_of(agent.status) for agent in registry.agents())
    return Holding(
        revision=state.revision, agents=state.agents, tools=state.tools, statuses=statuses, failures=status.failures
    )


def _try_factory(options: ServiceOptions, settings: Settings) -> str:
    """The factory of workers; what would make each of them fail is raised here."""
    service = open_service(options, settings, os.environ)
    try:
        _, _, traces = _open_surroundings(service, options, os.environ, sys.stderr)
        if traces:
            traces.close()
    finally:
        service.audit.close()
        service.registry.close()
    return "waygraph.api.rest.bootstrap:worker"


def _run(
    app: "Application | str",
    options: ServiceOptions,
    settings: Settings,
    listening: socket.socket,
    signals: Sequence[int],
) -> None:
    """`app`: an application, or with several workers where its factory is. `signals`: those of `stops_in_order`."""
    config = configuration(app, settings, os.environ, workers=options.workers)
    if options.workers == 1:
        Alone(config, signals).run(sockets=[listening])
        return
    sources = sources_to_follow(options.watch, options.location, settings, os.environ)
    with (
        shared_folder(os.environ) as folder,
        closing(Audit(settings.audit_path)) as audit,
        follow_sources(lambda: _registry(options, settings, os.environ), sources, settings, audit),
    ):
        share_key(folder)
        _start_tracker(os.environ)
        Workers(config, [listening], signals).run()


def _start_tracker(environ: MutableMapping[str, str]) -> None:
    """Without secrets: any process of this user can read the environment of the one that tracks what workers share."""
    variables = dict(environ)
    try:
        for name in variables.keys() - {"LD_LIBRARY_PATH"}:
            del environ[name]
        ensure_running()
    finally:
        environ.update(variables)


@contextmanager
def _hand_over(environ: MutableMapping[str, str], options: ServiceOptions) -> Iterator[None]:
    environ[OPTIONS_VARIABLE] = json.dumps(asdict(options))
    try:
        yield
    finally:
        del environ[OPTIONS_VARIABLE]
