"""No server outlives us: neither our end in good order nor kill -9 leaves a process."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import anyio
import pytest

from tests.processes_left import MARK, PATIENCE_S, all_stand, left_of, needs_proc, none_left
from tests.upstream.launches import PROGRAMS, SETTINGS, handshake
from tests.upstream.reapers import has_reapers
from waygraph.ingest.upstream.open import connect
from waygraph.ingest.upstream.stdio import Child
from waygraph.registry.model.errors import UpstreamError

pytestmark = needs_proc

ROOT = Path(__file__).resolve().parents[2]


def started(count: int, mark: str) -> "subprocess.Popen[str]":
    """A process of ours that holds so many servers open, each with a child; once they stand."""
    command = [sys.executable, str(PROGRAMS / "starts_servers.py"), str(count), mark]
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environ, cwd=ROOT)
    assert process.stdout is not None
    assert process.stdout.readline() == "open\n"
    return process


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM], ids=lambda how: how.name)
def test_whatever_ends_us_ends_them(how: signal.Signals, mark: str) -> None:
    """Servers that stay when their input ends, their children and daemons that left their session: nothing is left."""
    with started(3, mark) as process:
        assert all_stand(mark, 9), left_of(mark)
        assert has_reapers(process.pid, 3)
        process.send_signal(how)
        assert none_left(mark), left_of(mark)
        process.wait(PATIENCE_S)


async def test_many_servers_end_together(mark: str) -> None:
    """Twelve that do not want to go, and all that they started, daemons too; their parents go with them."""
    async with anyio.create_task_group() as tasks:
        for _ in range(12):
            await tasks.start(_held, mark)
        tasks.cancel_scope.cancel()
    assert not left_of(mark)
    assert has_reapers(os.getpid(), 0)


async def _held(mark: str, *, task_status: "anyio.abc.TaskStatus[None]") -> None:
    async with connect(handshake("with_child", "with_daemon", "stays", env={MARK: mark}), SETTINGS):
        task_status.started()
        await anyio.sleep_forever()


async def test_a_connection_that_is_cancelled_as_it_opens_leaves_nothing(mark: str) -> None:
    launch = handshake("with_child", "stays", env={MARK: mark})
    for delay_s in (0.0, 0.01, 0.05, 0.1):
        with anyio.move_on_after(delay_s):
            async with connect(launch, SETTINGS):
                await anyio.sleep_forever()
    assert not left_of(mark)


async def test_a_server_that_ends_its_parent_is_ended(mark: str) -> None:
    """Its parent is the process that would end it with us."""
    with suppress(UpstreamError):
        launch = handshake("with_child", "stays", "kills_its_parent", env={MARK: mark})
        async with connect(launch, SETTINGS):
            assert await anyio.to_thread.run_sync(none_left, mark), left_of(mark)


def test_a_program_that_cannot_be_started_leaves_nothing(mark: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No process can be had for its parent: the start is refused, and leaves neither a program nor an open pipe."""
    sleeping = [sys.executable, "-I", "-S", "-c", "import time; time.sleep(600)"]
    assert has_reapers(os.getpid(), 0), "those of an earlier test"
    before = len(os.listdir("/proc/self/fd"))

    def refuse(*_: object, **__: object) -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    with monkeypatch.context() as full:
        full.setattr(subprocess, "Popen", refuse)
        for _ in range(3):
            with pytest.raises(BlockingIOError):
                Child(sleeping, {**os.environ, MARK: mark}, "", SETTINGS, refuse)
    assert none_left(mark), left_of(mark)
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_forked_process_keeps_no_server_alive(mark: str) -> None:
    """One that holds what it inherited and outlives us."""
    code = """if True:
        import anyio, os, sys, time
        from tests.upstream.launches import SETTINGS
        from waygraph.ingest.upstream.stdio import Child

        async def start():
            sleeping = [sys.executable, "-I", "-S", "-c", "import time; time.sleep(600)"]
            await Child(sleeping, {"WAYGRAPH_TEST_MARK": sys.argv[1]}, "", SETTINGS, print).await_start()
            if forked := os.fork():
                print(forked, flush=True)
            time.sleep(600)

        anyio.run(start)
    """
    with subprocess.Popen([sys.executable, "-c", code, mark], stdout=subprocess.PIPE, cwd=ROOT) as process:
        assert process.stdout is not None
        forked = int(process.stdout.readline())
        try:
            assert all_stand(mark, 1)
            process.kill()
            assert none_left(mark), left_of(mark)
        finally:
            os.kill(forked, signal.SIGKILL)
