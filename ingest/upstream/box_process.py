"""Starts a server in its box, and notes what it asks for that the box refuses: paths as the kernel is asked for them,
hosts as the box's proxy is.

Read by the parent of one server (reaper_process.py), with the standard library alone: a module of its own, since a
program that is run is compiled at each start.
"""

import _socket  # `socket` takes longer to import than a box may take to start
import _thread
import ctypes
import errno
import os
import signal
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

TYPE_CHECKING = False  # as type checkers know it: `typing` takes longer to import than a start may take
if TYPE_CHECKING:
    from socket import socket

Rule = tuple[str, str]
"""Of a box: `fs_read`, `fs_write` or `net_allow`, and the path or the address."""
BoxRequest = tuple[str, list[Rule], int]
"""The library of sandlock, the rules, and the descriptor that wishes are written to."""
MOST_WISHES, MOST_WISH_CHARS = 20, 300
"""Of one run: so many fit into a pipe that nobody reads."""
_CALLS = {"openat": (0, 1, 2), "open": (-1, 0, 1), "mkdirat": (0, 1, -1), "mkdir": (-1, 0, -1)}
"""Which of the arguments are a folder's descriptor, the path and the flags; -1: it has none."""
_BESIDE = ("/proc/", "/sys/", "/run/", "/dev/tty", "/dev/pts/")
"""What lies there programs look at by themselves, and do without."""
_PR_SET_DUMPABLE, _PR_SET_CHILD_SUBREAPER = 4, 36
_CONTINUE = 1
"""sandlock's word for a call that goes on to the kernel, whose rules decide on it."""
_LOOK_S = 0.002
_TUNNELS_AT_ONCE, _CONNECT_S, _MOST_HEAD_BYTES, _CHUNK_BYTES = 64, 30.0, 8_192, 65_536


def start_in_box(
    command: list[str],
    environment: dict[str, str],
    folder: str,
    box: BoxRequest,
    *,
    signals: Iterable[int],
    report: Callable[[int], None],
) -> "BoxRun":
    """Raises OSError. `signals` end the server, not its parent. `report` gets the exit status, negative for a signal.

    The C interface of sandlock is called as its own Python package does, whose import would take longer than the start.
    Threads of this process answer for the kernel what the server wants of the network; they end with it.
    """
    library, rules, wishes = box
    os.set_inheritable(wishes, False)
    sandlock = ctypes.CDLL(library)
    prctl = ctypes.CDLL(None).prctl
    prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    watch = _Watch(sandlock, rules, wishes)
    if proxy := _open_proxy([text for rule, text in rules if rule == "net_allow"], environment, watch):
        variables = dict.fromkeys(("HTTPS_PROXY", "https_proxy"), f"http://{proxy}")
        environment, rules = {**environment, **variables, "NODE_USE_ENV_PROXY": "1"}, [*rules, ("net_allow", proxy)]
    os.environ["PATH"] = environment.get("PATH", os.defpath)
    for number in signals:  # a program inherits which signals are ignored
        signal.signal(number, signal.SIG_DFL)
    run = BoxRun(sandlock, command, watch, report)
    try:
        run.start(rules, environment, folder)
    except OSError:  # no box is made with a host that nobody knows, as of a machine that is offline
        run.start([each for each in rules if each[0] != "net_allow" or _is_known(each[1])], environment, folder)
    for number in signals:
        signal.signal(number, signal.SIG_IGN)
    prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)  # only now: sandlock takes a descriptor from its child
    return run


def _is_known(address: str) -> bool:
    """Whether the host of host:port has an address now."""
    with suppress(OSError):
        return bool(_socket.getaddrinfo(address.rpartition(":")[0].strip("[]"), None))
    return False


