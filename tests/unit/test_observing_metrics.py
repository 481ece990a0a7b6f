"""Numbers for Prometheus: what is counted, under which labels, from one process or from several."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.observed_service import Service, observed_service, samples
from waygraph.api.telemetry.metrics import METHODS, Holding, Metrics

ROOT = Path(__file__).resolve().parent.parent.parent
ODD_METHODS = ("PROPFIND", "MKCOL", "LOCK", "PURGE", "REPORT")
"""HTTP's parsers take them, and no route of ours does; what the parsers refuse reaches no application."""
REQUESTS = "waygraph_http_requests_total"
DURATIONS = "waygraph_http_request_duration_seconds"


@pytest.fixture
def service() -> Iterator[Service]:
    with observed_service() as service:
        yield service


def scraped(service: Service) -> dict[str, float]:
    return dict(samples(httpx2.get(f"{service.url}/metrics").content))


def count(numbers: dict[str, float], method: str, route: str, status: str) -> float:
    return numbers.get(f'{REQUESTS}{{method="{method}",route="{route}",status="{status}"}}', 0.0)


def test_requests_are_counted_by_route_and_class_of_status(service: Service) -> None:
    """Each once, and its duration; the scrape itself is at work while it is made."""
    for status in (200, 204, 404, 503):
        httpx2.get(f"{service.url}/status/{status}")
    httpx2.get(f"{service.url}/fails")
    numbers = scraped(service)
    assert count(numbers, "GET", "/status/{status}", "2xx") == 2
    assert count(numbers, "GET", "/status/{status}", "4xx") == 1
    assert count(numbers, "GET", "/status/{status}", "5xx") == 1
    assert count(numbers, "GET", "/fails", "5xx") == 1
    assert numbers[f'{DURATIONS}_count{{route="/status/{{status}}"}}'] == 4
    assert numbers[f'{DURATIONS}_bucket{{le="+Inf",route="/status/{{status}}"}}'] == 4
    assert numbers["waygraph_http_requests_in_flight"] == 1


def test_refusals_are_counted_by_reason(service: Service) -> None:
    """Unknown callers, callers without the right, callers that ask too often; other errors are none."""
    for status in (401, 401, 403, 429, 400, 404):
        httpx2.get(f"{service.url}/status/{status}")
    numbers = scraped(service)
    refused = {
        reason: numbers.get(f'waygraph_refused_total{{reason="{reason}"}}')
        for reason in ("authentication", "permission", "rate_limit")
    }
    assert refused == {"authentication": 2, "permission": 1, "rate_limit": 1}


def test_labels_are_few_whatever_is_asked(service: Service) -> None:
    """Paths that no route takes are one label, methods that nobody knows another."""
    with httpx2.Client(base_url=service.url) as client:
        for number in range(30):
            client.get(f"/unknown/{number}")
            client.get(f"/api/v1/agents/{number}")
            client.request(ODD_METHODS[number % len(ODD_METHODS)], "/status/200")
    numbers = scraped(service)
    series = [name for name in numbers if name.startswith(REQUESTS)]
    assert count(numbers, "GET", "unmatched", "4xx") == 30
    assert count(numbers, "GET", "/api/v1/agents/{agent_id}", "2xx") == 30
    assert count(numbers, "other", "/status/{status}", "4xx") == 30
    assert len(series) == 3
    assert "other" not in METHODS


def test_what_the_registry_holds_is_asked_at_the_scrape() -> None:
    held = [Holding(revision=3, agents=2, tools=7), Holding(revision=4, agents=2, tools=9)]
    metrics = Metrics(lambda: held.pop(0))
    for revision, tools in ((3, 7), (4, 9)):
        numbers = samples(metrics.exposition()[0])
        assert numbers["waygraph_registry_up"] == 1
        assert (numbers["waygraph_registry_revision"], numbers["waygraph_registry_tools"]) == (revision, tools)
        assert numbers["waygraph_registry_agents"] == 2


def test_the_exposition_is_prometheus_text() -> None:
    """Its own parser reads it whole; the build is told; nothing here is counted by two names."""
    body, kind = Metrics(lambda: Holding(revision=1, agents=1, tools=1)).exposition()
    families = list(text_string_to_metric_families(body.decode()))
    names = [family.name for family in families]
    assert kind.startswith("text/plain; version=")
    assert sorted(names) == sorted(set(names))
    assert all(name.startswith(("waygraph_", "mcp_")) for name in names)
    (build,) = next(family for family in families if family.name == "waygraph_build_info").samples
    assert set(build.labels) == {"version", "python"}
    assert build.value == 1


