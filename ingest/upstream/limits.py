"""Limits of a server's processes on Linux: their memory, their number, and no new privileges.

One thread reads /proc. No limit of the kernel fits: Node.js, Bun and Java need more address space than they use, the
limit of processes counts a user's threads, and a container cannot make a control group.
"""

import ctypes
import logging
import os
import signal
import stat
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from shutil import which
from typing import Self

from waygraph.registry.model.settings import Settings

FIRST_LOOK_S, LONGEST_LOOK_S = 0.1, 1.0
"""Between two looks: the first after a start, and while a server beyond half of a limit grows; the longest."""
_PAUSE_TIMES = 50
"""The longest pause is this many times as long as a look, on a machine of very many processes."""
_MOST_STOPS = 20
_DEAD_STATES = frozenset({b"Z", b"X"})
"""States of a process or a thread."""
_MIB = 1024 * 1024
_FIRST_TO_END = "500"
"""Of 1000: if a machine or a container has no memory left, the kernel ends a server and not Waygraph."""
_RAISING = frozenset({"apptainer", "podman", "singularity", "snap"})
"""Programs that start setuid programs."""
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
    """Returns what `start` returns, and raises what it raises. The program that it starts gets no new privileges.

    Excepted are `command`s that are setuid, have capabilities, or are known to start such programs.
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
        except BaseException as exc:  # noqa: BLE001 - raised below, in the thread of the caller
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
    start: int | None
    """Of its first process, as `start_of`: later its number may be another's."""
    share: float = 0.0
    """Of what is allowed, at the last look."""

    def is_growing(self, process_count: int, resident_mib: int) -> bool:
        """Whether it came nearer to a limit since the last look."""
        before = self.share
        memory = resident_mib / self.memory_mib if self.memory_mib else 0.0
        self.share = max(memory, process_count / self.process_count if self.process_count else 0.0)
        return self.share > max(0.5, before + 0.01)


class LimitWatch:
    """Ends servers that exceed their limits. Thread-safe; one for the whole process.

    To a server belong the processes of its session and all their descendants. A process that left both is not counted.
    """

    def __init__(self) -> None:
        self._servers: dict[int, _Server] = {}
        self._lock, self._wake = threading.Lock(), threading.Event()
        self._thread: threading.Thread | None = None

    def watch_over(self, server: int, settings: Settings, on_excess: Callable[[str], None]) -> None:
        """`server`: the number of its session. `on_excess` gets the reason in another thread, before the kill."""
        with suppress(OSError):
            Path(f"/proc/{server}/oom_score_adj").write_text(_FIRST_TO_END)
        log_missing_limits()
        if missing_limits() or not (settings.server_memory_mib or settings.server_max_processes):
            return
        with self._lock:
            limits = settings.server_memory_mib, settings.server_max_processes
            self._servers[server] = _Server(*limits, on_excess, start_of(server))
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
            _log.warning("the memory and processes of servers cannot be read now: %s", error)
            return False
        is_growing = False
        with self._lock:
            servers = list(self._servers.items())
        for number, server in servers:
            members = processes.of_server(number)
            if server.start and members.get(number, server.start) != server.start:
                continue
            resident_mib = sum(processes.resident_bytes[each] for each in members) // _MIB
            is_growing |= server.is_growing(len(members), resident_mib)
            # Without the lock: it may take seconds, and the event loop needs the lock to start and to end servers.
            if (excess := _excess(members, resident_mib, server)) and self._end(number, server, members, excess):
                _log.warning("server %d was ended: %s", number, excess)
        return is_growing

    def _end(self, number: int, server: _Server, members: Mapping[int, int], reason: str) -> bool:
        """Whether it was still watched over: one that is let go must not be killed, its number may be another's."""
        with self._lock:
            if self._servers.get(number) is not server:
                return False
            del self._servers[number]
            server.on_excess(reason)
            _kill(number, members)
            return True


def _excess(members: Mapping[int, int], resident_mib: int, server: _Server) -> str:
    """The reason in words; empty: within the limits. Shared memory counts once, which takes longer to read."""
    if 0 < server.process_count < len(members):
        return (
            f"had {len(members):,} processes, {server.process_count:,} are allowed "
            "(WAYGRAPH_SERVER_MAX_PROCESSES; 0: no limit)"
        )
    if 0 < server.memory_mib < resident_mib:
        taken_mib = sum(map(own_bytes, members)) // _MIB
        if taken_mib > server.memory_mib:
            return (
                f"took {taken_mib:,} MiB of memory, {server.memory_mib:,} are allowed "
                "(WAYGRAPH_SERVER_MEMORY_MIB; 0: no limit)"
            )
    return ""


