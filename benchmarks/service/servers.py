"""Servers that are measured: started as processes of their own on a free port, asked until ready, ended by signal."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from benchmarks.record import PROJECT

READY_S, DRAIN_S = 60.0, 60.0
TICKS = os.sysconf("SC_CLK_TCK")


class ServerFailed(Exception):
    """A server that ended, or did not get ready."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Resident: a process's own, and pages of files that are mapped, which the system takes back when it needs them."""

    own_mib: float
    mapped_mib: float

    @property
    def whole_mib(self) -> float:
        return self.own_mib + self.mapped_mib


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    process: "subprocess.Popen[bytes]"
    port: int
    ready_s: float
    """From its start until /readyz said yes."""

    @property
    def pid(self) -> int:
        return self.process.pid

    def cpu_s(self) -> float:
        """Processor time so far of the process and of its children that live."""
        return sum(_cpu_s(pid) for pid in self.pids())

    def memory(self) -> "Memory":
        """Of the process alone: children that answer one Cypher statement come and go."""
        return Memory(own_mib=status_mib(self.pid, "RssAnon:"), mapped_mib=status_mib(self.pid, "RssFile:"))

    def pids(self) -> list[int]:
        return tree(self.pid)


@contextmanager
def serving(command: Sequence[str], port: int, environ: Mapping[str, str], log: Path) -> Iterator[Server]:
    """Ends it with SIGTERM. Raises ServerFailed if it does not get ready, or does not end with 0."""
    with log.open("ab") as said:
        began = time.perf_counter()
        process = subprocess.Popen(list(command), cwd=PROJECT, env=dict(environ), stdout=said, stderr=said)
    try:
        yield Server(process=process, port=port, ready_s=_wait_ready(process, port, log) - began)
    except BaseException:
        process.kill()
        process.wait()
        raise
    process.send_signal(signal.SIGTERM)
    try:
        status = process.wait(DRAIN_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise ServerFailed(f"still there {DRAIN_S:g} s after SIGTERM; it said: {_last(log)}") from None
    if status not in (0, -signal.SIGTERM):
        raise ServerFailed(f"ended with {status}; it said: {_last(log)}")


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
    return port


def python_module(name: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", name, *arguments]


def _wait_ready(process: "subprocess.Popen[bytes]", port: int, log: Path) -> float:
    """When it was."""
    deadline = time.perf_counter() + READY_S
    while time.perf_counter() < deadline:
        if process.poll() is not None:
            raise ServerFailed(f"ended with {process.returncode} before it was ready; it said: {_last(log)}")
        if _is_ready(port):
            return time.perf_counter()
        time.sleep(0.02)
    raise ServerFailed(f"not ready after {READY_S:g} s; it said: {_last(log)}")


def _is_ready(port: int) -> bool:
    connection = HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()


def _last(log: Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace").strip()[-2000:] or "nothing"


def tree(pid: int) -> list[int]:
    """Every thread has children of its own."""
    children: list[str] = []
    for thread in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            children += thread.read_text(encoding="ascii").split()
    return [pid, *(each for child in children for each in tree(int(child)))]


def _cpu_s(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / TICKS


def status_mib(pid: int, name: str) -> float:
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith(name):
            return int(line.split()[1]) / 1024
    return 0.0
