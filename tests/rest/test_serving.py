"""`waygraph serve` as a process: how it starts, how it stops, what it refuses."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx2
import pytest

from tests.fake_openai import KEY, fake_openai
from tests.neo4j_fixtures import SERVERS
from tests.places import Servers, new_place
from tests.processes_left import children_of, command_of
from tests.service import (
    TIMEOUT_S,
    agent,
    arguments,
    assert_good,
    assert_problem,
    ingest,
    manifest,
    process,
    served,
    until,
)
from waygraph.registry.access.api_keys import KeyFile
from waygraph.registry.model.errors import NotAuthenticated
from waygraph.registry.registry import Registry

SLOW = "UNWIND range(1, 100000) AS a UNWIND range(1, 100000) AS b RETURN count(a + b)"


def test_it_says_where_it_is_and_answers(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Each request has its line of JSON; the time to the first answer is printed."""
    started = time.perf_counter()
    with process(tmp_path / "r.grafeo", tmp_path) as running:
        client = running.client()
        assert_good(client.get("/healthz"))
        with capfd.disabled():
            print(f" first answer after {time.perf_counter() - started:.2f} s", end="")  # noqa: T201
        ingest(client, "s", agent("a", "look"))
        assert assert_good(client.get("/readyz")) == {"ready": True}
        assert "without authentication" in running.told
        until(lambda: '"route": "/v1/manifests"' in running.told, "its line")
        running.signal(signal.SIGTERM)
        assert running.wait() == 0
        assert "Traceback" not in running.told


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("workers", ["1", "2"])
def test_what_was_begun_ends_before_it_stops(tmp_path: Path, number: signal.Signals, workers: str) -> None:
    """A statement that takes its time is answered, then the process ends with 0."""
    environ = {"WAYGRAPH_CYPHER_TIMEOUT_S": "2"}
    with process(tmp_path / "r.grafeo", tmp_path, "--workers", workers, environ=environ) as running:
        ingest(running.client(), "s", agent("a", "look"))
        told: list[httpx2.Response] = []
        client = running.client()
        asking = threading.Thread(target=lambda: told.append(client.post("/v1/cypher", json={"statement": SLOW})))
        asking.start()
        until(lambda: _worker_of_cypher(running.process.pid), "the statement at work")
        running.signal(number)
        asking.join()
        assert_problem(told[0], 422, "cypher-limit")
        assert running.wait() == 0
        assert "Traceback" not in running.told


@pytest.mark.parametrize("workers", ["1", "2"])
def test_who_comes_while_it_stops_is_refused(tmp_path: Path, workers: str) -> None:
    """At once, and does not wait for the end of what was begun, which is answered."""
    environ = {"WAYGRAPH_DRAIN_TIMEOUT_S": "600"}
    with process(tmp_path / "r.grafeo", tmp_path, "--workers", workers, environ=environ) as running:
        ingest(running.client(), "s", agent("a", "look"))
        body = b'{"text": "look"}'
        head = b"POST /v1/route HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        with running.connect() as begun:
            begun.sendall(head + b"Content-Length: %d\r\nExpect: 100-continue\r\n\r\n" % len(body))
            assert b"100 Continue" in begun.recv(65_536)
            running.signal(signal.SIGTERM)
            until(lambda: not _is_taken(running.port), "a connection that is refused")
            begun.sendall(body)
            assert b" 200 OK" in begun.recv(65_536)
        assert running.wait() == 0


def _is_taken(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S).close()
    except ConnectionRefusedError:
        return False
    return True


