"""The benchmark `service`: routes by one client and by a hundred, the service and the bare endpoint in turn."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import count, islice
from statistics import median
from typing import Any

from benchmarks.catalogue import MAX_TOOLS, all_agents, all_requests, all_steps
from benchmarks.record import Measure, Result, Target
from benchmarks.service.endpoints import Endpoint, Endpoints, LoadResult, open_endpoints
from benchmarks.timing import percentile
from benchmarks.world import World

NAME = "service"
TOOLS, QUICK_TOOLS = 5_000, 500
SERVICE, BARE, BESIDE = "service", "bare endpoint", "the service beside writes"
CLIENTS, AGENTS = 100, 5
SHARE, NONE = Target(bound="at_least", value=0.6), Target(bound="at_most", value=0.0)
KEPT, WRITE_S = Target(bound="at_least", value=0.7), Target(bound="at_most", value=1.0)
WARM_UP_S = 1.5
STARTS = 5
MOST_A_SECOND = 1_200
"""Bodies are made for so many requests a second: more than either server answers."""
LOAD = f"POST /v1/route, {CLIENTS} clients"
NOTES = (
    "`waygraph serve` as it comes, one worker, API keys on, log to a file, in a process of its own; so is the bare "
    "endpoint; so is the load generator (benchmarks/service/load.py), on the same processors. Every query is new: "
    "requests of 9 to 23 words as people write them, for one client also steps of 3 to 10, as models do.",
    "Bare endpoint: benchmarks/service/bare_endpoint.py, as one would first write it. FastAPI and uvicorn, a plain "
    "`def` that embeds the query with the same model, multiplies the same matrix and answers with five ids; "
    "onnxruntime and BLAS take the threads that they take by themselves.",
    "Start: the median of five, after one that is not counted.",
    "The servers are loaded in turn; figures are medians of the rounds, ratios medians of the rounds' ratios. The "
    "first 1.5 s of a round do not count.",
    f"Beside writes: a manifest of {AGENTS} agents, some 50 tools, whose texts are new each time, is posted as soon as "
    "the one before is answered, from the end of the warm-up to the end of the round; before it in the same round the "
    "same load without writes.",
)
type Rounds = Mapping[str, Sequence[LoadResult]]
"""Arm → its rounds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """How long and how often each arm is loaded."""

    rounds: int
    alone_s: float
    crowd_s: float


WHOLE = Timing(rounds=5, alone_s=5.0, crowd_s=8.0)
QUICK = Timing(rounds=1, alone_s=2.0, crowd_s=2.0)


def run(world: World) -> Result:
    tools, timing = (QUICK_TOOLS, QUICK) if world.quick else (TOOLS, WHOLE)
    with open_endpoints(world, tools) as endpoints:
        measures, details = measure(endpoints, timing)
    return Result(
        name=NAME, embedder=endpoints.embedder, measures=measures, notes=NOTES, details={"tools": tools, **details}
    )


def measure(endpoints: Endpoints, timing: Timing) -> tuple[list[Measure], dict[str, Any]]:
    """Measures and the rounds that they come from."""
    ready_s = _start_times(endpoints)
    requests, steps = all_requests(), all_steps()
    with ExitStack() as stack:
        arms = {SERVICE: stack.enter_context(endpoints.service()), BARE: stack.enter_context(endpoints.bare())}
        server = arms[SERVICE].server
        idle_mib = server.memory_mib()
        alone, stepwise = (
            load_in_turn(arms, texts, clients=1, seconds=timing.alone_s, rounds=timing.rounds)
            for texts in (requests, steps)
        )
        crowd = load_in_turn(arms, requests, clients=CLIENTS, seconds=timing.crowd_s, rounds=timing.rounds)
        writing, written_s = load_beside_writes(arms[SERVICE], requests, timing)
        measures = [
            Measure(name="`waygraph serve`, from start to ready", value=median(ready_s), unit="s"),
            Measure(name=f"resident memory of the service, {endpoints.tools} tools", value=idle_mib, unit="MiB"),
            Measure(name="the same after these loads", value=server.memory_mib(), unit="MiB"),
        ]
    measures += [
        *_alone_measures(endpoints.tools, "requests", alone),
        *_alone_measures(endpoints.tools, "steps", stepwise),
        *_crowd_measures(crowd),
        *_write_measures(endpoints.tools, writing, written_s),
    ]
    loads = {"alone": alone, "stepwise": stepwise, "crowd": crowd, "writing": writing}
    return measures, {
        "starts_s": ready_s,
        "written_s": written_s,
        **{name: _rounds_json(rounds) for name, rounds in loads.items()},
    }


def _start_times(endpoints: Endpoints) -> list[float]:
    """Seconds until the service is ready; not counted is the first, which compiles what was changed."""
    seconds = []
    for _ in range(1 + STARTS):
        with endpoints.service() as endpoint:
            seconds.append(round(endpoint.server.ready_s, 3))
    return seconds[1:]


def load_in_turn(
    arms: Mapping[str, Endpoint], texts: Iterator[str], *, clients: int, seconds: float, rounds: int
) -> dict[str, list[LoadResult]]:
    """A B A B …; in one round each arm is asked the same."""
    results: dict[str, list[LoadResult]] = {name: [] for name in arms}
    for _ in range(rounds):
        batch = list(islice(texts, int((seconds + WARM_UP_S) * MOST_A_SECOND)))
        for name, endpoint in arms.items():
            results[name].append(endpoint.load(batch, clients=clients, warm_up_s=WARM_UP_S, seconds=seconds))
    return results