def test_every_metric_is_documented() -> None:
    """docs/operations.md has a row for each, by the name that is scraped."""
    metrics = Metrics(lambda: Holding(revision=1, agents=1, tools=1))
    page = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    families = text_string_to_metric_families(metrics.exposition()[0].decode())
    names = [f"{family.name}_total" if family.type == "counter" else family.name for family in families]
    assert len(names) > 10
    assert [name for name in names if f"| `{name}` |" not in page] == []


class Workers:
    def __init__(self, process: "subprocess.Popen[str]", port: int, folder: Path) -> None:
        self.process, self.port, self.folder = process, port, folder

    def get(self, path: str) -> bytes:
        """On a connection of its own, so that any worker may answer. Raises OSError, HTTPException."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request("GET", path, headers={"Connection": "close"})
            return connection.getresponse().read()
        finally:
            connection.close()

    def pids(self) -> dict[int, int]:
        """Each worker's id, and how many requests it took until both had been seen."""
        seen: dict[int, int] = {}
        give_up = time.monotonic() + 60
        while len(seen) < 2 and time.monotonic() < give_up:
            pid = int(self.get("/pid"))
            seen[pid] = seen.get(pid, 0) + 1
        return seen


@contextmanager
def workers() -> Iterator[Workers]:
    """Two processes under uvicorn's own supervisor."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.observed_workers"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    assert process.stdout
    try:
        port, _, folder = process.stdout.readline().strip().partition(" ")
        yield Workers(process, int(port), Path(folder))
    finally:
        process.terminate()
        try:
            process.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            raise


def test_any_worker_tells_the_numbers_of_all() -> None:
    """Counts are sums; what a killed worker had at work is not at work any more, what it counted stays."""
    with workers() as several:
        pids = several.pids()
        assert len(pids) == 2
        asked = sum(pids.values())
        _when(several, in_flight=1)  # an answer is read before it is counted
        for _ in range(6):
            assert count(dict(samples(several.get("/metrics"))), "GET", "/pid", "2xx") == asked
        with _hanging(several) as pid:
            os.kill(pid, signal.SIGKILL)
            numbers = _when(several, in_flight=1)
        assert count(numbers, "GET", "/pid", "2xx") >= asked
        folder = several.folder
        assert folder.is_dir()
    assert not folder.exists()


@contextmanager
def _hanging(several: Workers) -> Iterator[int]:
    """The id of a worker that has a request at work which never ends."""
    with socket.create_connection(("127.0.0.1", several.port)) as connection:
        connection.sendall(b"GET /hangs HTTP/1.1\r\nHost: x\r\n\r\n")
        _when(several, in_flight=2)
        give_up = time.monotonic() + 60
        while len(busy := _at_work(several.folder)) != 1 and time.monotonic() < give_up:
            time.sleep(0.01)  # the scrape itself is at work until it is counted
        (pid,) = busy
        yield pid


def _at_work(folder: Path) -> list[int]:
    """The workers whose files say that they have a request at work."""
    files = folder.glob("gauge_livesum_*.db")
    return [int(path.stem.rpartition("_")[2]) for path in files if _value(path) >= 1]


def _value(path: Path) -> float:
    """The number of requests at work that a worker's file holds."""
    from prometheus_client.mmap_dict import MmapedDict

    values = MmapedDict.read_all_values_from_file(str(path))  # type: ignore[no-untyped-call]
    return sum(float(value) for key, value, _, _ in values if json.loads(key)[0] == "waygraph_http_requests_in_flight")


def _when(several: Workers, *, in_flight: int) -> dict[str, float]:
    """The numbers when so many requests are at work, the scrape's own included."""
    give_up = time.monotonic() + 60
    while time.monotonic() < give_up:
        try:
            numbers = dict(samples(several.get("/metrics")))
        except (OSError, http.client.HTTPException):  # the killed worker had taken this connection
            continue
        if numbers["waygraph_http_requests_in_flight"] == in_flight:
            return numbers
        time.sleep(0.05)
    raise AssertionError(f"never {in_flight} at work")