def _kill(server: int, members: Mapping[int, int]) -> None:
    """Stops all before it kills any: a killed process frees its children, and a running one may start more.

    `members`: as `_Processes.of_server`.
    """
    targets = dict[int, int]()
    with suppress(OSError):  # no descriptor may be free to look: then those are killed that are known
        for _ in range(_MOST_STOPS):
            _signal_group(server, signal.SIGSTOP)
            signal_processes(dict(members.items() - targets.items()), signal.SIGSTOP)
            targets |= members
            members = _Processes.now().of_server(server)
            if members.items() <= targets.items():
                break
    _signal_group(server, signal.SIGKILL)
    signal_processes({**targets, **members}, signal.SIGKILL)


def _signal_group(number: int, by: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(number, by)


def signal_processes(starts: Mapping[int, int], number: int) -> None:
    """Sends a signal to each process that still has the start by which it is known: else its number is another's."""
    for process, start in starts.items():
        with suppress(ProcessLookupError, PermissionError):
            if start_of(process) in (start, None):  # None: /proc cannot be read, or it has ended
                os.kill(process, number)


def start_of(process: int) -> int | None:
    """When it started, in ticks of the kernel since boot; None: /proc does not tell."""
    with suppress(OSError, IndexError):
        return int(_stat_of(f"/proc/{process}")[19])
    return None


def _stat_of(folder: str) -> list[bytes]:
    """The fields of the `stat` of a process or a thread from the third on: the state is the first. Raises OSError."""
    with open(f"{folder}/stat", "rb", buffering=0) as file:
        return file.read(1024).rpartition(b")")[2].split()


def _folder_of(process: int) -> str:
    """Where /proc tells of its memory: if its first thread has ended, with another one. Empty: all threads ended.

    Raises OSError.
    """
    folder = f"/proc/{process}"
    threads = (f"{folder}/task/{name}" for name in os.listdir(f"{folder}/task"))
    return next((each for each in threads if _stat_of(each)[0] not in _DEAD_STATES), "")


@dataclass(frozen=True, slots=True)
class _Processes:
    """The processes of the whole system that /proc shows, without zombies."""

    resident_bytes: dict[int, int]
    _starts: dict[int, int]
    _by_session: dict[int, list[int]]
    _by_parent: dict[int, list[int]]

    @classmethod
    def now(cls) -> Self:
        page_bytes = os.sysconf("SC_PAGE_SIZE")
        processes = cls({}, {}, {}, {})
        for name in os.listdir("/proc"):
            if name.isdigit():
                with suppress(OSError, ValueError, IndexError):  # it may have ended
                    number = int(name)
                    fields = memory = _stat_of(f"/proc/{name}")
                    if fields[0] in _DEAD_STATES:
                        if not (folder := _folder_of(number)):
                            continue
                        memory = _stat_of(folder)
                    processes._starts[number] = int(fields[19])
                    processes.resident_bytes[number] = int(memory[21]) * page_bytes
                    processes._by_parent.setdefault(int(fields[1]), []).append(number)
                    processes._by_session.setdefault(int(fields[3]), []).append(number)
        return processes

    def of_server(self, number: int) -> dict[int, int]:
        """Its session, and all descendants of that: the number of each, and its start as `start_of`."""
        members = set(self._by_session.get(number, ()))
        pending = list(members)
        while pending:
            new = set(self._by_parent.get(pending.pop(), ())) - members
            members |= new
            pending += new
        return {member: self._starts[member] for member in members}


def own_bytes(process: int) -> int:
    """The proportional share (PSS) of its memory; the unshared part where the system does not tell PSS."""
    with suppress(OSError):
        for line in (Path(_folder_of(process)) / "smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    with suppress(OSError):
        pages = (Path(_folder_of(process)) / "statm").read_text().split()
        return (int(pages[1]) - int(pages[2])) * os.sysconf("SC_PAGE_SIZE")
    return 0


LIMITS = LimitWatch()
os.register_at_fork(after_in_child=LIMITS.forget)