class BoxRun:
    """One run of a server. sandlock waits for its end in a thread: this process or sandlock learns of it first."""

    def __init__(
        self, sandlock: ctypes.CDLL, command: list[str], watch: "_Watch", report: Callable[[int], None]
    ) -> None:
        self._sandlock, self._watch, self._report = sandlock, watch, report
        self._arguments = (ctypes.c_char_p * len(command))(*map(os.fsencode, command))
        self._has_ended = _thread.allocate_lock()

    @property
    def server(self) -> int:
        """The number of its process."""
        return self._watch.server

    def start(self, rules: list[Rule], environment: Mapping[str, str], folder: str) -> None:
        """Returns when its process is there. Raises OSError."""
        builder = self._call("sandbox_builder_new")
        for rule, text in [*rules, *([("cwd", folder)] if folder else [])]:
            builder = self._call(f"sandbox_builder_{rule}", builder, os.fsencode(text))
        for variable, value in environment.items():
            builder = self._call("sandbox_builder_env_var", builder, os.fsencode(variable), os.fsencode(value))
        policy = self._call("sandbox_build", builder, ctypes.byref(ctypes.c_int()), ctypes.byref(ctypes.c_char_p()))
        self._has_ended.acquire()
        _thread.start_new_thread(self._run, (policy,))
        while not self.server:
            if self._has_ended.acquire(timeout=_LOOK_S):
                self._has_ended.release()
                raise OSError(errno.ENOTSUP, "run")
            self._watch.server = self._watch.server or _first_child()

    def await_end(self) -> None:
        """Returns when sandlock has told how the server ended."""
        with self._has_ended:
            pass

    def _run(self, policy: ctypes.c_void_p) -> None:
        handlers = self._watch.handlers()
        name = b"waygraph-%d" % os.getpid()  # sandlock runs no two of one name
        command = self._arguments, len(self._arguments)
        with suppress(OSError):
            call = "run_interactive_with_handlers"
            result = self._call(call, policy, name, *command, handlers, ctypes.c_size_t(len(handlers)))
            code, number = (
                getattr(self._sandlock, f"sandlock_result_{each}")(result) for each in ("exit_code", "signal")
            )
            if self.server and (code >= 0 or number > 0):  # else this process has learnt of its end
                self._report(code if code >= 0 else -number)
        self._has_ended.release()

    def _call(self, name: str, *arguments: object) -> ctypes.c_void_p:
        """Raises OSError."""
        function = getattr(self._sandlock, f"sandlock_{name}")
        function.restype = ctypes.c_void_p
        if not (result := function(*arguments)):
            raise OSError(errno.ENOTSUP, name)
        return ctypes.c_void_p(result)


def _first_child() -> int:
    """0: there is none yet, or this kernel does not tell."""
    for thread in os.listdir("/proc/self/task"):
        with suppress(OSError), open(f"/proc/self/task/{thread}/children", "rb") as file:
            if numbers := file.read().split():
                return int(numbers[0])
    return 0


# -- what it asks for ------------------------------------------------------------------------------


class _Call(ctypes.Structure):
    """A call of the kernel, as sandlock tells of it (`sandlock_notif_data_t`)."""

    _fields_ = (
        ("id", ctypes.c_uint64),
        ("process", ctypes.c_uint32),
        ("flags", ctypes.c_uint32),
        ("number", ctypes.c_int32),
        ("architecture", ctypes.c_uint32),
        ("instruction", ctypes.c_uint64),
        ("arguments", ctypes.c_uint64 * 6),
    )


class _Handler(ctypes.Structure):
    _fields_ = (("number", ctypes.c_int64), ("handler", ctypes.c_void_p))


_HANDLE = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(_Call), ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint32)
)


