"""What is sent to a service that has been told to stop, and was kept busy while it was."""

import socket
import threading
from pathlib import Path

from tests.service import TIMEOUT_S
from waygraph.api.rest.bootstrap import Alone, Chosen, compose_application, configuration, open_service
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


def test_what_was_sent_before_it_closes_is_answered(tmp_path: Path) -> None:
    """On connections that were kept, and on new ones that nobody has taken yet; then all are closed."""
    settings = Settings()
    chosen = Chosen(location=str(tmp_path / "r.grafeo"), embedder="none", mcp=False)
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
            assert b" 200 OK" in each.recv(65_536)
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
