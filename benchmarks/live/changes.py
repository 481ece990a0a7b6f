"""A server tells of a new tool: how long until the router finds it, in a registry of all servers."""

import random
import time
from contextlib import closing
from statistics import median
from typing import Any

from benchmarks.live.scene import Scene, tools_in, until, watch_of, watching_beside
from benchmarks.record import Measure, Target
from benchmarks.route_speed import percentile
from waygraph.registry.registry import Registry

SOON = Target(bound="at_most", value=300.0)
COLOURS = "amber azure beige coral crimson ebony indigo ivory jade lilac maroon ochre pearl ruby teal umber".split()
ANIMALS = "badger camel dingo egret ferret gecko heron ibis jackal koala lemur marmot narwhal otter quail".split()


def measured(made: Scene, *, times: int) -> tuple[list[Measure], dict[str, Any]]:
    """Each time another server; the first two times warm it up and do not count."""
    folder = made.folder / "first-0"
    settings = made.settings(folder / "cache")
    config = made.config("many", made.names)  # the source that the registry knows
    with (
        closing(made.open(folder / "r.grafeo", settings)) as registry,
        watching_beside(watch_of(registry, config, settings)),
    ):
        held = tools_in(registry)
        until(lambda: made.ask("/followed")["followed"] >= len(made.names), "every server is followed")
        taken = [_change(made, registry, number) for number in range(times + 2)][2:]
    name = f"list_changed of one server until its new tool is found, among {held} tools"
    return [
        Measure(name=f"{name}, median", value=median(taken), unit="ms", target=SOON),
        Measure(name=f"{name}, 95th percentile", value=percentile(taken, 0.95), unit="ms"),
    ], {"tools": held, "milliseconds": [round(each, 1) for each in taken]}


def _change(made: Scene, registry: Registry, number: int) -> float:
    """Milliseconds."""
    server = made.names[number % len(made.names)]
    colour, animal = COLOURS[number % len(COLOURS)], ANIMALS[number // len(COLOURS) % len(ANIMALS)]
    name = f"paint_{colour}_{animal}"
    wanted = f"{server}/{name}"
    time.sleep(random.Random(number).uniform(0.5, 1.5))  # noqa: S311 - at no fixed beat of anything else
    stamp = registry.stamp
    began = time.perf_counter()
    made.ask(f"/{server}/tools", {"name": name, "description": f"Paints the {animal} in {colour} on a wall of stone."})

    def found() -> bool:
        if registry.stamp == stamp:  # asked cheaply, so that asking takes nothing from what is measured
            return False
        return wanted in {match.tool.id for match in registry.find_tools(f"paint the {animal} {colour}").matches}

    return (until(found, wanted, 60) - began) * 1000
