"""No server outlives us: neither our end in good order nor kill -9 leaves a process."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from tests.processes_left import MARK, PATIENCE_S, all_stand, left_of, needs_proc, new_mark, none_left
from tests.upstream.launches import PROGRAMS, SETTINGS, handshake
from tests.upstream.reapers import has_reapers
from waygraph.ingest.upstream.open import connect
from waygraph.ingest.upstream.process import REAPER, Child, Reaper

pytestmark = needs_proc

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def mark() -> str:
    return new_mark()


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
    """Servers that stay when their input ends, and the children that they started: nothing is left."""
    with started(3, mark) as process:
        assert all_stand(mark, 6), left_of(mark)
        assert has_reapers(process.pid, 1)
        process.send_signal(how)
        assert none_left(mark), left_of(mark)
        process.wait(PATIENCE_S)


def test_many_servers_end_together(mark: str) -> None:
    """Twelve that do not want to go, and all that they started; the reaper goes with the last of them."""

    async def hold() -> None:
        async with anyio.create_task_group() as tasks:
            for _ in range(12):
                await tasks.start(_held, mark)
            tasks.cancel_scope.cancel()

    anyio.run(hold)
    assert not left_of(mark)
    assert has_reapers(os.getpid(), 0)


async def _held(mark: str, *, task_status: "anyio.abc.TaskStatus[None]") -> None:
    async with connect(handshake("with_child", "stays", env={MARK: mark}), SETTINGS):
        task_status.started()
        await anyio.sleep_forever()


def test_a_connection_that_is_cancelled_as_it_opens_leaves_nothing(mark: str) -> None:
    async def give_up() -> None:
        launch = handshake("with_child", "stays", env={MARK: mark})
        for delay_s in (0.0, 0.01, 0.05, 0.1):
            with anyio.move_on_after(delay_s):
                async with connect(launch, SETTINGS):
                    await anyio.sleep_forever()

    anyio.run(give_up)
    assert not left_of(mark)


def test_a_reaper_that_was_killed_is_followed_by_another(mark: str) -> None:
    code = """if True:
        import os, subprocess, sys, time
        from waygraph.ingest.upstream.process import REAPER

        def start():
            sleeping = [sys.executable, "-I", "-S", "-c", "import time; time.sleep(600)"]
            REAPER.watch_over(subprocess.Popen(sleeping, start_new_session=True).pid)

        start()
        os.kill(REAPER._process.pid, 9)
        REAPER._process.wait()
        start()
        print("open", flush=True)
        time.sleep(600)
    """
    environ = {**os.environ, MARK: mark}
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env=environ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        held = all_stand(mark, 3)
        process.kill()
        assert held
        assert none_left(mark), left_of(mark)


@pytest.mark.parametrize("fails", ["stand_by", "watch_over"])
def test_what_nobody_can_watch_over_does_not_run(fails: str, mark: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No process can be had for the reaper: the start is refused, and leaves neither a program nor an open pipe."""
    assert has_reapers(os.getpid(), 0), "the one of an earlier test"
    sleeping = [sys.executable, "-I", "-S", "-c", "import time; time.sleep(600)"]
    before = len(os.listdir("/proc/self/fd"))

    def refuse(*_: object) -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    with monkeypatch.context() as full:
        full.setattr(Reaper, "_start" if fails == "stand_by" else "_tell", refuse)
        for _ in range(3):
            with pytest.raises(BlockingIOError):
                Child(sleeping, {**os.environ, MARK: mark}, "", SETTINGS, refuse)
    assert none_left(mark), left_of(mark)
    assert has_reapers(os.getpid(), 0)
    assert not REAPER.groups
    assert len(os.listdir("/proc/self/fd")) == before
