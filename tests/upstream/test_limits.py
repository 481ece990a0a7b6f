"""What a server that is started may take: it is ended beyond that, and the error says so and what to do."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from queue import Queue
from threading import Event, Thread

import anyio
import pytest

from tests.processes_left import MARK, left_of, needs_proc, none_left
from tests.upstream.calling import Asking, tools_by_hand
from tests.upstream.launches import SETTINGS, handshake, listing_of
from waygraph.ingest.manifest.records import StdioLaunch
from waygraph.ingest.upstream import process_health
from waygraph.ingest.upstream.connection import MayHaveRun
from waygraph.ingest.upstream.open import connect
from waygraph.ingest.upstream.process_health import LimitWatch, limits_in_words, missing_limits
from waygraph.ingest.upstream.reaper_process import signal_processes, start_of
from waygraph.registry.model.errors import UpstreamError

pytestmark = needs_proc


def refusal(launch: StdioLaunch, **limits: int) -> str:
    with pytest.raises(UpstreamError) as caught:
        listing_of(launch, replace(SETTINGS, **limits))  # type: ignore[arg-type]
    return caught.value.reason


@pytest.mark.parametrize("escapes", [(), ("escapes",)], ids=["itself", "in a daemon"])
def test_a_server_that_takes_too_much_memory_is_ended(escapes: tuple[str, ...], mark: str) -> None:
    reason = refusal(handshake("hoards", *escapes, env={MARK: mark}), server_memory_mib=200)
    taken = int(reason.removeprefix("took ").partition(" MiB")[0].replace(",", ""))
    assert 200 < taken < 1_000
    assert "200 are allowed (WAYGRAPH_SERVER_MEMORY_MIB; 0: no limit)" in reason
    assert none_left(mark), left_of(mark)


async def test_whoever_called_what_takes_too_much_learns_why() -> None:
    async with connect(tools_by_hand(), replace(SETTINGS, server_memory_mib=200)) as connection:
        with pytest.raises(MayHaveRun, match=r"200 are allowed .*whether the tool did its work is not known"):
            await Asking(connection).raw("hoards")


@pytest.mark.parametrize(
    "leaves", [(), ("leaves",), ("escapes",)], ids=["in its session", "in sessions of their own", "in daemons"]
)
def test_a_server_that_multiplies_is_ended_whole(leaves: tuple[str, ...], mark: str) -> None:
    reason = refusal(handshake("multiplies", *leaves, env={MARK: mark}), server_max_processes=20)
    assert reason.startswith("had ")
    assert "20 are allowed (WAYGRAPH_SERVER_MAX_PROCESSES; 0: no limit)" in reason
    assert none_left(mark), left_of(mark)


def test_a_number_that_became_another_s_is_left_alone() -> None:
    """A system gives the numbers of ended processes to new ones, and soon where a server starts very many."""
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as process:
        start = start_of(process.pid)
        assert start is not None
        signal_processes({process.pid: start - 1}, signal.SIGKILL)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.2)
        signal_processes({process.pid: start}, signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL


def beside_parent(code: str) -> "subprocess.Popen[bytes]":
    """A process whose only child runs the code, and which ends as that does."""
    parent = "import subprocess, sys; sys.exit(subprocess.run([sys.executable, *sys.argv[1:]]).returncode != 0)"
    return subprocess.Popen([sys.executable, "-c", parent, "-c", code], start_new_session=True)


def test_memory_counts_also_behind_a_first_thread_that_ended() -> None:
    """The system shows such a process as a zombie, and of the zombie no memory."""
    code = """if True:
        import ctypes, threading, time
        def keep():
            kept = bytearray(b"x") * 80_000_000
            time.sleep(600)
        threading.Thread(target=keep).start()
        ctypes.CDLL(None).pthread_exit(None)
    """
    watch, reasons = LimitWatch(), Queue[str]()
    with beside_parent(code) as process:
        watch.watch_over(process.pid, replace(SETTINGS, server_memory_mib=40), reasons.put)
        try:
            assert "40 are allowed" in reasons.get(timeout=10)
            assert process.wait(10)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def test_a_server_can_be_let_go_while_its_memory_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """That may take seconds, in which the event loop must not wait. Then it is not ended."""
    watch, reasons, measured = LimitWatch(), list[str](), Event()
    code = "import time; kept = bytearray(b'x') * 50_000_000; time.sleep(600)"
    with beside_parent(code) as process:

        def measure(_: int) -> int:
            thread = Thread(target=watch.let_go, args=(process.pid,), daemon=True)
            thread.start()
            thread.join(5)
            if not thread.is_alive():
                measured.set()
            return 10**12

        monkeypatch.setattr(process_health, "own_bytes", measure)
        watch.watch_over(process.pid, replace(SETTINGS, server_memory_mib=20), reasons.append)
        assert measured.wait(10)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.3)
        assert reasons == []
        os.killpg(process.pid, signal.SIGKILL)


async def test_memory_that_processes_share_counts_once() -> None:
    """Ten children of one that has 60 MiB, all of which they only read."""
    code = """if True:
        import os, sys, time
        kept = bytearray(b"x") * 60_000_000
        for _ in range(10):
            if os.fork() == 0:
                time.sleep(600)
        os.execv(sys.executable, [sys.executable, "-S", *sys.argv[1:]])
    """
    launch = handshake()
    beside = replace(launch, args=("-S", "-c", code, *launch.args[1:]))
    async with connect(beside, replace(SETTINGS, server_memory_mib=300)) as connection:
        await anyio.sleep(2.5)  # several looks
        assert (await connection.listing()).tools


def status_of(launch: StdioLaunch) -> dict[str, str]:
    names = [tool["name"] for tool in listing_of(launch).tools]
    return dict(name.split("=", 1) for name in names if "=" in name)


def test_a_server_gets_no_new_privileges_and_we_keep_ours() -> None:
    assert status_of(handshake("status"))["NoNewPrivs"] == "1"
    assert "NoNewPrivs:\t0" in Path("/proc/self/status").read_text()


def test_a_program_that_is_there_to_raise_privileges_may(tmp_path: Path) -> None:
    """Whoever named `sudo` or a setuid program meant it."""
    for name, mode in (("podman", 0o755), ("raised", 0o4755), ("plain", 0o755)):
        program = tmp_path / name
        program.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
        program.chmod(mode)
    flags = {
        name: status_of(replace(handshake("status"), command=str(tmp_path / name)))["NoNewPrivs"]
        for name in ("podman", "raised", "plain")
    }
    assert flags == {"podman": "0", "raised": "0", "plain": "1"}


def test_the_kernel_ends_a_server_before_us() -> None:
    """If a container has no memory left."""
    code = "import sys, time; time.sleep(.5); sys.exit('Error: ' + open('/proc/self/oom_score_adj').read())"
    with pytest.raises(UpstreamError, match="500"):
        listing_of(StdioLaunch(command=sys.executable, args=("-c", code)))
    assert int(Path("/proc/self/oom_score_adj").read_text()) < 500


def test_the_limits_are_said() -> None:
    assert missing_limits() == ""
    assert "2,048 MiB of memory and 256 processes" in limits_in_words(SETTINGS)
    assert "any memory and any number" in limits_in_words(
        replace(SETTINGS, server_memory_mib=0, server_max_processes=0)
    )
