"""Which reapers a process has."""

from tests.processes_left import PATIENCE_S, children_of, command_of, until


def has_reapers(pid: int, count: int, within_s: float = PATIENCE_S) -> bool:
    """Whether a process has so many, now or soon: one that was just started has no command line for a moment,
    and one that is let go takes a moment to end.
    """
    return until(lambda: len(_reapers_of(pid)) == count, within_s)


def _reapers_of(pid: int) -> list[int]:
    return [child for child in children_of(pid) if "reaper_process" in command_of(child)]
