"""Numbers for Prometheus: requests, refusals, writes, statements, calls, and what the registry holds.

Labels come from closed sets (route templates, classes of status, outcomes), so their number is bounded whatever is
asked. Failures of sources are named, at most MAX_FAILURES of each. With several workers they share a folder, and any
of them tells the numbers of all.
"""

import os
import platform
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

import prometheus_client
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
from prometheus_client.registry import Collector

from waygraph.registry.model.changes import Failure
from waygraph.registry.model.errors import WaygraphError
from waygraph.registry.model.nouns import HIDDEN_REASON
from waygraph.registry.model.tracing import OTHER, Name, Side

SHARED_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""The variable by which prometheus_client learns of the folder, when it is imported."""
NO_ROUTE = "unmatched"
"""The route of every path that no route takes."""
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
OTHER_METHOD = "other"
REFUSALS = {401: "authentication", 403: "permission", 429: "rate_limit"}
"""Status → why a request was refused."""
DURATIONS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
OPERATIONS_S = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
_SERIES_KEPT = 4_096


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """What the registry holds now, as a worker sees it."""

    revision: int
    agents: int
    tools: int
    statuses: Mapping[str, int] = field(default_factory=dict)
    """How many agents are known, online, unreachable, failing."""
    failures: Sequence[Failure] = ()
    """What of the sources does not work."""


class Metrics:
    """Counts events; threads may share it. `holding` is asked at each scrape.

    With `folder`, reports the numbers of all workers that use it; prometheus_client must have been imported
    with SHARED_FOLDER set to it (see `shared_folder`).
    """

    def __init__(self, holding: Callable[[], Holding] | None = None, *, folder: Path | None = None) -> None:
        self._folder = folder
        prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call] # a second series for each, which nobody reads
        own = CollectorRegistry()

        def counter(name: str, meaning: str, *labels: str) -> Counter:
            return Counter(f"waygraph_{name}", meaning, labels, registry=own)

        def histogram(name: str, meaning: str, label: str) -> Histogram:
            return Histogram(f"waygraph_{name}_seconds", meaning, (label,), buckets=DURATIONS_S, registry=own)

        def operations(name: Name, meaning: str) -> Histogram:
            labels = [label.replace(".", "_") for label in (Name.METHOD, Name.ERROR)]
            return Histogram(
                name.replace(".", "_"), meaning, labels, unit="seconds", buckets=OPERATIONS_S, registry=own
            )

        self._requests = counter("http_requests", "Requests answered", "method", "route", "status")
        self._durations = histogram("http_request_duration", "Time from the request to the end of its answer", "route")
        self._in_flight = Gauge(
            "waygraph_http_requests_in_flight", "Requests at work now", registry=own, multiprocess_mode="livesum"
        )
        self._refused = counter("refused", "Requests refused", "reason")
        self._writes = counter("writes", "Attempts to change something", "action", "outcome")
        self._statements = counter("cypher_statements", "Cypher statements", "outcome")
        self._calls = counter("tool_calls", "Calls of tools", "outcome")
        self._call_durations = histogram("tool_call_duration", "Time from a call's start to its answer", "outcome")
        self._operations: Mapping[Side, Histogram] = {
            "client": operations(Name.CLIENT_DURATION, "Time from a request to an MCP server to its answer"),
            "server": operations(Name.SERVER_DURATION, "Time from a request of an MCP host to its answer"),
        }
        self._unaudited = counter("audit_failures", "Audit lines that no file took")
        self._lost_lines = counter("log_lines_lost", "Log lines that no stream took")
        self._own, self._holding = own, holding
        self._series = lru_cache(maxsize=_SERIES_KEPT)(
            lambda method, route, status: (self._requests.labels(method, route, status), self._durations.labels(route))
        )

    def count_start(self) -> None:
        """A request came."""
        self._in_flight.inc()

    def count_answer(self, method: str, route: str, status: int, duration_s: float) -> None:
        """It was answered; `route` is a route's template or NO_ROUTE."""
        count, time = self._series(method if method in METHODS else OTHER_METHOD, route, f"{status // 100}xx")
        count.inc()
        time.observe(duration_s)
        if status in REFUSALS:
            self._refused.labels(REFUSALS[status]).inc()
        self._in_flight.dec()  # last: what is at work no more has been counted, whichever process is asked

    def count_attempt(self, action: str, outcome: str) -> None:
        """A statement, a call or a write was tried; both words come from closed sets."""
        if own_counter := {"cypher": self._statements, "call": self._calls}.get(action):
            own_counter.labels(outcome).inc()
        else:
            self._writes.labels(action, outcome).inc()

    def time_call(self, outcome: str, duration_s: float) -> None:
        """Of a call that was sent; the word comes from a closed set."""
        self._call_durations.labels(outcome).observe(duration_s)

    def time_operation(self, side: Side, method: str, error: str, duration_s: float) -> None:
        """Of MCP. `error`: its type, "" for none; a code that JSON-RPC does not reserve may be any number."""
        is_code = error.lstrip("-").isdigit()
        is_bounded = not is_code or -32_768 <= int(error) <= -32_000
        self._operations[side].labels(method, error if is_bounded else OTHER).observe(duration_s)

    def lost_audit_line(self) -> None:
        self._unaudited.inc()

    def lost_log_line(self) -> None:
        self._lost_lines.inc()

    def exposition(self, *, reasons: bool = False) -> tuple[bytes, str]:
        """All numbers in Prometheus's text format, and its content type. `reasons`: also why what fails does."""
        registry = CollectorRegistry()
        registry.register(_Facts(self._holding, reasons=reasons))
        if self._folder is None:
            return generate_latest(self._own) + generate_latest(registry), CONTENT_TYPE_LATEST
        _forget_the_dead(self._folder)
        MultiProcessCollector(registry, path=str(self._folder))  # type: ignore[no-untyped-call]
        return generate_latest(registry), CONTENT_TYPE_LATEST


