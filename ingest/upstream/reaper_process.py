"""The parent of one server: run as a program of its own, with the standard library alone.

Its standard streams are the server's, its only argument a socket to us: it reads what to start, and writes how the
start and the server itself ended. If the socket ends, we let go of the server or died: then it ends the server's
processes. On Linux what leaves its session or its parent becomes a child of this process: it stays a descendant.
"""

import _thread
import ctypes
import marshal
import os
import signal
import sys
import time
from contextlib import suppress

TYPE_CHECKING = False  # as type checkers know it: the module typing takes longer to import than a start may take
if TYPE_CHECKING:
    from typing import Any

GRACE_S = 0.5
"""Between SIGTERM and SIGKILL."""
_MOST_STOPS = 20
_DEAD_STATES = frozenset({b"Z", b"X"})
"""States of a process or a thread."""
_SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
"""They end the server, not its parent."""
_DEFAULTS = (*_SIGNALS, signal.SIGPIPE, signal.SIGXFSZ)
_PR_SET_DUMPABLE, _PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 4, 36, 38


def main() -> None:
    control = int(sys.argv[1])
    os.set_inheritable(control, False)
    with open(control, "rb", buffering=0, closefd=False) as file:
        command, environment, folder, may_raise_privileges, box = marshal.load(file)  # noqa: S302 - written by us
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    report, running = _Report(control), None
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        if box:
            server, running = _start_in_box(command, environment, folder, box, report)
        else:
            server = _start(command, environment, folder, may_raise_privileges=may_raise_privileges)
        os.write(control, b"started\n")
    except (OSError, ValueError) as exc:
        os.write(control, b"%d\n" % (getattr(exc, "errno", None) or 0))
        return
    null = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(null, stream)
    _thread.start_new_thread(_wait, (server, report, running))
    os.read(control, 1)
    _end(server)


def _start(command: list[str], environment: dict[str, str], folder: str, *, may_raise_privileges: bool) -> int:
    """The number of the process, which leads a group of its own. Raises OSError, ValueError."""
    if sys.platform == "linux":
        prctl = ctypes.CDLL(None, use_errno=True).prctl
        prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
        if not may_raise_privileges and prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
            raise OSError(ctypes.get_errno(), "no_new_privs cannot be set")
    os.environ["PATH"] = environment.get("PATH", os.defpath)  # by which the program is found
    if folder:
        os.chdir(folder)
    server = os.posix_spawnp(command[0], command, environment, setpgroup=0, setsigdef=_DEFAULTS)
    os.chdir("/")
    return server


def _start_in_box(*arguments: "Any") -> "tuple[int, _thread.LockType]":
    """As `_start`, by the module beside this program, whose folder holds names of the standard library, too."""
    *request, report = arguments
    sys.path.append(os.path.dirname(os.path.abspath(__file__)))
    start_in_box = __import__("box_process").start_in_box
    sys.path.pop()
    os.environ["PATH"] = request[1].get("PATH", os.defpath)
    for number in _DEFAULTS:  # a program inherits which signals are ignored
        signal.signal(number, signal.SIG_DFL)
    server: tuple[int, _thread.LockType] = start_in_box(*request, report.write)
    for number in _DEFAULTS:
        signal.signal(number, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)  # only now: sandlock takes a descriptor from its child
    return server


class _Report:
    """Writes how the server ended, once: of one in a box two may learn of it."""

    def __init__(self, control: int) -> None:
        self._control, self._first = control, _thread.allocate_lock()

    def write(self, status: int) -> None:
        if self._first.acquire(blocking=False):
            with suppress(OSError):
                os.write(self._control, b"%d\n" % status)


def _wait(server: int, report: _Report, running: "_thread.LockType | None") -> None:
    """Leaves no zombie. A subreaper without children has no descendants: with the last one this process ends."""
    with suppress(ChildProcessError):
        while True:
            number, status = os.waitpid(-1, 0)
            if number == server:
                report.write(os.waitstatus_to_exitcode(status))
    if running:
        running.acquire()
    if sys.platform == "linux":
        os._exit(0)


