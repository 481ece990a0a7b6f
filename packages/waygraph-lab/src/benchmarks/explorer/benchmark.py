"""The benchmark `explorer`: the pages over 5,000 tools in a cold browser, a moving map, and people during a sync."""

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import httpx2

from benchmarks.catalogue import all_agents, requests
from benchmarks.explorer.browser import browser_need
from benchmarks.explorer.pages import (
    KEY_MS,
    FirstPage,
    Frames,
    TypedAnswer,
    gzip_bytes,
    move,
    open_first_page,
    opened_page,
    type_requests,
)
from benchmarks.explorer.people import PEOPLE, VIEWS, Browsed, browse
from benchmarks.processes import TIMEOUT_S, free_port, plain_environ, run_server, waygraph_command
from benchmarks.record import Measure, Result, Target
from benchmarks.service.endpoints import fill_registry
from benchmarks.timing import percentile
from benchmarks.world import World, scratch_folder, with_cache

NAME = "explorer"
TOOLS, QUICK_TOOLS, SYNCED, QUICK_SYNCED = 5_000, 500, 1_000, 100
PAINT, ANSWER = Target(bound="at_most", value=1.0), Target(bound="at_most", value=1.5)
SIZE, MAP = Target(bound="at_most", value=60.0), Target(bound="at_most", value=10.0)
SHARE, SLOWEST = Target(bound="at_least", value=0.5), Target(bound="at_most", value=500.0)
NONE = Target(bound="at_most", value=0.0)
AFTER_LOAD, TYPED = Target(bound="at_most", value=150.0), Target(bound="at_most", value=50.0)
NOTES = (
    "`waygraph serve` as it comes, without keys, in a process of its own; Chromium, headless and without a graphics "
    "processor, on the same processors. Times are from the navigation on, in a browser that was just started; each "
    "round asks something new. Medians of the rounds.",
    "The first page: the document, scripts, styles and the icon; not the answer. The service sends them as they are; "
    "`gzip` is what a proxy that compresses would send.",
    f"Typed: a key each {KEY_MS} ms, in one browser. `answer` is from the request on, which is sent once nobody typed "
    "for 150 ms; `drawn` from the last key on, with that pause. Counted: requests, bytes, elements of the page.",
    "Movement: the map is moved by 12 pixels before every frame; in turn an empty canvas of its size is filled before "
    "every frame. Ratios are medians of the rounds' ratios.",
    f"People: {PEOPLE} connections; each waits .5 to 1.5 s, then asks for one view (of 20: "
    f"{', '.join(f'{count} {view}' for view, count in VIEWS.items())}). In each round first alone, then until "
    "`POST /v1/manifests` has taken in a source of which every text is new, and which is forgotten afterwards.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much is done."""

    tools: int
    synced: int
    pages: int
    moves: int
    move_s: float
    crowds: int
    crowd_s: float


WHOLE = Plan(tools=TOOLS, synced=SYNCED, pages=7, moves=5, move_s=2.0, crowds=3, crowd_s=15.0)
QUICK = Plan(tools=QUICK_TOOLS, synced=QUICK_SYNCED, pages=1, moves=1, move_s=0.5, crowds=1, crowd_s=2.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Crowd:
    """One round: people alone, people during a sync, and what the sync took."""

    alone: Browsed
    during: Browsed
    sync_s: float

    @property
    def ratio(self) -> float:
        return percentile(self.during.all_ms, 0.95) / percentile(self.alone.all_ms, 0.95)


def run(world: World) -> Result:
    if need := browser_need():
        return Result(name=NAME, skipped=need)
    plan = QUICK if world.quick else WHOLE
    with served_tools(world, plan.tools) as (url, embedder):
        measures, details = measure(url, plan)
    return Result(name=NAME, embedder=embedder, measures=measures, notes=NOTES, details=details)


@contextmanager
def served_tools(world: World, tools: int) -> Iterator[tuple[str, str]]:
    """The address of a service over an invented catalogue, and its embedder. Its vectors are kept nowhere else."""
    with scratch_folder() as folder:
        place, port = folder / "bench.grafeo", free_port()
        embedder = fill_registry(world, place, tools)
        command = waygraph_command("--registry", str(place), "serve", "--port", str(port))
        with run_server(command, port, _environ(world, folder), folder / "service.log"):
            yield f"http://127.0.0.1:{port}", embedder


def _environ(world: World, folder: Path) -> dict[str, str]:
    return plain_environ(world.environ) | {
        "WAYGRAPH_CACHE_DIR": with_cache(world.settings, folder / "cache").cache_dir,
        "WAYGRAPH_DATA_DIR": str(folder),
        "WAYGRAPH_RATE_PER_MINUTE": "0",
    }


def measure(url: str, plan: Plan) -> tuple[list[Measure], dict[str, Any]]:
    """Measures and the rounds that they come from."""
    map_s, again_s, map_bytes = _time_map(url)
    pages = [open_first_page(url, text) for text in requests(plan.pages)]
    typed = type_requests(url, requests(plan.pages + 1))
    files = pages[0].files
    map_ms, moves = _move_map(url, plan)
    _browse_for(url, plan.crowd_s / 5)  # not counted
    crowds = [_crowd(url, plan, number) for number in range(plan.crowds)]
    of = f"{plan.tools} tools"
    measures = [
        Measure(
            name=f"explorer, {of}: first paint",
            value=median(each.paint_ms for each in pages) / 1000,
            unit="s",
            target=PAINT,
        ),
        Measure(
            name=f"explorer, {of}: first answer drawn",
            value=median(each.answer_ms for each in pages) / 1000,
            unit="s",
            target=ANSWER,
        ),
        *_work_measures(f"explorer, {of}", pages, typed),
        Measure(name="explorer: the first page, gzip", value=gzip_bytes(list(files)) / 1000, unit="kB", target=SIZE),
        Measure(name="explorer: the first page, as sent", value=sum(files.values()) / 1000, unit="kB"),
        Measure(name=f"GET /v1/map, {of}: first of a revision", value=map_s, unit="s", target=MAP),
        Measure(name=f"GET /v1/map, {of}: again", value=again_s, unit="s"),
        Measure(name=f"GET /v1/map, {of}: the answer", value=map_bytes / 1000, unit="kB"),
        Measure(name=f"explorer, {of}: map drawn", value=map_ms / 1000, unit="s"),
        *_move_measures(f"explorer, {of}: map, moving", moves),
        *_crowd_measures(f"{PEOPLE} people, {of}", f"{plan.synced} tools", crowds),
    ]
    details = {
        "tools": plan.tools,
        "first_page": [{"paint_ms": round(each.paint_ms, 1), "answer_ms": round(each.answer_ms, 1)} for each in pages],
        "typed": [{name: round(value, 1) for name, value in asdict(each).items()} for each in typed],
        "files": {address.removeprefix(url): size for address, size in files.items()},
        "moves": [{name: _rounded(frames) for name, frames in each.items()} for each in moves],
        "people": [_crowd_json(each) for each in crowds],
    }
    return measures, details


def _work_measures(name: str, pages: Sequence[FirstPage], typed: Sequence[TypedAnswer]) -> list[Measure]:
    """Paint after the load and answers while somebody types: the work, and the time."""
    after_load = median(max(each.paint_ms - each.load_ms, 0.0) for each in pages)
    answer_ms, drawn_ms = (median(getattr(each, part) for each in typed) for part in ("answer_ms", "drawn_ms"))
    return [
        Measure(name=f"{name}: first paint after the load", value=after_load, unit="ms", target=AFTER_LOAD),
        Measure(name=f"{name}: first page, requests", value=median(each.requests for each in pages), unit=""),
        Measure(name=f"{name}: first page, elements", value=median(each.nodes for each in pages), unit=""),
        Measure(name=f"{name}: while typed, answer", value=answer_ms, unit="ms", target=TYPED),
        Measure(name=f"{name}: while typed, drawn", value=drawn_ms, unit="ms"),
        Measure(name=f"{name}: while typed, requests", value=max(each.requests for each in typed), unit=""),
        Measure(name=f"{name}: while typed, bytes", value=max(each.bytes for each in typed) / 1000, unit="kB"),
        Measure(name=f"{name}: while typed, elements", value=max(each.nodes for each in typed), unit=""),
    ]


def _time_map(url: str) -> tuple[float, float, int]:
    """Seconds of the first answer and of the next one, and its bytes."""
    with httpx2.Client(base_url=url, timeout=TIMEOUT_S) as client:
        seconds, size = [], 0
        for _ in range(2):
            start = time.perf_counter()
            size = len(client.get("/v1/map").raise_for_status().content)
            seconds.append(time.perf_counter() - start)
    return seconds[0], seconds[1], size


# -- the map in a browser -----------------------------------------------------------------------------


def _move_map(url: str, plan: Plan) -> tuple[float, list[dict[str, Frames]]]:
    """Milliseconds until it is drawn, median of cold browsers; frames of map and of an empty canvas, in turn."""
    drawn, moves = [], list[dict[str, Frames]]()
    for _ in range(plan.moves):
        with opened_page(f"{url}/explore/map", ".graph canvas") as (page, drawn_ms):
            drawn.append(drawn_ms)
            page.wait_for_timeout(500)
            move(page, 0.3, is_empty=False)  # the first movement draws what is moved
            page.wait_for_timeout(500)
            moves.append(
                {"map": move(page, plan.move_s, is_empty=False), "empty": move(page, plan.move_s, is_empty=True)}
            )
    return median(drawn), moves


def _move_measures(name: str, moves: Sequence[Mapping[str, Frames]]) -> list[Measure]:
    shares = [each["map"].a_second / each["empty"].a_second for each in moves]
    return [
        Measure(name=name, value=median(each["map"].a_second for each in moves), unit="frames/s"),
        Measure(name=f"{name}, longest frame", value=median(each["map"].worst_ms for each in moves), unit="ms"),
        Measure(
            name="an empty canvas, longest frame", value=median(each["empty"].worst_ms for each in moves), unit="ms"
        ),
        Measure(name=f"{name}, frames / an empty canvas's", value=median(shares), unit="×", target=SHARE),
    ]


def _rounded(frames: Frames) -> dict[str, float]:
    return {name: round(value, 1) for name, value in asdict(frames).items()}


# -- people -------------------------------------------------------------------------------------------


def _crowd(url: str, plan: Plan, number: int) -> Crowd:
    with httpx2.Client(base_url=url, timeout=3 * TIMEOUT_S) as client, ThreadPoolExecutor(1) as pool:
        alone = _browse_for(url, plan.crowd_s)
        syncing = pool.submit(_sync, client, plan.synced, number)
        during = browse(url, lambda: not syncing.done())
        sync_s = syncing.result()
        client.delete(f"/v1/sources/new-{number}").raise_for_status()
    return Crowd(alone=alone, during=during, sync_s=sync_s)


def _browse_for(url: str, seconds: float) -> Browsed:
    ends = time.perf_counter() + seconds
    return browse(url, lambda: time.perf_counter() < ends)


def _sync(client: httpx2.Client, tools: int, number: int) -> float:
    """Seconds that it takes to take in so many new tools."""
    agents = [{**each, "id": f"new-{each['id']}"} for each in all_agents(tools, seed=number + 1)]
    body = {"source": f"new-{number}", "manifest": {"waygraph": 1, "agents": agents}}
    start = time.perf_counter()
    answer = client.post("/v1/manifests", json=body).raise_for_status().json()
    if answer["problem"]:
        raise RuntimeError(f"the sync failed: {answer['problem']}")
    return time.perf_counter() - start


def _crowd_measures(people: str, synced: str, crowds: Sequence[Crowd]) -> list[Measure]:
    arms = {
        f"{people}": [each.alone for each in crowds],
        f"{people}, {synced} syncing": [each.during for each in crowds],
    }
    errors = sum(len(browsed.errors) for rounds in arms.values() for browsed in rounds)
    measures = []
    for name, rounds in arms.items():
        target = SLOWEST if "syncing" in name else None
        asked = [each.times_ms["route"] for each in rounds]
        measures += [
            Measure(name=f"{name}: a request, p50", value=median(percentile(each, 0.5) for each in asked), unit="ms"),
            Measure(
                name=f"{name}: a request, p95",
                value=median(percentile(each, 0.95) for each in asked),
                unit="ms",
                target=target,
            ),
            Measure(
                name=f"{name}: any view, p50", value=median(percentile(each.all_ms, 0.5) for each in rounds), unit="ms"
            ),
            Measure(
                name=f"{name}: any view, p95", value=median(percentile(each.all_ms, 0.95) for each in rounds), unit="ms"
            ),
        ]
    return [
        *measures,
        Measure(
            name=f"{people}: p95 of any view, syncing / not", value=median(each.ratio for each in crowds), unit="×"
        ),
        Measure(name=f"{people}: errors", value=errors, target=NONE),
        Measure(name=f"a sync of {synced} beside them", value=median(each.sync_s for each in crowds), unit="s"),
    ]


def _crowd_json(crowd: Crowd) -> dict[str, Any]:
    return {
        "sync_s": round(crowd.sync_s, 2),
        **{
            name: {
                "errors": browsed.errors[:5],
                **{
                    view: {
                        "answers": len(times),
                        **{f"p{share}_ms": round(percentile(times, share / 100), 1) for share in (50, 95, 100)},
                    }
                    for view, times in browsed.times_ms.items()
                    if times
                },
            }
            for name, browsed in (("alone", crowd.alone), ("syncing", crowd.during))
        },
    }
