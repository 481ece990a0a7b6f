"""Starts a server in its box, and notes the paths that it asks for and its box refuses.

Read by the parent of one server (reaper_process.py), with the standard library alone: a module of its own, since a
program that is run is compiled at each start.
"""

import _socket  # the module socket takes longer to import than a box may take to start
import _thread
import ctypes
import errno
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

Rule = tuple[str, str]
"""Of a box: `fs_read`, `fs_write` or `net_allow`, and the path or the address."""
BoxRequest = tuple[str, list[Rule], int]
"""The library of sandlock, the rules, and the descriptor that wishes are written to."""
MOST_WISHES, MOST_WISH_CHARS = 20, 300
"""Of one run: so many fit into a pipe that nobody reads."""
_OPENS = {"openat": (0, 1, 2), "open": (-1, 0, 1)}
"""Which of the arguments are a folder's descriptor, the path and the flags; -1: it has none."""
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_BESIDE = ("/proc/", "/sys/", "/run/", "/dev/tty", "/dev/pts/")
"""What lies there programs look at by themselves, and do without."""
_CONTINUE = 1
"""sandlock's word for a call that goes on to the kernel, whose rules decide on it."""
_MOST_PATH_BYTES, _LOOK_S = 4_096, 0.002


def start_in_box(
    command: list[str], environment: Mapping[str, str], folder: str, box: BoxRequest, report: Callable[[int], None]
) -> "tuple[int, _thread.LockType]":
    """The number of its process, and what is locked until sandlock has told how it ended. Raises OSError.

    `report` gets the exit status, negative for a signal: of sandlock and this process one learns of it. The C interface
    of sandlock is called as its own Python package does, whose import would take longer than the start. Threads of this
    process answer for the kernel what the server wants of the network; they end with it.
    """
    library, rules, wishes = box
    os.set_inheritable(wishes, False)
    sandlock = ctypes.CDLL(library)
    watch, running = _Watch(sandlock, rules, wishes), _thread.allocate_lock()
    arguments = (ctypes.c_char_p * len(command))(*map(os.fsencode, command))

    def call(name: str, *arguments: object) -> ctypes.c_void_p:
        function = getattr(sandlock, f"sandlock_{name}")
        function.restype = ctypes.c_void_p
        if not (result := function(*arguments)):
            raise OSError(errno.ENOTSUP, name)
        return ctypes.c_void_p(result)

    def run(policy: ctypes.c_void_p) -> None:
        name = b"waygraph-%d" % os.getpid()  # sandlock runs no two of one name
        with suppress(OSError):
            result = call("run_interactive_with_handlers", policy, name, arguments, len(command), *watch.handlers())
            code, number = sandlock.sandlock_result_exit_code(result), sandlock.sandlock_result_signal(result)
            if code >= 0 or number > 0:  # else this process has learnt of its end
                report(code if code >= 0 else -number)
        running.release()

    def start(rules: list[Rule]) -> int:
        builder = call("sandbox_builder_new")
        for rule, text in [*rules, *([("cwd", folder)] if folder else [])]:
            builder = call(f"sandbox_builder_{rule}", builder, os.fsencode(text))
        for variable, value in environment.items():
            builder = call("sandbox_builder_env_var", builder, os.fsencode(variable), os.fsencode(value))
        policy = call("sandbox_build", builder, ctypes.byref(ctypes.c_int()), ctypes.byref(ctypes.c_char_p()))
        running.acquire()
        _thread.start_new_thread(run, (policy,))
        while not (server := _first_child()):
            if running.acquire(timeout=_LOOK_S):
                running.release()
                raise OSError(errno.ENOTSUP, "run")
        return server

    try:
        return start(rules), running
    except OSError:  # no box is made with a host that nobody knows, as of a machine that is offline
        return start([each for each in rules if each[0] != "net_allow" or _is_known(each[1])]), running


def _is_known(address: str) -> bool:
    """Whether the host of host:port has an address now."""
    with suppress(OSError):
        return bool(_socket.getaddrinfo(address.rpartition(":")[0].strip("[]"), None))
    return False


