"""Whole processes: how long one takes from start to end, in a pipe, and what it says."""

import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from waygraph.registry.settings import PREFIX

from benchmarks.record import PROJECT
from benchmarks.world import World

TIMEOUT_S = 600


@dataclass(frozen=True, slots=True)
class Ended:
    output: str
    seconds: float


class ProcessFailed(Exception):
    """A measured process ended with an error."""

    def __init__(self, command: Sequence[str], status: int, said: str) -> None:
        last = said.strip().splitlines()[-1:] or ["nothing"]
        super().__init__(f"{Path(command[0]).name} {' '.join(command[1:3])} … ended with {status} and said: {last[0]}")


def run_process(command: Sequence[str], world: World, extra: Mapping[str, str] | None = None) -> Ended:
    """Raises ProcessFailed. No WAYGRAPH_ variable is handed on: reading one costs an import of its own."""
    environ = {name: value for name, value in world.environ.items() if not name.startswith(PREFIX)}
    started = time.perf_counter()
    done = subprocess.run(
        list(command),
        capture_output=True,
        text=True,
        check=False,
        cwd=PROJECT,
        timeout=TIMEOUT_S,
        env=environ | dict(extra or {}),
    )
    seconds = time.perf_counter() - started
    if done.returncode:
        raise ProcessFailed(command, done.returncode, done.stderr or done.stdout)
    return Ended(done.stdout, seconds)


def in_turn(
    commands: Mapping[str, Sequence[str]], rounds: int, world: World, extra: Mapping[str, str] | None = None
) -> dict[str, list[float]]:
    """Seconds of each command's runs: A B A B …, after one run of each that is not counted."""
    times: dict[str, list[float]] = {name: [] for name in commands}
    for number in range(rounds + 1):
        for name, command in commands.items():
            ended = run_process(command, world, extra)
            if number:
                times[name].append(ended.seconds)
    return times


def waygraph_command(*arguments: str) -> list[str]:
    """The console script that lies beside this Python."""
    return [str(Path(sys.executable).with_name("waygraph")), *arguments]
