"""Servers beside one that takes its request and never answers."""

import time
from collections.abc import Sequence
from contextlib import closing
from statistics import median
from typing import Any

from benchmarks.live.scene import SILENT, Scene, tools_in, until, watch_of, watching_beside
from benchmarks.record import Measure, Target

RATIO = Target(bound="at_most", value=1.2)


def measured(made: Scene, *, among: int, rounds: int) -> tuple[list[Measure], dict[str, Any]]:
    """With and without it in turn, after one round that fills the vector cache and is not counted."""
    others = made.names[:among]
    _seconds(made, "warm", others, among)
    runs = [
        (_seconds(made, f"with-{number}", [SILENT, *others], among), _seconds(made, f"without-{number}", others, among))
        for number in range(rounds)
    ]
    without = median(alone for _, alone in runs)
    ratio = median(beside / alone for beside, alone in runs)
    details = {"with_s": [round(beside, 3) for beside, _ in runs], "without_s": [round(alone, 3) for _, alone in runs]}
    return [
        Measure(name=f"{among} servers routable, alone", value=without, unit="s"),
        Measure(name=f"{among} servers beside one that never answers / alone", value=ratio, unit="×", target=RATIO),
    ], details


def _seconds(made: Scene, name: str, servers: Sequence[str], among: int) -> float:
    """Until all tools of those that answer are in the registry."""
    settings = made.settings(made.folder / "silent-cache")
    config = made.config(name, servers)
    with closing(made.open(made.folder / f"{name}.grafeo", settings)) as registry:
        began = time.perf_counter()
        with watching_beside(watch_of(registry, config, settings)):
            wanted = among * made.tools
            ended = until(lambda: tools_in(registry) >= wanted, f"{wanted} tools")
    return ended - began
