"""Runs a statement typed by a stranger in a worker process of its own, and says how it ended.

The worker sees a published copy of the graph, an environment without a secret, and so much memory and time as the
settings allow; whatever becomes of it, this process goes on. See `allow_list` and `grafeo_worker` for the rest.
`neo4j_runner` starts another worker in the same way, for a graph that is on a server.
"""

import json
import os
import re
import select
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, cast

from waygraph.registry.graph.schema import GRAPH, LABELS, TYPES
from waygraph.registry.graph.user_cypher.allow_list import KEYWORDS, TOKEN, check_read_only
from waygraph.registry.model.changes import CypherResult
from waygraph.registry.model.errors import CypherBusy, CypherError, CypherFailed, CypherLimit, CypherRefused, nearest
from waygraph.registry.model.identity import is_broken
from waygraph.registry.model.process import processors
from waygraph.registry.model.settings import Settings


class CypherPlaces:
    """As many places as there may be workers of one registry. Threads share it."""

    def __init__(self, settings: Settings) -> None:
        self._allowed, self._wait_s = settings.cypher_workers, settings.cypher_wait_s
        self._free = threading.BoundedSemaphore(self._allowed)

    @contextmanager
    def take(self) -> Iterator[None]:
        """A place, given back however the block ends. Raises CypherBusy after `cypher_wait_s`."""
        if not self._free.acquire(timeout=self._wait_s):
            raise CypherBusy(self._allowed)
        try:
            yield
        finally:
            self._free.release()


WORKER = Path(__file__).with_name("grafeo_worker.py")
MIB = 1024 * 1024
MAX_PARAMS_BYTES = 4 * MIB
INTEGERS = 2**63
MAX_ANSWER_BYTES = 16 * MIB
MAX_HEARD_BYTES = MAX_ANSWER_BYTES + MIB
KEPT_NOISE_BYTES = 4096


@dataclass(frozen=True, slots=True)
class _Ending:
    """What a worker said, and its exit status (below 0: the signal that ended it)."""

    answer: bytes
    noise: str
    status: int


def run_read_only(
    graph_copy: Path, statement: str, params: Mapping[str, object], settings: Settings, places: CypherPlaces
) -> CypherResult:
    """The rows of `statement` over the file `graph_copy`, which stays as it is.

    Raises CypherRefused if it is not a plain read, CypherFailed with the engine's reason, CypherLimit if time or
    memory ran out, CypherBusy if no place is free in time. Embeddings are told as `<384 floats>`.
    """
    check_read_only(statement)
    if not graph_copy.is_file():
        raise CypherFailed("no copy of the graph is published yet")
    result = _run(_request(graph_copy, statement, params, settings), settings, places)
    return replace(result, notice=unknown_names(statement))


def worker_environment() -> dict[str, str]:
    """All that the worker gets of the environment: no secret, no proxy, no home."""
    environment = {
        "TMPDIR": "/dev/null",  # the engine makes a folder there for spilling, and a killed worker leaves it behind
        "MALLOC_ARENA_MAX": "1",  # every arena reserves address space, which the memory limit counts
        "RAYON_NUM_THREADS": "1",
    }
    if where_python_finds_its_library := os.environ.get("LD_LIBRARY_PATH"):
        environment["LD_LIBRARY_PATH"] = where_python_finds_its_library
    return environment


def _request(graph_copy: Path, statement: str, params: Mapping[str, object], settings: Settings) -> bytes:
    request = {"path": str(graph_copy.resolve()), "statement": statement, "params": checked_params(params)}
    return json.dumps(request | limits(settings)).encode()


def limits(settings: Settings) -> dict[str, object]:
    """What every worker is held to."""
    return {
        "memory_mib": settings.cypher_memory_mib,
        "cpu_s": int(settings.cypher_timeout_s * processors()) + 2,
        "max_rows": settings.cypher_max_rows,
        "max_bytes": MAX_ANSWER_BYTES,
    }