def _end(server: int) -> None:
    """SIGTERM to all, SIGKILL to those that stay."""
    own = os.getpid()
    try:
        signal_processes(Processes().of_server(own), signal.SIGTERM)
    except OSError:
        _signal_group(server, signal.SIGTERM)
    deadline = time.monotonic() + GRACE_S
    while time.monotonic() < deadline and (sys.platform == "linux" or _signal_group(server, 0)):
        time.sleep(0.02)
    end_server(own, {})
    _signal_group(server, signal.SIGKILL)
    if sys.platform == "linux":
        time.sleep(GRACE_S)  # `_wait` ends this process


def _signal_group(group: int, number: int) -> bool:
    """Whether the group is there to get it."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
        return True
    return False


def end_server(server: int, members: dict[int, int]) -> None:
    """Stops all before it kills any: a killed process frees its children, and a running one may start more.

    `members` are known ones, as `Processes.of_server`.
    """
    targets: dict[int, int] = {}
    with suppress(OSError):  # no descriptor may be free to look: then those are killed that are known
        for _ in range(_MOST_STOPS):
            signal_processes(dict(members.items() - targets.items()), signal.SIGSTOP)
            targets |= members
            if (members := Processes().of_server(server, targets)).items() <= targets.items():
                break
    signal_processes({**targets, **members}, signal.SIGKILL)


def signal_processes(starts: dict[int, int], number: int) -> None:
    """Sends a signal to each process that still has the start by which it is known: else its number is another's."""
    for process, start in starts.items():
        with suppress(ProcessLookupError, PermissionError):
            if start_of(process) in (start, None):  # None: /proc cannot be read, or it has ended
                os.kill(process, number)


def start_of(process: int) -> int | None:
    """When it started, in ticks of the kernel since boot; None: /proc does not tell."""
    with suppress(OSError, IndexError):
        return int(stat_of(f"/proc/{process}")[19])
    return None


def stat_of(folder: str) -> list[bytes]:
    """The fields of the `stat` of a process or a thread from the third on: the state is the first. Raises OSError."""
    with open(f"{folder}/stat", "rb", buffering=0) as file:
        return file.read(1024).rpartition(b")")[2].split()


def folder_of(process: int) -> str:
    """Where /proc tells of its memory: if its first thread has ended, with another one. Empty: all threads ended.

    Raises OSError.
    """
    folder = f"/proc/{process}"
    threads = (f"{folder}/task/{name}" for name in os.listdir(f"{folder}/task"))
    return next((each for each in threads if stat_of(each)[0] not in _DEAD_STATES), "")


class Processes:
    """The processes of the whole system that /proc shows now, without zombies. Raises OSError."""

    def __init__(self) -> None:
        self.resident_bytes: dict[int, int] = {}
        self.starts: dict[int, int] = {}
        self._by_session: dict[int, list[int]] = {}
        self._by_parent: dict[int, list[int]] = {}
        page_bytes = os.sysconf("SC_PAGE_SIZE")
        for name in os.listdir("/proc"):
            if name.isdigit():
                with suppress(OSError, ValueError, IndexError):  # it may have ended
                    number = int(name)
                    fields = memory = stat_of(f"/proc/{name}")
                    if fields[0] in _DEAD_STATES:
                        if not (folder := folder_of(number)):
                            continue
                        memory = stat_of(folder)
                    self.starts[number] = int(fields[19])
                    self.resident_bytes[number] = int(memory[21]) * page_bytes
                    self._by_parent.setdefault(int(fields[1]), []).append(number)
                    self._by_session.setdefault(int(fields[3]), []).append(number)

    def of_server(self, parent: int, before: dict[int, int] | None = None) -> dict[int, int]:
        """All descendants of its `parent`, of the parent's session and of processes `before`: each with its start."""
        members = {parent, *self._by_session.get(parent, ())}
        members |= {number for number, start in (before or {}).items() if self.starts.get(number) == start}
        pending = list(members)
        while pending:
            new = set(self._by_parent.get(pending.pop(), ())) - members
            members |= new
            pending += new
        return {member: self.starts[member] for member in members - {parent}}


if __name__ == "__main__":
    main()
