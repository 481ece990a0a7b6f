"""Whole processes: how long one takes from start to end, in a pipe, and what it says."""

import resource
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.record import PROJECT
from benchmarks.world import World
from waygraph.registry.model.settings import PREFIX

TIMEOUT_S = 600
NO_BYTECODE = "PYTHONDONTWRITEBYTECODE"
"""Where it is set, a checkout is compiled at each start; an installed package never is."""


@dataclass(frozen=True, slots=True)
class Ended:
    """`cpu_s` is the processor time of the process and of what it started: steadier on a busy machine."""

    output: str
    seconds: float
    cpu_s: float


class ProcessFailed(Exception):
    """A measured process ended with an error."""

    def __init__(self, command: Sequence[str], status: int, said: str) -> None:
        last = said.strip().splitlines()[-1:] or ["nothing"]
        super().__init__(f"{Path(command[0]).name} {' '.join(command[1:3])} … ended with {status} and said: {last[0]}")


def plain(environ: Mapping[str, str]) -> dict[str, str]:
    """Without variables of ours, and so that a checkout is compiled once."""
    return {name: value for name, value in environ.items() if not name.startswith(PREFIX) and name != NO_BYTECODE}


def run_process(command: Sequence[str], world: World) -> Ended:
    """Raises ProcessFailed. No WAYGRAPH_ variable is handed on: reading one costs an import of its own."""
    started, used = time.perf_counter(), _children_cpu_s()
    done = subprocess.run(
        list(command),
        capture_output=True,
        text=True,
        check=False,
        cwd=PROJECT,
        timeout=TIMEOUT_S,
        env=plain(world.environ),
    )
    seconds = time.perf_counter() - started
    if done.returncode:
        raise ProcessFailed(command, done.returncode, done.stderr or done.stdout)
    return Ended(done.stdout, seconds, _children_cpu_s() - used)


def in_turn(commands: Mapping[str, Sequence[str]], rounds: int, world: World) -> dict[str, list[Ended]]:
    """Each command's runs: A B A B …, after one run of each that is not counted."""
    runs: dict[str, list[Ended]] = {name: [] for name in commands}
    for number in range(rounds + 1):
        for name, command in commands.items():
            ended = run_process(command, world)
            if number:
                runs[name].append(ended)
    return runs


def waygraph_command(*arguments: str) -> list[str]:
    """The console script that lies beside this Python."""
    return [str(Path(sys.executable).with_name("waygraph")), *arguments]


def _children_cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