def _first_child() -> int:
    """0: there is none yet. Raises OSError."""
    for thread in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{thread}/children", "rb") as file:
            if numbers := file.read().split():
                return int(numbers[0])
    return 0


class _Call(ctypes.Structure):
    """A call of the kernel, as sandlock tells of it (sandlock_notif_data_t)."""

    _fields_ = (
        ("id", ctypes.c_uint64),
        ("process", ctypes.c_uint32),
        ("flags", ctypes.c_uint32),
        ("number", ctypes.c_int32),
        ("architecture", ctypes.c_uint32),
        ("instruction", ctypes.c_uint64),
        ("arguments", ctypes.c_uint64 * 6),
    )


_HANDLE = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(_Call), ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint32)
)


class _Watch:
    """Notes what a server asks for beyond its rules, and decides nothing: each call goes on to the kernel. What was
    read of a call may be another text by the time the kernel reads it.
    """

    def __init__(self, sandlock: ctypes.CDLL, rules: Iterable[Rule], wishes: int) -> None:
        self._sandlock, self._wishes, self._known = sandlock, wishes, set[str]()
        self._readable = _folders(path for rule, path in rules if rule != "net_allow")
        self._writable = _folders(path for rule, path in rules if rule == "fs_write")
        numbers = {sandlock.sandlock_syscall_nr(name.encode()): places for name, places in _OPENS.items()}
        self._opens = {number: places for number, places in numbers.items() if number >= 0}
        self._handle = _HANDLE(self._look_at)  # the library keeps no reference to it

    def handlers(self) -> "tuple[ctypes.Array[ctypes.c_int64], ctypes.c_size_t]":
        """Of each call that is watched its number and what handles it, and how many these are."""
        make = self._sandlock.sandlock_handler_new
        make.restype = ctypes.c_int64
        # 2: after a fault of ours the call goes on, too.
        words = [word for number in self._opens for word in (number, make(self._handle, None, None, 2))]
        return (ctypes.c_int64 * len(words))(*words), ctypes.c_size_t(len(self._opens))

    def _look_at(
        self, _: object, call: "ctypes._Pointer[_Call]", memory: int, answer: "ctypes._Pointer[ctypes.c_uint32]"
    ) -> int:
        answer[0] = _CONTINUE
        if len(self._known) < MOST_WISHES:
            with suppress(OSError, ValueError):
                self._note(call[0], ctypes.c_void_p(memory), *self._opens[call[0].number])
        return 0

    def _note(self, call: _Call, memory: ctypes.c_void_p, folder: int, path: int, flags: int) -> None:
        """Raises OSError, ValueError."""
        text, length = ctypes.create_string_buffer(_MOST_PATH_BYTES), ctypes.c_size_t()
        memory_range = ctypes.c_uint64(call.arguments[path]), text, ctypes.c_size_t(len(text)), ctypes.byref(length)
        if self._sandlock.sandlock_mem_read_cstr(memory, *memory_range):
            return
        writes = bool(call.arguments[flags] & _WRITES)
        roots, place = self._writable if writes else self._readable, os.fsdecode(text.raw[: length.value])
        if not place.startswith("/"):
            number = ctypes.c_int32(call.arguments[folder]).value if folder >= 0 else -1
            base = os.readlink(f"/proc/{call.process}/{f'fd/{number}' if number >= 0 else 'cwd'}")
            place = os.path.join(base, place)
        place = os.path.normpath(place)
        if f"{place}/".startswith(roots):
            return
        place = os.path.realpath(place)
        if writes and not os.path.exists(place):
            place = os.path.dirname(place)  # where it would be made
        wish = f"{'writes' if writes else 'reads'} {place}"
        is_sound = wish.isprintable() and len(wish) <= MOST_WISH_CHARS and wish not in self._known
        if is_sound and os.path.exists(place) and not f"{place}/".startswith(roots):
            self._known.add(wish)
            os.write(self._wishes, f"{wish}\n".encode())


def _folders(paths: Iterable[str]) -> tuple[str, ...]:
    """As they are named, and as they are once links are followed, each with a slash behind it."""
    names = {f"{each.rstrip('/')}/" for path in paths for each in (path, os.path.realpath(path))}
    return (*names, *_BESIDE)
