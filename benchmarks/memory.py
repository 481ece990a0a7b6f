"""Resident memory of a fresh Python process that routes over 5,000 tools."""

import json
import sys

from benchmarks.processes import run_process
from benchmarks.record import Measure, Result, Target
from benchmarks.world import World

NAME = "memory"
TOOLS, QUICK_TOOLS, ROUTES = 5_000, 500, 200
LIMIT = Target(bound="at_most", value=350)
NOTES = (
    "VmRSS of /proc/self/status after 200 distinct routes, all else that the process imports included. It counts the "
    "pages of mapped files (model, words, libraries), which processes share: RssFile; RssAnon is the process's own.",
)


def run(world: World) -> Result:
    tools = QUICK_TOOLS if world.quick else TOOLS
    with world.registry_of_tools(tools) as registry:
        state = registry.status()
        command = [sys.executable, "-m", "benchmarks.route_process", state.location, str(ROUTES)]
        told = json.loads(run_process(command, world).output)
    name = f"process after {ROUTES} routes over {tools} tools"
    return Result(
        name=NAME,
        embedder=state.state.embedder,
        measures=[
            Measure(name=f"{name}, resident memory", value=told["VmRSS"], unit="MiB", target=LIMIT),
            Measure(name=f"{name}, peak", value=told["VmHWM"], unit="MiB"),
            Measure(name=f"{name}, of its own (RssAnon)", value=told["RssAnon"], unit="MiB"),
        ],
        notes=NOTES,
        details={"process": told},
    )
