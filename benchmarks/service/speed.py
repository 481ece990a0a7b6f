"""Routes by one client and by a hundred, the service and the bare endpoint in turn."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from operator import truediv
from statistics import median
from typing import Any

from benchmarks.record import Measure, Target
from benchmarks.route_speed import percentile
from benchmarks.service.arena import MOST_A_SECOND, Arena, Endpoint, Loaded, Queries

SERVICE, BARE, TUNED = "service", "bare endpoint", "tuned bare endpoint"
CROWD = 100
ALONE_P50, ALONE_P99 = Target(bound="at_most", value=5.0), Target(bound="at_most", value=15.0)
SHARE, P99_RATIO = Target(bound="at_least", value=0.6), Target(bound="at_most", value=1.0)
READY = Target(bound="at_most", value=1.5)
NONE = Target(bound="at_most", value=0.0)
WARM_UP_S = 1.5
STARTS = 5
LOADED = f"POST /v1/route, {CROWD} clients"


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """How long and how often each arm is loaded."""

    rounds: int
    alone_s: float
    crowd_s: float


def measured(arena: Arena, queries: Queries, steps: Queries, timing: Timing) -> tuple[list[Measure], dict[str, Any]]:
    """Measures and the rounds that they come from."""
    ready = _starts(arena)
    with ExitStack() as stack:
        arms = {
            SERVICE: stack.enter_context(arena.service()),
            BARE: stack.enter_context(arena.bare()),
            TUNED: stack.enter_context(arena.tuned()),
        }
        server = arms[SERVICE].server
        started = [
            *_start_measures(ready),
            Measure(
                name=f"resident memory of the service, {arena.tools} tools", value=server.memory().whole_mib, unit="MiB"
            ),
        ]
        alone, stepwise = (
            in_turn(arms, asked, clients=1, seconds=timing.alone_s, rounds=timing.rounds) for asked in (queries, steps)
        )
        crowd = in_turn(arms, queries, clients=CROWD, seconds=timing.crowd_s, rounds=timing.rounds)
        loaded = Measure(name="the same after these loads", value=server.memory().whole_mib, unit="MiB")
    one = [*_alone_measures(arena.tools, "requests", alone), *_alone_measures(arena.tools, "steps", stepwise)]
    details = {
        "starts_s": ready,
        "alone": _rounds_told(alone),
        "stepwise": _rounds_told(stepwise),
        "crowd": _rounds_told(crowd),
    }
    return [*started, loaded, *one, *_crowd_measures(crowd)], details


def _starts(arena: Arena) -> dict[str, list[float]]:
    """Seconds until an arm is ready, each time, in turn; not counted is the first, which compiles what was changed."""
    ready: dict[str, list[float]] = {SERVICE: [], TUNED: []}
    for _ in range(1 + STARTS):
        for name, opened in ((SERVICE, arena.service), (TUNED, arena.tuned)):
            with opened() as endpoint:
                ready[name].append(round(endpoint.server.ready_s, 3))
    return {name: seconds[1:] for name, seconds in ready.items()}


def _start_measures(ready: Mapping[str, Sequence[float]]) -> list[Measure]:
    name, ratios = "`waygraph serve`, from start to ready", map(truediv, ready[SERVICE], ready[TUNED])
    return [
        Measure(name=name, value=median(ready[SERVICE]), unit="s", target=READY),
        Measure(name=f"{TUNED}, from start to ready", value=median(ready[TUNED]), unit="s"),
        Measure(name=f"{name} / {TUNED}'s", value=median(ratios), unit="×"),
    ]


def in_turn(
    arms: Mapping[str, Endpoint], queries: Queries, *, clients: int, seconds: float, rounds: int
) -> dict[str, list[Loaded]]:
    """A B C A B C …; in one round each arm is asked the same."""
    loaded: dict[str, list[Loaded]] = {name: [] for name in arms}
    for _ in range(rounds):
        texts = queries.take(int((seconds + WARM_UP_S) * MOST_A_SECOND))
        for name, endpoint in arms.items():
            loaded[name].append(endpoint.load(texts, clients=clients, warm_up_s=WARM_UP_S, seconds=seconds))
    return loaded


def _alone_measures(tools: int, written: str, loaded: Mapping[str, Sequence[Loaded]]) -> list[Measure]:
    name, ours = f"POST /v1/route, {tools} tools, 1 client, {written}", loaded[SERVICE]
    measures = [
        Measure(name=f"{name}, p50", value=_latency_ms(ours, 0.5), unit="ms", target=ALONE_P50),
        Measure(name=f"{name}, p99", value=_latency_ms(ours, 0.99), unit="ms", target=ALONE_P99),
    ]
    for arm in (BARE, TUNED):
        for share in (0.5, 0.99):
            value = _latency_ms(loaded[arm], share)
            measures.append(Measure(name=f"{arm}, 1 client, {written}, p{share * 100:g}", value=value, unit="ms"))
    return measures


def _crowd_measures(loaded: Mapping[str, Sequence[Loaded]]) -> list[Measure]:
    errors = sum(one.tally.errors for one in loaded[SERVICE])
    return [
        *_arm_measures(LOADED, loaded[SERVICE]),
        Measure(name=f"{LOADED}, errors", value=errors, target=NONE),
        *(each for arm in (BARE, TUNED) for each in _arm_measures(f"{arm}, {CROWD} clients", loaded[arm])),
        *_compared(loaded[SERVICE], BARE, loaded[BARE], p99=P99_RATIO),
        *_compared(loaded[SERVICE], TUNED, loaded[TUNED], p99=None),
    ]


def _arm_measures(name: str, loaded: Sequence[Loaded]) -> list[Measure]:
    return [
        Measure(name=name, value=_a_second(loaded), unit="requests/s"),
        Measure(name=f"{name}, p50", value=_latency_ms(loaded, 0.5), unit="ms"),
        Measure(name=f"{name}, p99", value=_latency_ms(loaded, 0.99), unit="ms"),
        Measure(name=f"{name}, processor time", value=_cpu_ms(loaded), unit="ms a request"),
    ]


def _compared(ours: Sequence[Loaded], arm: str, others: Sequence[Loaded], *, p99: Target | None) -> list[Measure]:
    pairs = list(zip(ours, others, strict=True))
    rates = median(one.tally.a_second / other.tally.a_second for one, other in pairs)
    slowest = median(_latency_ms([one], 0.99) / _latency_ms([other], 0.99) for one, other in pairs)
    return [
        Measure(name=f"{LOADED}, requests/s / {arm}'s", value=rates, unit="×", target=SHARE),
        Measure(name=f"{LOADED}, p99 / {arm}'s", value=slowest, unit="×", target=p99),
    ]


def _a_second(loaded: Sequence[Loaded]) -> float:
    return median(each.tally.a_second for each in loaded)


def _latency_ms(loaded: Sequence[Loaded], share: float) -> float:
    """Median of the rounds' percentiles."""
    return median(percentile(each.tally.latency_ms, share) for each in loaded)


def _cpu_ms(loaded: Sequence[Loaded]) -> float:
    return median(1000 * each.server_cpus / each.tally.a_second for each in loaded)


def _rounds_told(loaded: Mapping[str, Sequence[Loaded]]) -> dict[str, Any]:
    return {name: [told(each) for each in rounds] for name, rounds in loaded.items()}


def told(loaded: Loaded) -> dict[str, Any]:
    """One load, as records show it."""
    return {
        "requests_a_second": round(loaded.tally.a_second, 1),
        "p50_ms": round(percentile(loaded.tally.latency_ms, 0.5), 2),
        "p99_ms": round(percentile(loaded.tally.latency_ms, 0.99), 2),
        "errors": loaded.tally.errors,
        "server_processors": round(loaded.server_cpus, 2),
        "generator_processors": round(loaded.generator_cpus, 3),
    }
