"""A real MCP server on a free loopback port, for the length of a test."""

import os
import secrets
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

from tests.live_servers import real_server
from waygraph.ingest.manifest.records import HttpLaunch

Form = Literal["http", "sse"]

START_S = 60.0
ON_LOOPBACK = Path(__file__).parent / "live" / "servers" / "on_loopback.cjs"
"""For a server that has no option for its address."""


def free_port() -> int:
    """None that the system gives to whoever asks for any: nobody has it by chance before a program listens on it."""
    while True:
        with suppress(OSError), socket.create_server(("127.0.0.1", 20_000 + secrets.randbelow(12_000))) as listening:
            return int(listening.getsockname()[1])


@contextmanager
def listening_server(command: Sequence[str], port: int, environ: Mapping[str, str]) -> Iterator[None]:
    """The program, once its port is open. It ends with the test."""
    everything = {**os.environ, **environ}
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, env=everything, stdin=quiet, stdout=quiet, stderr=quiet) as process:
        try:
            _await_port(port, process)
            yield
        finally:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(5)
            process.kill()


def _await_port(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and process.poll() is None:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.05)
    raise AssertionError(f"nothing listens on port {port}; exit status {process.poll()}")


@contextmanager
def http_launch(name: str, form: Form, folder: Path) -> Iterator[HttpLaunch]:
    """A server that listens, and how it is reached."""
    port = free_port()
    if name == "everything":
        server = real_server(name, folder, "streamableHttp" if form == "http" else "sse")
        environ = {"PORT": str(port), "NODE_OPTIONS": f"--require {ON_LOOPBACK}"}
    else:
        server, environ = real_server(name, folder, form, str(port)), {}
    with listening_server((server.command, *server.args), port, environ):
        yield HttpLaunch(
            url=f"http://127.0.0.1:{port}/{'mcp' if form == 'http' else 'sse'}",
            form="http" if form == "http" else "sse",
        )
