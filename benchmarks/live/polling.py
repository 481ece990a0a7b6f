"""A long watch: what a thousand polls of each of its servers leave in memory and in open files."""

import os
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.live.scene import Scene, until, watch_of, watching_beside
from benchmarks.record import Measure, Target
from benchmarks.service.servers import status_mib

EVERY_S = 0.02
MORE_MIB = Target(bound="at_most", value=20.0)
MORE_FILES = Target(bound="at_most", value=5.0)


def measured(made: Scene, *, servers: int, polls: int) -> tuple[list[Measure], dict[str, Any]]:
    """Between the first tenth of the polls and the last."""
    settings = replace(made.settings(made.folder / "polling-cache"), watch_poll_s=EVERY_S)
    config = made.config("polled", made.names[:servers])
    began = time.perf_counter()
    with closing(made.open(made.folder / "polled.grafeo", settings)) as registry:
        start = _listed(made)
        with watching_beside(watch_of(registry, config, settings)):
            until(lambda: _listed(made) - start >= servers * polls // 10, "a tenth of the polls")
            early = _state()
            until(lambda: _listed(made) - start >= servers * polls, "all polls", 1800)
            late = _state()
    took = time.perf_counter() - began
    name = f"{polls} polls of {servers} servers"
    return [
        Measure(name=f"{name}: resident memory more at the end", value=late[0] - early[0], unit="MiB", target=MORE_MIB),
        Measure(name=f"{name}: open files more at the end", value=late[1] - early[1], unit="", target=MORE_FILES),
    ], {"seconds": round(took, 1), "resident_mib": [early[0], late[0]], "open_files": [early[1], late[1]]}


def _listed(made: Scene) -> int:
    time.sleep(0.2)  # asked rarely: it is no part of what is measured
    return int(made.ask("/listed")["listed"])


def _state() -> tuple[float, int]:
    """Resident memory in MiB, and open files, of this process."""
    return round(status_mib(os.getpid(), "VmRSS:"), 1), len(list(Path("/proc/self/fd").iterdir()))