def test_a_write_that_outlasts_its_patience_is_given_up_before_its_commit(tmp_path: Path) -> None:
    """Minutes of embedding are not waited for, and nothing of it is there afterwards."""
    home, manifest_of_many = tmp_path / "r.grafeo", manifest("many", agent("b", *(f"tool_{n}" for n in range(400))))
    with fake_openai() as slow:
        environ = {"OPENAI_BASE_URL": slow.url, "OPENAI_API_KEY": KEY, "WAYGRAPH_CACHE_DIR": str(tmp_path / "cache")}
        environ |= {"WAYGRAPH_DRAIN_TIMEOUT_S": "0.5", "WAYGRAPH_OPENAI_BATCH_TEXTS": "1"}
        with process(home, tmp_path, embedder="openai:any?dimension=8", environ=environ) as running:
            ingest(running.client(), "s", agent("a", "look"))
            slow.hang_s, asked = 0.2, len(slow.requests)
            told: list[httpx2.Response] = []
            client = running.client()
            writing = threading.Thread(target=lambda: told.append(client.post("/v1/manifests", json=manifest_of_many)))
            writing.start()
            until(lambda: len(slow.requests) > asked + 2, "the write at work")
            running.signal(signal.SIGTERM)
            writing.join()
            assert_problem(told[0], 503, "stopping")
            assert running.wait() == 0
            assert len(slow.requests) < asked + 100
            assert "Traceback" not in running.told
    with Registry.open(home, embedder="none") as registry:
        assert [each.id for each in registry.agents()] == ["a"]


def _worker_of_cypher(pid: int) -> bool:
    """Whether a process below this one runs statements."""
    below = children_of(pid)
    return any("grafeo_worker" in command_of(each) or _worker_of_cypher(each) for each in below)


def refused(location: Path, *options: str, **environ: str) -> str:
    """What is said by one that does not begin: one line, and not by chance."""
    done = subprocess.run(
        arguments(location, *options),
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert (done.returncode in {1, 2}, done.stdout) == (True, ""), done
    assert len(done.stderr.splitlines()) == 1, done.stderr
    return done.stderr


def test_what_cannot_be_served_is_said_in_a_line(tmp_path: Path) -> None:
    """An address in use or open to all, settings out of range, keys and registries that are damaged."""
    path = tmp_path / "r.grafeo"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert "Address already in use" in refused(path, "--port", str(port))
    assert "--no-auth" in refused(path, "--host", "0.0.0.0", "--port", "0")  # noqa: S104 - that it is refused
    assert "cannot listen on no.such.host.invalid" in refused(path, "--host", "no.such.host.invalid", "--no-auth")
    assert "WAYGRAPH_LOG_LEVEL" in refused(path, "--port", "0", WAYGRAPH_LOG_LEVEL="loud")
    assert "WAYGRAPH_MAX_BODY_BYTES" in refused(path, "--port", "0", WAYGRAPH_MAX_BODY_BYTES="many")
    keys = tmp_path / "keys.json"
    keys.write_text("{", encoding="utf-8")
    assert str(keys) in refused(path, "--port", "0", WAYGRAPH_KEYS_FILE=str(keys))
    assert "WAYGRAPH_OIDC_AUDIENCE" in refused(path, "--port", "0", WAYGRAPH_OIDC_ISSUER="https://i.example")
    for name, workers in (("WAYGRAPH_POLICY_FILE", "1"), ("WAYGRAPH_SERVICES_FILE", "2")):
        assert str(keys) in refused(path, "--port", "0", "--workers", workers, **{name: str(keys)})
    path.write_bytes(b"no registry")
    for workers in ("1", "2"):
        assert str(path) in refused(path, "--port", "0", "--workers", workers)
    nowhere = {"WAYGRAPH_AUDIT_FILE": "/nowhere/audit"}
    assert "WAYGRAPH_AUDIT_FILE" in refused(tmp_path / "none", "--port", "0", "--workers", "2", **nowhere)


def test_several_workers_are_one_service(tmp_path: Path) -> None:
    """All answer, see each other's writes and revocations, add up their numbers; one that is killed is replaced."""
    keys = KeyFile(tmp_path / "keys.json")
    text = keys.create("admin", ["route", "read", "write"], everything=True)[1]
    with process(tmp_path / "r.grafeo", tmp_path, "--workers", "2", keys=keys) as running:

        def ask(key: str = text) -> httpx2.Response:
            """By a new connection, which any worker takes."""
            with httpx2.Client(base_url=running.url, headers={"X-API-Key": key}, timeout=TIMEOUT_S) as client:
                return client.get("/v1/agents")

        for number in range(2):
            ingest(running.client(text), "s", *(agent(f"a{each}") for each in range(number + 1)))
            until(lambda n=number: all(seen(ask()) == n + 1 for _ in range(10)), "all workers see it")
        asked = until(lambda: counted(running.client(text)), "numbers")
        for _ in range(10):
            assert_good(ask())
        until(lambda: counted(running.client(text)) >= asked + 10, "the numbers of both workers")
        gone = workers(running.process.pid)[0]
        os.kill(gone, signal.SIGKILL)
        until(lambda: len(workers(running.process.pid)) == 2 and gone not in workers(running.process.pid), "another")
        until(lambda: all(_answered(ask) for _ in range(10)), "answers of both")
        other = keys.create("other", ["read"])[1]
        assert_good(ask(other))
        keys.revoke(other)
        for _ in range(10):
            assert_problem(ask(other), 401, NotAuthenticated)
        running.signal(signal.SIGTERM)
        assert running.wait() == 0


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nobody tells them")
def test_workers_end_with_their_parent(tmp_path: Path) -> None:
    """Killed, it says nothing to them: left alone they would hold the port against the next service."""
    with process(tmp_path / "r.grafeo", tmp_path, "--workers", "2") as running:
        ingest(running.client(), "s", agent("a"))
        left = workers(running.process.pid)
        assert len(left) == 2
        running.signal(signal.SIGKILL)
        running.wait()
        until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in left), "the workers' end")


