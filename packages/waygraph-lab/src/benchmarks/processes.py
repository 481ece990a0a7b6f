"""Processes that are measured: commands from start to end, and servers until they are ready."""

import fcntl
import json
import os
import resource
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
from typing import Any

from benchmarks.record import PROJECT
from waygraph.registry.model.settings import DEFAULT_EMBEDDER, PREFIX

TIMEOUT_S = 600
READY_S, DRAIN_S = 60.0, 60.0
NO_BYTECODE = "PYTHONDONTWRITEBYTECODE"
"""Where it is set, a checkout is compiled at each start; an installed package never is."""
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Completed:
    """`cpu_s` is the processor time of the process and of what it started."""

    output: str
    seconds: float
    cpu_s: float


class ProcessFailed(Exception):
    """A measured process ended with an error."""

    def __init__(self, command: Sequence[str], status: int, output: str) -> None:
        last = output.strip().splitlines()[-1:] or ["nothing"]
        super().__init__(f"{Path(command[0]).name} {' '.join(command[1:3])} … ended with {status} and said: {last[0]}")


class ServerFailed(Exception):
    """A server that ended, or did not get ready."""


def plain_environ(environ: Mapping[str, str]) -> dict[str, str]:
    """Without variables of ours but for the embedder that records are of, and so that a checkout is compiled once."""
    plain = {name: value for name, value in environ.items() if not name.startswith(PREFIX) and name != NO_BYTECODE}
    return plain | {f"{PREFIX}EMBEDDER": DEFAULT_EMBEDDER}


def run_process(command: Sequence[str], environ: Mapping[str, str]) -> Completed:
    """Raises ProcessFailed."""
    start, cpu_start = time.perf_counter(), _children_cpu_s()
    done = subprocess.run(
        list(command),
        capture_output=True,
        text=True,
        check=False,
        cwd=PROJECT,
        timeout=TIMEOUT_S,
        env=dict(environ),
    )
    seconds = time.perf_counter() - start
    if done.returncode:
        raise ProcessFailed(command, done.returncode, done.stderr or done.stdout)
    return Completed(done.stdout, seconds, _children_cpu_s() - cpu_start)


def run_in_turn(
    commands: Mapping[str, Sequence[str]], rounds: int, environ: Mapping[str, str]
) -> dict[str, list[Completed]]:
    """Each command's runs: A B A B …, after one run of each that is not counted."""
    runs: dict[str, list[Completed]] = {name: [] for name in commands}
    for number in range(rounds + 1):
        for name, command in commands.items():
            completed = run_process(command, environ)
            if number:
                runs[name].append(completed)
    return runs


def waygraph_command(*arguments: str) -> list[str]:
    """The console script that lies beside this Python."""
    return [str(Path(sys.executable).with_name("waygraph")), *arguments]


def python_module(name: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", name, *arguments]


class Answerer:
    """The benchmark's end of a process that answers each line of JSON with another."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, request: object) -> dict[str, Any]:
        """Raises ChildProcessError if the process ended."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        if not (line := self._process.stdout.readline()):
            raise ChildProcessError(f"{self._process.args} ended with {self._process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        return answer


@contextmanager
def run_answerer(command: Sequence[str], environ: Mapping[str, str]) -> Iterator[Answerer]:
    """It ends with its input."""
    with subprocess.Popen(
        list(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=PROJECT, env=dict(environ)
    ) as process:
        yield Answerer(process)


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
        return sum(processor_s(pid) for pid in process_tree(self.pid))

    def memory_mib(self) -> float:
        """Resident memory of the process alone: children that answer one Cypher statement come and go."""
        return status_mib(self.pid, "VmRSS:")


@contextmanager
def run_server(command: Sequence[str], port: int, environ: Mapping[str, str], log: Path) -> Iterator[Server]:
    """Ends it with SIGTERM. Raises ServerFailed if it does not get ready, or does not end with 0."""
    with log.open("ab") as output:
        start = time.perf_counter()
        process = subprocess.Popen(list(command), cwd=PROJECT, env=dict(environ), stdout=output, stderr=output)
    try:
        yield Server(process=process, port=port, ready_s=_wait_ready(process, port, log) - start)
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
        raise ServerFailed(f"still there {DRAIN_S:g} s after SIGTERM; it said: {_last_words(log)}") from None
    if status not in (0, -signal.SIGTERM):
        raise ServerFailed(f"ended with {status}; it said: {_last_words(log)}")


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
    return port


def process_tree(pid: int) -> list[int]:
    """The process and all below it. Every thread has children of its own."""
    children: list[str] = []
    for thread in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            children += thread.read_text(encoding="ascii").split()
    return [pid, *(each for child in children for each in process_tree(int(child)))]


def status_mib(pid: int, name: str) -> float:
    """A row of /proc/PID/status in MiB; 0 if the row is missing."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith(name):
            return int(line.split()[1]) / 1024
    return 0.0


def _wait_ready(process: "subprocess.Popen[bytes]", port: int, log: Path) -> float:
    """When it was."""
    deadline = time.perf_counter() + READY_S
    while time.perf_counter() < deadline:
        if process.poll() is not None:
            raise ServerFailed(f"ended with {process.returncode} before it was ready; it said: {_last_words(log)}")
        if _is_ready(port):
            return time.perf_counter()
        time.sleep(0.02)
    raise ServerFailed(f"not ready after {READY_S:g} s; it said: {_last_words(log)}")


def _is_ready(port: int) -> bool:
    connection = HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()


def _last_words(log: Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace").strip()[-2000:] or "nothing"


def processor_s(pid: int) -> float:
    """Processor time so far of the process alone; 0 if there is none."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / TICKS


def _children_cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Of the processes that want the same thing one makes it, the others wait."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