class _Facts(Collector):
    """What is true at the time of the scrape, not counted."""

    def __init__(self, holding: Callable[[], Holding] | None, *, reasons: bool) -> None:
        self._holding, self._reasons = holding, reasons

    def describe(self) -> Iterable[Metric]:
        """Nothing is asked when this is registered."""
        return ()

    def collect(self) -> Iterator[Metric]:
        build = GaugeMetricFamily("waygraph_build_info", "Version of Waygraph; always 1", labels=("version", "python"))
        build.add_metric((version("waygraph"), platform.python_version()), 1)
        yield build
        if self._holding is not None:
            yield from _registry_metrics(self._holding, reasons=self._reasons)


def _registry_metrics(holding: Callable[[], Holding], *, reasons: bool) -> Iterator[Metric]:
    """A registry that cannot be read is `up 0`, and the rest is told all the same."""
    try:
        now = holding()
    except WaygraphError:
        yield GaugeMetricFamily("waygraph_registry_up", "Whether the registry can be read", value=0)
        return
    for name, meaning, value in (
        ("up", "Whether the registry can be read", 1),
        ("revision", "Revision that this worker answers from", now.revision),
        ("agents", "Agents in it", now.agents),
        ("tools", "Tools in it", now.tools),
    ):
        yield GaugeMetricFamily(f"waygraph_registry_{name}", meaning, value=value)
    statuses = GaugeMetricFamily(
        "waygraph_registry_agents_by_status", "Agents by what is known of them", labels=("status",)
    )
    for status, agents in sorted(now.statuses.items()):
        statuses.add_metric((status,), agents)
    yield statuses
    failing = GaugeMetricFamily(
        "waygraph_source_failing_since_seconds",
        "When what fails of a source began to, in seconds since 1970",
        labels=("source", "server", "reason"),
    )
    for each in now.failures:
        since_s = datetime.fromisoformat(each.since).timestamp()
        failing.add_metric((each.source, each.key, each.reason if reasons else HIDDEN_REASON), since_s)
    yield failing


@contextmanager
def shared_folder(environ: MutableMapping[str, str]) -> Iterator[Path]:
    """A folder for the numbers of workers, which their parent enters before it starts them. It is removed at the end.

    `environ` is the process's own: the workers inherit it, and prometheus_client reads it.
    """
    with TemporaryDirectory(prefix="waygraph-metrics-", ignore_cleanup_errors=True) as folder:
        environ[SHARED_FOLDER] = folder
        try:
            yield Path(folder)
        finally:
            environ.pop(SHARED_FOLDER, None)


def _forget_the_dead(folder: Path) -> None:
    """Gauges of a worker that has ended are not added up any more; what it counted stays."""
    for pid in {int(path.stem.rpartition("_")[2]) for path in folder.glob("gauge_live*_*.db")}:
        try:
            with suppress(PermissionError):  # it lives, as another user's
                os.kill(pid, 0)
        except ProcessLookupError:
            with suppress(FileNotFoundError):  # another worker's scrape was first
                mark_process_dead(pid, path=str(folder))  # type: ignore[no-untyped-call]


def memory_bytes() -> int:
    """Of this process; 0: not known."""
    samples = (sample for metric in prometheus_client.PROCESS_COLLECTOR.collect() for sample in metric.samples)
    return next((int(each.value) for each in samples if each.name == "process_resident_memory_bytes"), 0)
