"""What a server's processes may take on Linux: memory, their number, and no more privileges than we have.

One thread looks at them as /proc shows them. No limit of the kernel fits: those of address space end Node.js, Bun and
Java, that of processes counts a user's threads, and a control group of its own is to be had in no container.
"""

import ctypes
import logging
import os
import signal
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from shutil import which
from typing import Self

from waygraph.registry.model.settings import Settings

FIRST_LOOK_S, LONGEST_LOOK_S = 0.1, 1.0
"""The first after a start, and while more than half of a limit is taken and more each time."""
_PAUSE_TIMES = 50
"""So many times as long as a look takes is the pause after it, on a machine of very many processes."""
_MOST_STOPS = 20
_MIB = 1024 * 1024
_FIRST_TO_END = "500"
"""Of 1000: if a machine or a container has no memory left, the kernel ends a server and not Waygraph."""
_RAISING = frozenset({"apptainer", "podman", "singularity", "snap"})
"""What itself starts programs that are setuid."""
_log = logging.getLogger("waygraph.gateway")


@cache
def missing_limits() -> str:
    """Which limits this system cannot keep, in words; empty: it keeps all."""
    if sys.platform != "linux":
        return "servers that are started here have no limit of memory, processes or privileges: only Linux has them"
    if not os.access("/proc/self/stat", os.R_OK):
        return "servers that are started here have no limit of memory or processes: /proc is not there"
    return ""


def limits_in_words(settings: Settings) -> str:
    """Those that a server gets where this system can keep them."""
    memory = f"{settings.server_memory_mib:,} MiB of memory" if settings.server_memory_mib else "any memory"
    count = f"{settings.server_max_processes:,}" if settings.server_max_processes else "any number of"
    return f"each that is started may take {memory} and {count} processes, and gets no new privileges"


@cache
def log_missing_limits() -> None:
    """Once a process."""
    if missing := missing_limits():
        _log.warning(missing)


def start_unprivileged[T](command: str, environment: Mapping[str, str], start: Callable[[], T]) -> T:
    """What `start` gives or raises. What it starts gets no more privileges than we have, by setuid or otherwise,
    unless its program itself is one that does that: setuid, or known to start such.
    """
    if sys.platform != "linux" or _raises_privileges(command, environment):
        return start()
    outcome: list[T] = []
    error: list[BaseException] = []

    def begin() -> None:
        try:
            if ctypes.CDLL(None, use_errno=True).prctl(38, 1, 0, 0, 0):  # PR_SET_NO_NEW_PRIVS, of this thread alone
                raise OSError(ctypes.get_errno(), "no_new_privs cannot be set")
            outcome.append(start())
        except BaseException as exc:  # noqa: BLE001 - raised below, by whoever asked
            error.append(exc)

    thread = threading.Thread(target=begin, name="start-server")
    thread.start()
    thread.join()
    if error:
        raise error.pop()
    return outcome.pop()


def _raises_privileges(command: str, environment: Mapping[str, str]) -> bool:
    path = which(command, path=environment.get("PATH"))
    if not path:
        return False
    program = Path(path).resolve()
    with suppress(OSError):
        if program.stat().st_mode & (stat.S_ISUID | stat.S_ISGID) or "security.capability" in os.listxattr(program):
            return True
    return not _RAISING.isdisjoint({Path(command).name, program.name})


@dataclass(slots=True)
class _Server:
    memory_mib: int
    process_count: int
    on_excess: Callable[[str], None]
    share: float = 0.0
    """Of what is allowed, at the last look."""

    def is_growing(self, process_count: int, resident_mib: int) -> bool:
        """Towards a limit, since it was asked last."""
        before = self.share
        memory = resident_mib / self.memory_mib if self.memory_mib else 0.0
        self.share = max(memory, process_count / self.process_count if self.process_count else 0.0)
        return self.share > max(0.5, before + 0.01)