def seen(response: httpx2.Response) -> int:
    """How many agents."""
    return len(assert_good(response)["agents"])


def _answered(ask: object) -> bool:
    try:
        return bool(ask().status_code == 200)  # type: ignore[operator]
    except httpx2.TransportError:
        return False  # taken by the one that was killed


def counted(client: httpx2.Client) -> float:
    """Requests for the list of agents, of all workers."""
    text = client.get("/metrics").text
    wanted = 'waygraph_http_requests_total{method="GET",route="/v1/agents",status="2xx"} '
    return sum(float(line.removeprefix(wanted)) for line in text.splitlines() if line.startswith(wanted))


def workers(pid: int) -> list[int]:
    """The processes that answer, without the one that tracks what they share."""
    return [each for each in children_of(pid) if "spawn_main" in command_of(each)]


@pytest.mark.parametrize("server", SERVERS)
def test_a_registry_on_neo4j_is_served(server: str, tmp_path: Path, neo4j_servers: Servers) -> None:
    """It routes, lists, tells a part to who sees a part, and takes only statements that read."""
    place = new_place(server, tmp_path, neo4j_servers)
    with served(str(place.location), auth=True, folder=tmp_path, settings=place.settings) as service:
        admin, other = service.admin(), service.caller(groups=("g",))
        ingest(admin, "s", agent("a", "look"), agent("b", "look", visible_to=["h"]))
        assert [each["id"] for each in assert_good(admin.get("/v1/agents"))["agents"]] == ["a", "b"]
        assert [each["id"] for each in assert_good(other.get("/v1/agents"))["agents"]] == ["a"]
        routed = assert_good(other.post("/v1/route", json={"text": "look"}))
        assert [match["agent"]["id"] for match in routed["matches"]] == ["a"]
        statement = "MATCH (a:Agent) RETURN count(a) AS n"
        assert assert_good(admin.post("/v1/cypher", json={"statement": statement}))["rows"] == [[2]]
        assert_problem(admin.post("/v1/cypher", json={"statement": "CREATE (n)"}), 422, "cypher-refused")
        assert_problem(other.post("/v1/cypher", json={"statement": statement}), 403, "not-allowed")