def load_beside_writes(
    endpoint: Endpoint, texts: Iterator[str], timing: Timing
) -> tuple[dict[str, list[LoadResult]], list[float]]:
    """The service alone and beside one write after the other, in turn; and the seconds of each write."""
    results: dict[str, list[LoadResult]] = {SERVICE: [], BESIDE: []}
    manifests = ({"waygraph": 1, "agents": _agents(seed)} for seed in count())
    written_s = [endpoint.ingest(next(manifests))]  # not counted: it imports what writes

    def load(arm: str) -> None:
        again = load_in_turn({arm: endpoint}, texts, clients=CLIENTS, seconds=timing.crowd_s, rounds=1)
        results[arm] += again[arm]

    for _ in range(timing.rounds):
        load(SERVICE)
        stop = threading.Event()
        with ThreadPoolExecutor(1) as pool, ExitStack() as ending:
            ending.callback(stop.set)
            writes = pool.submit(_write_until, stop, endpoint, manifests)
            load(BESIDE)
        written_s += writes.result()
    return results, written_s[1:]


def _write_until(stop: threading.Event, endpoint: Endpoint, manifests: Iterator[dict[str, Any]]) -> list[float]:
    seconds = list[float]()
    stop.wait(WARM_UP_S)
    while not stop.is_set():
        seconds.append(endpoint.ingest(next(manifests)))
    return seconds


def _agents(seed: int) -> list[dict[str, Any]]:
    """The same agents each time, with other tools."""
    agents = islice(all_agents(AGENTS * MAX_TOOLS, seed), AGENTS)
    return [{**agent, "id": f"beside-{place}"} for place, agent in enumerate(agents)]


def _alone_measures(tools: int, author: str, rounds: Rounds) -> list[Measure]:
    names = {SERVICE: f"POST /v1/route, {tools} tools, 1 client, {author}", BARE: f"{BARE}, 1 client, {author}"}
    return [
        Measure(name=f"{name}, p{share * 100:g}", value=_latency_ms(rounds[arm], share), unit="ms")
        for arm, name in names.items()
        for share in (0.5, 0.99)
    ]


def _crowd_measures(rounds: Rounds) -> list[Measure]:
    pairs = list(zip(rounds[SERVICE], rounds[BARE], strict=True))
    rates = median(one.tally.a_second / other.tally.a_second for one, other in pairs)
    slowest = median(_latency_ms([one], 0.99) / _latency_ms([other], 0.99) for one, other in pairs)
    errors = sum(one.tally.errors for one in rounds[SERVICE])
    return [
        *_arm_measures(LOAD, rounds[SERVICE]),
        Measure(name=f"{LOAD}, errors", value=errors, target=NONE),
        *_arm_measures(f"{BARE}, {CLIENTS} clients", rounds[BARE]),
        Measure(name=f"{LOAD}, requests/s / {BARE}'s", value=rates, unit="×", target=SHARE),
        Measure(name=f"{LOAD}, p99 / {BARE}'s", value=slowest, unit="×"),
    ]


def _write_measures(tools: int, rounds: Rounds, written_s: Sequence[float]) -> list[Measure]:
    pairs = zip(rounds[SERVICE], rounds[BESIDE], strict=True)
    kept = median(beside.tally.a_second / alone.tally.a_second for alone, beside in pairs)
    write = f"POST /v1/manifests, {AGENTS} agents into {tools} tools, beside {CLIENTS} clients"
    errors = sum(each.tally.errors for each in rounds[BESIDE])
    return [
        Measure(name=f"{write}, median", value=median(written_s), unit="s", target=WRITE_S),
        Measure(name=f"{write}, slowest", value=max(written_s), unit="s"),
        Measure(name=f"{LOAD}, beside writes / without", value=kept, unit="×", target=KEPT),
        Measure(name=f"{LOAD}, beside writes, errors", value=errors, target=NONE),
    ]


def _arm_measures(name: str, rounds: Sequence[LoadResult]) -> list[Measure]:
    cpu_ms = median(1000 * each.server_cpus / each.tally.a_second for each in rounds)
    return [
        Measure(name=name, value=median(each.tally.a_second for each in rounds), unit="requests/s"),
        Measure(name=f"{name}, p50", value=_latency_ms(rounds, 0.5), unit="ms"),
        Measure(name=f"{name}, p99", value=_latency_ms(rounds, 0.99), unit="ms"),
        Measure(name=f"{name}, processor time", value=cpu_ms, unit="ms a request"),
    ]


def _latency_ms(rounds: Sequence[LoadResult], share: float) -> float:
    """Median of the rounds' percentiles."""
    return median(percentile(each.tally.latency_ms, share) for each in rounds)


def _rounds_json(rounds: Rounds) -> dict[str, Any]:
    return {
        name: [
            {
                "requests_a_second": round(each.tally.a_second, 1),
                "p50_ms": round(percentile(each.tally.latency_ms, 0.5), 2),
                "p99_ms": round(percentile(each.tally.latency_ms, 0.99), 2),
                "errors": each.tally.errors,
                "server_processors": round(each.server_cpus, 2),
                "generator_processors": round(each.generator_cpus, 3),
            }
            for each in results
        ]
        for name, results in rounds.items()
    }