class _Watch:
    """Notes what a server asks for beyond its rules, and decides nothing: each call goes on to the kernel. What was
    read of a call may be another text by the time the kernel reads it.
    """

    def __init__(self, sandlock: ctypes.CDLL, rules: Iterable[Rule], wishes: int) -> None:
        self.server = 0
        self._sandlock, self._wishes, self._wished = sandlock, wishes, set[str]()
        self._readable = _folders(path for rule, path in rules if rule != "net_allow")
        self._writable = _folders(path for rule, path in rules if rule == "fs_write")
        sandlock.sandlock_syscall_nr.restype = ctypes.c_int64
        self._calls = {sandlock.sandlock_syscall_nr(name.encode()): places for name, places in _CALLS.items()}
        self._handle = _HANDLE(self._look_at)  # the library keeps no reference to it

    def handlers(self) -> "ctypes.Array[_Handler]":
        make = self._sandlock.sandlock_handler_new
        make.restype = ctypes.c_void_p
        numbers = [each for each in self._calls if each >= 0]
        # 2: after a fault of ours the call goes on, too.
        return (_Handler * len(numbers))(*((each, make(self._handle, None, None, 2)) for each in numbers))

    def note(self, access: str, what: str) -> None:
        wish = f"{access} {what}"
        if wish in self._wished or len(self._wished) >= MOST_WISHES or len(wish) > MOST_WISH_CHARS:
            return
        if wish.isprintable():
            self._wished.add(wish)
            with suppress(OSError):
                os.write(self._wishes, f"{wish}\n".encode())

    def _look_at(
        self, _: object, call: "ctypes._Pointer[_Call]", memory: int, answer: "ctypes._Pointer[ctypes.c_uint32]"
    ) -> int:
        answer[0] = _CONTINUE  # type: ignore[call-overload]
        self.server = self.server or call[0].process
        places = self._calls.get(call[0].number)
        if places and len(self._wished) < MOST_WISHES:
            with suppress(OSError, ValueError):
                self._look_at_path(call[0], ctypes.c_void_p(memory), *places)
        return 0

    def _look_at_path(self, call: _Call, memory: ctypes.c_void_p, folder: int, path: int, flags: int) -> None:
        """Raises OSError, ValueError."""
        text, length = ctypes.create_string_buffer(4_096), ctypes.c_size_t()
        address, size = ctypes.c_uint64(call.arguments[path]), ctypes.c_size_t(len(text))
        if self._sandlock.sandlock_mem_read_cstr(memory, address, text, size, ctypes.byref(length)):
            return
        writes = flags < 0 or bool(call.arguments[flags] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
        allowed, wanted = self._writable if writes else self._readable, os.fsdecode(text.raw[: length.value])
        if not wanted.startswith("/"):
            number = ctypes.c_int32(call.arguments[folder]).value if folder >= 0 else -1
            base = f"/proc/{call.process}/{f'fd/{number}' if number >= 0 else 'cwd'}"
            wanted = os.path.join(os.readlink(base), wanted)
        wanted = os.path.normpath(wanted)
        if f"{wanted}/".startswith(allowed):
            return
        wanted = os.path.realpath(wanted)
        if writes and not os.path.exists(wanted):
            wanted = os.path.dirname(wanted)  # where it would be made
        if os.path.exists(wanted) and not f"{wanted}/".startswith(allowed):
            self.note("writes" if writes else "reads", wanted)


def _folders(paths: Iterable[str]) -> tuple[str, ...]:
    """As they are named, and as they are once links are followed, each with a slash behind it."""
    names = {f"{each.rstrip('/')}/" for path in paths for each in (path, os.path.realpath(path))}
    return (*names, *_BESIDE)


# -- hosts, by their names -------------------------------------------------------------------------


def _open_proxy(addresses: Iterable[str], environment: Mapping[str, str], watch: _Watch) -> str:
    """host:port of a proxy for HTTPS, which knows hosts by their names. Empty: the server has a proxy already, or a
    rule is no mere host and port.
    """
    allowed = frozenset(address.lower() for address in addresses)
    pairs = (address.rpartition(":") for address in allowed)
    if not all(host.strip("*") and port.isdigit() for host, _, port in pairs):
        return ""
    if any(name.lower().endswith("_proxy") and name.lower() != "no_proxy" for name in environment):
        return ""
    listener = _socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(_TUNNELS_AT_ONCE)
    address = ":".join(map(str, listener.getsockname()))
    _thread.start_new_thread(_serve_proxy, (listener, allowed, watch))
    return address


def _serve_proxy(listener: _socket.socket, allowed: frozenset[str], watch: _Watch) -> None:
    number, _ = listener._accept()  # type: ignore[attr-defined]
    import socket
    from threading import BoundedSemaphore

    places = BoundedSemaphore(_TUNNELS_AT_ONCE)

    def serve(client: socket.socket) -> None:
        try:
            with client, suppress(OSError, ValueError):
                _tunnel(client, allowed, watch)
        finally:
            places.release()

    while True:
        places.acquire()
        _thread.start_new_thread(serve, (socket.socket(fileno=number),))
        with suppress(OSError):
            number, _ = listener._accept()  # type: ignore[attr-defined]


def _tunnel(client: "socket", allowed: frozenset[str], watch: _Watch) -> None:
    """Raises OSError, ValueError."""
    import socket

    client.settimeout(_CONNECT_S)
    head = b""
    while b"\r\n\r\n" not in head and len(head) < _MOST_HEAD_BYTES:
        if not (chunk := client.recv(_CHUNK_BYTES)):
            return
        head += chunk
    head, _, rest = head.partition(b"\r\n\r\n")
    method, target, *_ = head.decode("ascii").split()
    host, _, port = target.rpartition(":")
    if method != "CONNECT" or target.lower() not in allowed:
        watch.note("reaches", target.lower())
        client.sendall(f"HTTP/1.1 403 The box of this server refuses {target}\r\nContent-Length: 0\r\n\r\n".encode())
        return
    try:
        server = socket.create_connection((host.strip("[]"), int(port)), _CONNECT_S)
    except OSError:
        client.sendall(f"HTTP/1.1 502 No connection to {target}\r\nContent-Length: 0\r\n\r\n".encode())
        return
    with server:
        client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        server.sendall(rest)
        for each in (client, server):
            each.settimeout(None)
        _thread.start_new_thread(_copy, (server, client))
        _copy(client, server)


def _copy(source: "socket", target: "socket") -> None:
    """Until either side ends."""
    with suppress(OSError):
        while chunk := source.recv(_CHUNK_BYTES):
            target.sendall(chunk)
    with suppress(OSError):
        target.shutdown(1)