class LimitWatch:
    """Ends servers that take more than they may. Thread-safe; one for the whole process.

    To a server belong its session and all descendants. What left both is not seen.
    """

    def __init__(self) -> None:
        self._servers: dict[int, _Server] = {}
        self._lock, self._wake = threading.Lock(), threading.Event()
        self._thread: threading.Thread | None = None

    def watch_over(self, server: int, settings: Settings, on_excess: Callable[[str], None]) -> None:
        """A session by its number. `on_excess` gets the reason before its processes are killed, in another thread."""
        with suppress(OSError):
            Path(f"/proc/{server}/oom_score_adj").write_text(_FIRST_TO_END)
        log_missing_limits()
        if missing_limits() or not (settings.server_memory_mib or settings.server_max_processes):
            return
        with self._lock:
            self._servers[server] = _Server(settings.server_memory_mib, settings.server_max_processes, on_excess)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="limits", daemon=True)
                self._thread.start()
        self._wake.set()

    def let_go(self, server: int) -> None:
        with self._lock:
            self._servers.pop(server, None)

    def forget(self) -> None:
        """In a forked child, which has neither the thread nor the servers."""
        self._servers, self._lock, self._wake, self._thread = {}, threading.Lock(), threading.Event(), None

    def _run(self) -> None:
        pause_s = FIRST_LOOK_S
        while True:
            if self._wake.wait(pause_s):
                self._wake.clear()
                pause_s = FIRST_LOOK_S
            with self._lock:
                if not self._servers:
                    self._thread = None
                    return
            begin_s = time.monotonic()
            is_growing = self._look()
            longest_s = max(LONGEST_LOOK_S, _PAUSE_TIMES * (time.monotonic() - begin_s))
            pause_s = FIRST_LOOK_S if is_growing else min(2 * pause_s, longest_s)

    def _look(self) -> bool:
        """Ends servers that take too much. Whether one grows towards a limit."""
        try:
            processes = _Processes.now()
        except OSError as error:
            _log.warning("what servers take is not known for a moment: %s", error)
            return False
        is_growing, reasons = False, dict[int, str]()
        with self._lock:  # a server that is let go meanwhile must not be killed: its number may be another's soon
            for number, server in list(self._servers.items()):
                members = processes.of_server(number)
                resident_mib = sum(processes.resident_bytes[each] for each in members) // _MIB
                is_growing |= server.is_growing(len(members), resident_mib)
                if excess := _excess(members, resident_mib, server):
                    del self._servers[number]
                    reasons[number] = excess
                    server.on_excess(excess)
                    _kill(number, members)
        for number, reason in reasons.items():
            _log.warning("server %d was ended: %s", number, reason)
        return is_growing


def _excess(members: set[int], resident_mib: int, server: _Server) -> str:
    """In words; empty: there is none. What processes share counts once, which takes longer to learn."""
    if 0 < server.process_count < len(members):
        return (
            f"had {len(members):,} processes, {server.process_count:,} are allowed "
            "(WAYGRAPH_SERVER_MAX_PROCESSES; 0: no limit)"
        )
    if 0 < server.memory_mib < resident_mib:
        taken_mib = sum(map(_own_bytes, members)) // _MIB
        if taken_mib > server.memory_mib:
            return (
                f"took {taken_mib:,} MiB of memory, {server.memory_mib:,} are allowed "
                "(WAYGRAPH_SERVER_MEMORY_MIB; 0: no limit)"
            )
    return ""


def _kill(server: int, members: set[int]) -> None:
    """Stops them first: the children of one that is killed would belong to nobody, and one may start more meanwhile."""
    targets = set[int]()
    with suppress(OSError):  # no descriptor may be free to look: then those are killed that are known
        for _ in range(_MOST_STOPS):
            _signal_group(server, signal.SIGSTOP)
            _signal(members - targets, signal.SIGSTOP)
            targets |= members
            members = _Processes.now().of_server(server)
            if members <= targets:
                break
    _signal_group(server, signal.SIGKILL)
    _signal(targets | members, signal.SIGKILL)


def _signal_group(number: int, by: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(number, by)


def _signal(processes: Iterable[int], number: int) -> None:
    for process in processes:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(process, number)


@dataclass(frozen=True, slots=True)
class _Processes:
    """Of the whole system, as far as /proc shows them, without those that have ended."""

    resident_bytes: dict[int, int]
    _by_session: dict[int, list[int]]
    _by_parent: dict[int, list[int]]

    @classmethod
    def now(cls) -> Self:
        page_bytes = os.sysconf("SC_PAGE_SIZE")
        processes = cls({}, {}, {})
        for name in os.listdir("/proc"):
            if name.isdigit():
                with suppress(OSError, ValueError, IndexError):  # it may have ended
                    with open(f"/proc/{name}/stat", "rb", buffering=0) as file:
                        fields = file.read(1024).rpartition(b")")[2].split()
                    if fields[0] == b"Z":
                        continue
                    number = int(name)
                    processes.resident_bytes[number] = int(fields[21]) * page_bytes
                    processes._by_parent.setdefault(int(fields[1]), []).append(number)
                    processes._by_session.setdefault(int(fields[3]), []).append(number)
        return processes

    def of_server(self, number: int) -> set[int]:
        """Its session, and all descendants of that."""
        members = set(self._by_session.get(number, ()))
        pending = list(members)
        while pending:
            new = set(self._by_parent.get(pending.pop(), ())) - members
            members |= new
            pending += new
        return members


def _own_bytes(process: int) -> int:
    """Its share of what is resident; without what it shares where the system does not tell the share."""
    with suppress(OSError):
        for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    with suppress(OSError):
        pages = Path(f"/proc/{process}/statm").read_text().split()
        return (int(pages[1]) - int(pages[2])) * os.sysconf("SC_PAGE_SIZE")
    return 0


LIMITS = LimitWatch()
os.register_at_fork(after_in_child=LIMITS.forget)
