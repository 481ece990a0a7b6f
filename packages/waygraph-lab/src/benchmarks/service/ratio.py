"""The service of this checkout beside that of an earlier commit under load, in one run on one machine."""

import shutil
import sys
from contextlib import ExitStack
from statistics import median

from benchmarks.catalogue import all_requests
from benchmarks.processes import free_port, plain_environ, run_process, run_server
from benchmarks.record import PROJECT, Measure, Result, Target
from benchmarks.route_ratio import BASE, COMMAND, NEW, OLD, export_layers
from benchmarks.service.benchmark import load_in_turn
from benchmarks.service.endpoints import Endpoint
from benchmarks.world import World, scratch_folder, with_cache, write_catalogue
from waygraph.registry.access.api_keys import KeyFile

NAME = "service_ratio"
TOOLS, QUICK_TOOLS = 5_000, 500
CLIENTS, ROUNDS, ROUND_S, QUICK_ROUND_S = 50, 7, 6.0, 1.0
MORE = Target(bound="at_least", value=1.2)
NOTES = (
    f"POST /v1/route. Both services, one worker each with an API key, are loaded in turn by {CLIENTS} clients with new "
    "texts, from a process on the same processors. The ratio is the median of the rounds'.",
)


def run(world: World) -> Result:
    tools, seconds = (QUICK_TOOLS, QUICK_ROUND_S) if world.quick else (TOOLS, ROUND_S)
    with scratch_folder() as folder, ExitStack() as stack:
        if not export_layers(BASE, folder / "old"):
            return Result(name=NAME, skipped=f"commit {BASE} is not in the history of {PROJECT}")
        _, key = KeyFile(folder / "keys.json").create("bench", ("route",), everything=True)
        arms: dict[str, Endpoint] = {}
        catalogue = write_catalogue(folder, tools)
        for name, path in {OLD: str(folder / "old"), NEW: ""}.items():
            environ = plain_environ(world.environ) | {
                "WAYGRAPH_CACHE_DIR": with_cache(world.settings, world.cache).cache_dir,
                "WAYGRAPH_DATA_DIR": str(folder / f"data-{len(arms)}"),
                "WAYGRAPH_KEYS_FILE": str(folder / "keys.json"),
                "WAYGRAPH_RATE_PER_MINUTE": "0",
                "PYTHONPATH": path,
            }
            place = folder / f"{len(arms)}.grafeo"
            if arms:
                shutil.copy(folder / "0.grafeo", place)
            command = [sys.executable, "-c", COMMAND, "--registry", str(place)]
            if not arms:
                run_process([*command, "ingest", str(catalogue)], environ)
            port = free_port()
            served = run_server([*command, "serve", "--port", str(port)], port, environ, folder / "log")
            arms[name] = Endpoint(server=stack.enter_context(served), headers={"Authorization": f"Bearer {key}"})
        rounds = load_in_turn(arms, all_requests(), clients=CLIENTS, seconds=seconds, rounds=ROUNDS)
    name = f"POST /v1/route, {tools} tools, {CLIENTS} clients"
    ratios = [new.tally.a_second / old.tally.a_second for new, old in zip(rounds[NEW], rounds[OLD], strict=True)]
    measures = [
        *(
            Measure(name=f"{name}, {arm}", value=median(each.tally.a_second for each in results), unit="requests/s")
            for arm, results in rounds.items()
        ),
        Measure(
            name=f"{name}, errors",
            value=sum(each.tally.errors for results in rounds.values() for each in results),
            unit="",
            target=Target(bound="at_most", value=0.0),
        ),
        Measure(name=f"{name}, {NEW} / {OLD}", value=median(ratios), unit="×", target=MORE),
    ]
    fingerprint = world.embedder().fingerprint
    return Result(name=NAME, embedder=fingerprint, measures=measures, notes=NOTES, details={"base": BASE})
