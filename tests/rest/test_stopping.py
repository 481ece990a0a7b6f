"""What is sent to a service that has been told to stop, and was kept busy while it was."""

import os
import signal
import socket
import sys
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.rest.test_serving import workers
from tests.service import TIMEOUT_S, process, until
from waygraph.api.rest.bootstrap import Alone, ServiceOptions, compose_application, configuration, open_service
from waygraph.registry.model.settings import Settings

REQUEST = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
MANY = 20


class Busy(Alone):
    """Its loop stands still once it stops, until everything was sent."""

    def __init__(self, *given: object) -> None:
        super().__init__(*given)  # type: ignore[arg-type]
        self.stops, self.was_sent = threading.Event(), threading.Event()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.stops.set()
        assert self.was_sent.wait(TIMEOUT_S)
        await super().shutdown(sockets)


def read_all(connection: socket.socket) -> bytes:
    """Until the other side closes. Raises ConnectionResetError."""
    return b"".join(iter(lambda: connection.recv(65_536), b""))


def read_one(connection: socket.socket) -> None:
    """One answer, whole: its body may come by itself."""
    read = b""
    while not read.endswith(b"}"):
        read += connection.recv(65_536)
    assert b" 200 OK" in read


def test_what_was_sent_before_it_closes_is_answered(tmp_path: Path) -> None:
    """On connections that were kept, and on new ones that nobody has taken yet; then all are closed."""
    settings = Settings()
    chosen = ServiceOptions(location=str(tmp_path / "r.grafeo"), embedder="none", mcp=False)
    service = open_service(chosen, settings, {})
    with open(tmp_path / "log", "w", encoding="utf-8") as log, socket.create_server(("127.0.0.1", 0)) as listening:
        app = compose_application(service, chosen, {}, log)
        server = Busy(configuration(app, settings, {}), [])
        running = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        running.start()
        place = listening.getsockname()
        kept = [socket.create_connection(place, timeout=TIMEOUT_S) for _ in range(MANY)]
        for each in kept:
            each.sendall(REQUEST)
            read_one(each)
        server.should_exit = True
        assert server.stops.wait(TIMEOUT_S)
        new = [socket.create_connection(place, timeout=TIMEOUT_S) for _ in range(MANY)]
        for each in (*kept, *new):
            each.sendall(REQUEST)
        server.was_sent.set()
        answers = [read_all(each) for each in (*kept, *new)]
        for each in (*kept, *new):
            each.close()
        running.join(TIMEOUT_S)
    assert not running.is_alive()
    assert [answer.split(b"\r\n", 1)[0] for answer in answers] == [b"HTTP/1.1 200 OK"] * len(answers)


PATIENT = """
import sys
from waygraph.api.cli.app import main
from waygraph.api.rest.bootstrap import Workers
Workers.keep_subprocess_alive = lambda self: None
sys.exit(main(sys.argv[1:]))
"""
"""The service, whose parent does not mind that workers stand still."""


@pytest.mark.full
@pytest.mark.skipif(sys.platform != "linux", reason="finds the workers by /proc")
def test_what_was_sent_to_several_workers_before_they_close_is_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The workers stand still while it is sent, and are told to stop before they go on. Their parent has let go of the
    port by then.
    """
    monkeypatch.setattr("tests.service.PROGRAM", [sys.executable, "-W", "error", "-c", PATIENT])
    with process(tmp_path / "r.grafeo", tmp_path, "--no-mcp", "--workers", "2") as running, ExitStack() as opened:
        place = ("127.0.0.1", running.port)
        kept = [opened.enter_context(socket.create_connection(place, timeout=TIMEOUT_S)) for _ in range(MANY)]
        for each in kept:
            each.sendall(REQUEST)
            read_one(each)
        both = workers(running.process.pid)
        assert len(both) == 2
        for pid in both:
            os.kill(pid, signal.SIGSTOP)
        new = [opened.enter_context(socket.create_connection(place, timeout=TIMEOUT_S)) for _ in range(MANY)]
        for each in (*kept, *new):
            each.sendall(REQUEST)
        running.signal(signal.SIGTERM)
        until(lambda: all(_is_told_to_stop(pid) for pid in both), "the workers told to stop")
        for pid in both:
            os.kill(pid, signal.SIGCONT)
        answers = [read_all(each) for each in (*kept, *new)]
        assert running.wait() == 0
    assert [answer.split(b"\r\n", 1)[0] for answer in answers] == [b"HTTP/1.1 200 OK"] * len(answers)


def _is_told_to_stop(pid: int) -> bool:
    """Whether SIGTERM waits for the process (proc(5), ShdPnd)."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    waiting = next(line for line in status.splitlines() if line.startswith("ShdPnd:"))
    return bool(int(waiting.split()[1], 16) >> (signal.SIGTERM - 1) & 1)
