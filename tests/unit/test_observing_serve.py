"""`waygraph serve` with two workers, observed from outside: its log, its numbers, its traces, its audit."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.fake_collector import Collector, fake_collector
from tests.observed_service import samples

WAYGRAPH = Path(sys.executable).with_name("waygraph")
TRACE, CALLERS_SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
QUERY = "convert 250 euros to yen"


@dataclass(frozen=True)
class Observed:
    """What was seen of a service that has ended: a route, a refused statement, a removal, a path of nobody."""

    log: list[dict[str, Any]]
    audit: list[dict[str, Any]]
    numbers: dict[str, float]
    collector: Collector
    route_id: str

    def line(self, **wanted: object) -> dict[str, Any]:
        (found,) = [line for line in self.log if wanted.items() <= line.items()]
        return found


@pytest.fixture(scope="module")
def observed(tmp_path_factory: pytest.TempPathFactory, catalog: Path) -> Observed:
    folder = tmp_path_factory.mktemp("served")
    audit = folder / "audit.jsonl"
    with fake_collector() as collector:
        environ = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
        environ |= {
            "WAYGRAPH_DATA_DIR": str(folder),
            "WAYGRAPH_AUDIT_FILE": str(audit),
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
        }
        subprocess.run([WAYGRAPH, "ingest", catalog], env=environ, check=True, capture_output=True)
        with served(environ, folder / "log") as url:
            parent = {"traceparent": f"00-{TRACE}-{CALLERS_SPAN}-01"}
            route = httpx2.post(f"{url}/v1/route?token=kept-secret", json={"text": QUERY}, headers=parent, timeout=30)
            httpx2.post(f"{url}/v1/cypher", json={"statement": "CREATE (a:Agent)"}, timeout=30)
            httpx2.delete(f"{url}/v1/agents/bureau-fx", timeout=30)
            httpx2.get(f"{url}/nobody/asks")
            numbers = _scraped_when_alone(url)
        said = (folder / "log").read_text(encoding="utf-8").splitlines()
    return Observed(
        log=[json.loads(line) for line in said if line.startswith("{")],
        audit=[json.loads(line) for line in audit.read_text(encoding="utf-8").splitlines()],
        numbers=numbers,
        collector=collector,
        route_id=route.headers["x-request-id"],
    )


@contextmanager
def served(environ: dict[str, str], log: Path) -> Iterator[str]:
    """The URL of a service that is ready; SIGTERM ends it, and it ends well."""
    command: list[str | Path] = [WAYGRAPH, "serve", "--port", "0", "--workers", "2"]
    with log.open("w", encoding="utf-8") as stderr:
        process = subprocess.Popen(command, env=environ, stderr=stderr)
    give_up = time.monotonic() + 60
    try:
        while not (url := _address(log)) or not _is_ready(url):
            assert process.poll() is None
            assert time.monotonic() < give_up, log.read_text(encoding="utf-8")
            time.sleep(0.05)
        yield url
    finally:
        process.terminate()
        ended = process.wait(60)
    assert ended == 0


def _scraped_when_alone(url: str) -> dict[str, float]:
    """The numbers when no other request is at work: an answer is read before it is counted."""
    give_up = time.monotonic() + 60
    while True:
        numbers = dict(samples(httpx2.get(f"{url}/metrics", timeout=30).content))
        if numbers["waygraph_http_requests_in_flight"] == 1:
            return numbers
        assert time.monotonic() < give_up, numbers
        time.sleep(0.05)


def _address(log: Path) -> str:
    return next((word for word in log.read_text(encoding="utf-8").split() if word.startswith("http://")), "")


def _is_ready(url: str) -> bool:
    try:
        return httpx2.get(f"{url}/readyz", timeout=30).status_code == 200
    except httpx2.TransportError:
        return False


def test_a_route_is_one_trace_over_threads_and_workers(observed: Observed) -> None:
    """The caller's span, the request, the route, and what a route is made of."""
    spans = [span for span in observed.collector.spans if span.trace_id == TRACE]
    by_id = {span.id: span.name for span in spans}
    parents = {span.name: by_id.get(span.parent_id, span.parent_id) for span in spans}
    assert parents == {
        "POST /v1/route": CALLERS_SPAN,
        "route": "POST /v1/route",
        "embed": "route",
        "legs ahead": "route",
        "words": "legs ahead",
        "names": "legs ahead",
        "legs": "route",
        "vectors": "legs",
        "fusion": "route",
    }