def checked_params(params: Mapping[str, object]) -> dict[str, object]:
    """As JSON would carry them. Raises CypherRefused for what it cannot, and for too much of it."""
    if not isinstance(params, Mapping):
        raise CypherRefused(f"parameters are a mapping of names to values, not {type(params).__name__}")
    try:
        text = json.dumps(dict(params), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as exc:
        raise CypherRefused(f"the parameters are not JSON: {exc}") from exc
    for name, value in params.items():
        if is_broken(json.dumps(value, ensure_ascii=False)):
            raise CypherRefused(f"parameter {name!r} holds half of a surrogate pair, which no engine keeps")
    if len(text) > MAX_PARAMS_BYTES:
        raise CypherRefused(f"the parameters take {len(text):,} bytes, {MAX_PARAMS_BYTES:,} are allowed")
    return cast("dict[str, object]", json.loads(text, parse_int=_integer))


def _integer(digits: str) -> int:
    """Of a longer one an engine would make a text, or a refusal that nobody understands."""
    value = int(digits)
    if not -INTEGERS <= value < INTEGERS:
        raise CypherRefused(f"the parameters hold {value}: an integer has 64 bits")
    return value


def _run(request: bytes, settings: Settings, places: CypherPlaces) -> CypherResult:
    return result_of(ask_worker(_start, request, settings, places), settings)


def ask_worker(
    start: Callable[[], subprocess.Popen[bytes]], request: bytes, settings: Settings, places: CypherPlaces
) -> dict[str, Any]:
    """What the worker that `start` makes has to say.

    Raises CypherBusy if none may be made, CypherLimit, CypherFailed if it came to no good end.
    """
    try:
        with places.take():
            ending = _ending_of_worker(start, request, settings.cypher_timeout_s)
    except TimeoutError:
        raise _out_of_time(settings) from None
    if ending.status != 0:
        raise _reason_of_death(ending, settings)
    try:
        return cast("dict[str, Any]", json.loads(ending.answer))
    except ValueError:
        raise CypherFailed("the engine's answer was cut off") from None


def _ending_of_worker(start: Callable[[], subprocess.Popen[bytes]], request: bytes, timeout_s: float) -> _Ending:
    """Starts a worker and stays until it ended; TimeoutError after `timeout_s`. No worker outlives this call."""
    deadline = time.monotonic() + timeout_s
    worker = start()
    try:
        answer, noise = _converse(worker, request, deadline)
        status = worker.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        raise TimeoutError from None
    finally:
        _stop(worker)
    return _Ending(answer, noise.decode(errors="replace"), status)


def _start() -> subprocess.Popen[bytes]:
    return start_worker(WORKER, worker_environment())


def start_worker(script: Path, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Raises CypherFailed if the operating system has no room for one."""
    # -I: neither the environment nor the current folder adds to what it imports. -B: it writes no cache.
    try:
        return subprocess.Popen(
            [sys.executable, "-I", "-B", str(script), str(os.getpid())],
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            cwd="/",
            start_new_session=True,
        )
    except OSError as exc:
        raise CypherFailed(f"the worker for Cypher could not start: {exc.strerror}") from exc


def _stop(worker: subprocess.Popen[bytes]) -> None:
    if worker.returncode is None:  # not waited for, so its number is still its own
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()
    for pipe in _pipes(worker):
        pipe.close()


def _pipes(worker: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes], IO[bytes]]:
    return cast(tuple[IO[bytes], IO[bytes], IO[bytes]], (worker.stdin, worker.stdout, worker.stderr))


def _converse(worker: subprocess.Popen[bytes], request: bytes, deadline: float) -> tuple[bytes, bytes]:
    """Sends the request and gives the first bytes of stdout and of stderr, each read to its end."""
    stdin, stdout, stderr = _pipes(worker)
    unsent = memoryview(request)
    buffers = {stdout.fileno(): bytearray(), stderr.fileno(): bytearray()}
    limits = {stdout.fileno(): MAX_HEARD_BYTES, stderr.fileno(): KEPT_NOISE_BYTES}
    with selectors.DefaultSelector() as selector:
        selector.register(stdin, selectors.EVENT_WRITE)
        selector.register(stdout, selectors.EVENT_READ)
        selector.register(stderr, selectors.EVENT_READ)
        while selector.get_map():
            for key in _ready(selector, deadline):
                if key.fd in buffers:
                    more = _hear(key.fd, buffers[key.fd], limits[key.fd])
                else:
                    unsent = _send(key.fd, unsent)
                    more = bool(unsent)
                if not more:
                    selector.unregister(key.fileobj)
                    cast(IO[bytes], key.fileobj).close()
    answer, noise = buffers.values()
    return bytes(answer), bytes(noise)


def _ready(selector: selectors.BaseSelector, deadline: float) -> list[selectors.SelectorKey]:
    left_s = deadline - time.monotonic()
    ready = selector.select(left_s) if left_s > 0 else []
    if not ready and time.monotonic() >= deadline:
        raise TimeoutError
    return [key for key, _ in ready]


def _hear(pipe: int, buffer: bytearray, most: int) -> bool:
    chunk = os.read(pipe, 64 * 1024)
    buffer += chunk[: most - len(buffer)]
    return bool(chunk)


def _send(pipe: int, unsent: memoryview) -> memoryview:
    """What is left to send; nothing if the worker has ended."""
    try:
        # So much never blocks on a pipe that is ready.
        return unsent[os.write(pipe, unsent[: select.PIPE_BUF]) :]
    except BrokenPipeError:
        return unsent[:0]


def result_of(answer: dict[str, Any], settings: Settings) -> CypherResult:
    """Raises CypherRefused, CypherFailed, CypherLimit if that is what the worker told."""
    match answer:
        case {"refused": str(reason)}:
            raise CypherRefused(reason)
        case {"failed": str(reason)}:
            raise CypherFailed(reason)
        case {"limit": "memory"}:
            raise _out_of_memory(settings)
        case {"limit": "time"}:
            raise _out_of_time(settings)
        case {"limit": _}:
            raise CypherLimit(f"one row of the answer is larger than {MAX_ANSWER_BYTES // MIB} MiB; return less of it")
    return CypherResult(
        columns=tuple(answer["columns"]),
        rows=tuple(tuple(row) for row in answer["rows"]),
        truncated=answer["truncated"],
        elapsed_ms=answer["elapsed_ms"],
    )


def _reason_of_death(ending: _Ending, settings: Settings) -> CypherError:
    """The engine aborts when memory runs out, and the kernel kills; whatever it printed then stays here."""
    if ending.status == -signal.SIGKILL or re.search("memory allocation|MemoryError", ending.noise):
        return _out_of_memory(settings)
    if ending.status == -signal.SIGXCPU:
        return _out_of_time(settings)
    if ending.status < 0:
        name = signal.Signals(-ending.status).name
        return CypherFailed(f"the engine crashed on this statement ({name}); the registry is not affected")
    last = (ending.noise.splitlines() or ["no reason given"])[-1]
    return CypherFailed(f"the worker for Cypher could not start: {last}")


def _out_of_time(settings: Settings) -> CypherLimit:
    return CypherLimit(
        f"the statement was ended after {settings.cypher_timeout_s:g} s. "
        "Ask for less, or raise WAYGRAPH_CYPHER_TIMEOUT_S."
    )


def _out_of_memory(settings: Settings) -> CypherLimit:
    return CypherLimit(
        f"the statement was ended: it wanted more than {settings.cypher_memory_mib} MiB of memory. "
        "Ask for less, or raise WAYGRAPH_CYPHER_MEMORY_MIB."
    )


NAMES: Mapping[str, frozenset[str]] = {
    "label": frozenset(LABELS),
    "relationship type": frozenset(TYPES),
    "property": frozenset(" ".join(GRAPH.values()).split()),
}


def unknown_names(statement: str) -> str:
    """A notice of each unknown name, with the nearest known one; empty if there is none."""
    notices = []
    for kind, name in dict.fromkeys(_names(statement)):
        if name not in NAMES[kind]:
            near = nearest(name, NAMES[kind])
            hint = f"; did you mean {near[0]}?" if near else ""
            notices.append(f"no {kind} of this registry is called {name!r}{hint}")
    return " ".join(notices)


def _names(statement: str) -> Iterator[tuple[str, str]]:
    """All names of patterns, and the properties of the variables that patterns bind: other maps have own keys."""
    tokens = [(match.lastgroup or "", match[0]) for match in TOKEN.finditer(statement)]
    tokens = [(kind, text.strip("`")) for kind, text in tokens if kind not in ("space", "comment")]
    brackets: list[str] = []
    variables: set[str] = set()
    place = ""
    for at, (kind, text) in enumerate(tokens):
        before = tokens[at - 1] if at else ("", "")
        if kind == "mark" and text in "([{":
            # A call's bracket stands behind its name, a list's behind anything but a dash.
            is_call = before[0] in ("word", "quoted") and before[1].upper() not in KEYWORDS
            is_pattern = before[1] == "-" if text == "[" else not is_call
            brackets.append(text if text == "{" or is_pattern else "")
            place = ""
        elif kind == "mark" and text in ")]}":
            brackets = brackets[:-1]
            place = ""
        elif kind in ("word", "quoted"):
            inside = brackets[-1] if brackets else ""
            after = tokens[at + 1][1] if at + 1 < len(tokens) else ""
            if inside in ("(", "[") and before[1] == inside:
                variables.add(text)
            if place and before[1] in ":|&!":
                yield place, text
            is_key = inside == "{" and brackets[-2:-1] in (["("], ["["]) and after == ":"
            if is_key or (before[1] == "." and tokens[at - 2][1] in variables and after != "("):
                yield "property", text
        elif text == ":" and brackets and brackets[-1] in ("(", "["):
            place = "label" if brackets[-1] == "(" else "relationship type"
