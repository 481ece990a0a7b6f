"""The benchmark `loop`."""

import json
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import anyio
import httpx2
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from benchmarks.gateway.host import SCOPES, TIMEOUT_CLIENT_S, Host, open_host
from benchmarks.gateway.tokens import Counter, open_counter
from benchmarks.loop.doors import Door, GatewayDoor, ListDoor, Opening, Servers, Tally, open_servers
from benchmarks.loop.minds import MAX_CALLS, MINDS, Choice, Mind
from benchmarks.loop.servers import SERVERS
from benchmarks.loop.tasks import Place, Task, is_left, read_tasks
from benchmarks.processes import free_port, run_server, waygraph_command
from benchmarks.record import PROJECT, Measure, Result
from benchmarks.world import World, scratch_folder, write_catalogue
from tests.live_servers import real_server
from waygraph.ingest.sources.read import read_path
from waygraph.registry.access.api_keys import KeyFile
from waygraph.registry.catalog.tool_formats import definitions
from waygraph_lab.evaluation.compare import markdown_table

NAME = "loop"
DISTRACTORS = (0, 50, 500, 5_000)
CONTEXT_TOKENS = 150_000
"""What a host can put before its model at most: beyond it a list of all tools does not fit."""
REAL = ("filesystem", "memory", "git", "time")
NO_MEMORY = {"WAYGRAPH_ROUTE_HISTORY": "false"}
ARMS = ("all tools", "BM25", "find_tools, no memory", "find_tools", "router")
NOTES = (
    "Twelve servers: four that others wrote, eight of our own with real state. A task is solved if the state that all "
    "servers are left in is the one that the right calls leave; services that only tell things must have told what was "
    "wanted. Before each task all state is as at first; each is a session of its own.",
    "A mind is offered tools for each step, calls one, and after an error asks again, three calls a step at most. The "
    "oracle calls the right tool if it is offered. The reader takes the first whose schema can hold the arguments. The "
    "noisy one takes the first, second or third of these, with odds of .7, .2 and .1, the same in each run.",
    "Tokens: all that a mind reads of tools and results in a task; the gateway's own list and instructions are not "
    "counted, a list of all tools is. BM25 finds 5 tools over names, descriptions and parameters, as hosts do it.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One task by one mind through one arm."""

    task: str
    kind: str
    is_solved: bool
    calls: int
    wrong_calls: int
    tokens: int


def run(world: World) -> Result:
    counter = open_counter(world)
    rows: list[dict[str, Any]] = []
    for distractors in DISTRACTORS[:2] if world.quick else DISTRACTORS:
        rows += anyio.run(_measure, world, counter, distractors)
    return Result(
        name=NAME,
        embedder=world.embedder().fingerprint,
        measures=[
            Measure(
                name=f"{row['arm']}, {row['mind']}, {row['distractors']:,} distractors: solved", value=row["solved"]
            )
            for row in rows
        ],
        notes=NOTES,
        details={"vocabulary": counter.vocabulary, "rows": rows},
    )


def tables_of(details: Mapping[str, Any]) -> str:
    plain = [{name: value for name, value in row.items() if name != "by kind"} for row in details["rows"]]
    whole = markdown_table(tuple(plain[0]), [tuple(row.values()) for row in plain])
    kinds = tuple(details["rows"][0]["by kind"])
    heads = ("distractors", "arm", "mind", *kinds)
    parts = [
        (row["distractors"], row["arm"], row["mind"], *(row["by kind"][kind] for kind in kinds))
        for row in details["rows"]
    ]
    return f"{whole}\n\nSolved, by the kind of task:\n\n{markdown_table(heads, parts)}"


async def _measure(world: World, counter: Counter, distractors: int) -> list[dict[str, Any]]:
    with ExitStack() as stack:
        folder = stack.enter_context(scratch_folder())
        host = stack.enter_context(_filled(world, folder, distractors))
        place = Place(folder / "state")
        place.folder.mkdir()
        place.begin()
        launches = _launches(place)
        host.ingest("loop", launches)
        tasks = read_tasks(place)[:: 6 if world.quick else 1]
        rows: list[dict[str, Any]] = []
        log = stack.enter_context((folder / "servers.log").open("a", encoding="utf-8"))
        sessions = {name: Client(stdio_client(_parameters(each), errlog=log)) for name, each in launches.items()}
        async with open_servers(sessions) as servers:
            wanted = {task.name: await _state_after(place, servers, task) for task in tasks}
            async with _arms(host, servers, counter) as arms:
                for arm, opening in arms.items():
                    for name, mind in MINDS.items():
                        print(f"loop: {distractors} distractors, {arm}, {name}", file=sys.stderr)
                        runs = [await _run(place, opening, mind, task, wanted[task.name]) for task in tasks]
                        rows.append(_row(distractors, arm, name, runs))
        return rows


@contextmanager
def _filled(world: World, folder: Path, distractors: int) -> Iterator[Host]:
    manifests = read_path(str(write_catalogue(folder, distractors)), world.settings) if distractors else []
    with open_host(world, manifests) as host:
        yield host


def _launches(place: Place) -> dict[str, dict[str, Any]]:
    own: dict[str, dict[str, Any]] = {
        name: {"command": sys.executable, "args": ["-m", "benchmarks.loop.servers", name, str(place.folder)]}
        for name in SERVERS
    }
    for name in REAL:
        server = real_server(name, place.files if name == "filesystem" else place.folder)
        own[name] = {"command": server.command, "args": list(server.args), "env": dict(server.env)}
    return {name: {"cwd": str(PROJECT), **launch} for name, launch in own.items()}


def _parameters(launch: Mapping[str, Any]) -> StdioServerParameters:
    return StdioServerParameters(
        command=launch["command"], args=launch["args"], env=launch.get("env"), cwd=launch["cwd"]
    )


async def _state_after(place: Place, servers: Servers, task: Task) -> dict[str, Any]:
    """What the right calls leave, made directly; one that fails is made again."""
    place.begin()
    for step in task.steps:
        if step.tool:
            choice = await _right_choice(servers, step.tool, step.arguments)
            ok, text = await servers.call(choice)
            if not ok:
                ok, text = await servers.call(choice)
            assert ok, f"{task.name}: {step.tool} said {text}"
    return place.state()


async def _right_choice(servers: Servers, name: str, arguments: Mapping[str, Any]) -> Choice:
    agent, _, tool = name.partition("__")
    listed = (await servers.clients[agent].list_tools()).tools
    properties = next(each.input_schema for each in listed if each.name == tool)["properties"]
    return Choice(
        name,
        {next(each for each in names.split("|") if each in properties): value for names, value in arguments.items()},
    )


async def _run(place: Place, opening: Opening, mind: Mind, task: Task, wanted: Mapping[str, Any]) -> Run:
    place.begin()
    tally = Tally()
    async with opening() as door:
        for step in task.steps:
            await _take(door, mind, step, tally)
    return Run(task=task.name, kind=task.kind, is_solved=is_left(place.state(), wanted), **asdict(tally))


async def _take(door: Door, mind: Mind, step: Any, tally: Tally) -> None:
    for tries in range(MAX_CALLS):
        choice = mind.choose(step, await door.offer(step.say, tally), tries)
        if choice is None:
            return
        tally.calls += 1
        tally.wrong_calls += choice.name != step.tool
        if await door.call(choice, tally):
            return


@asynccontextmanager
async def _arms(host: Host, servers: Servers, counter: Counter) -> AsyncIterator[dict[str, Opening]]:
    with host.open_registry() as registry:
        async with AsyncExitStack() as stack:
            everything = definitions(registry.tools(), "mcp")
            arms: dict[str, Opening] = {}
            if counter.count(json.dumps(everything)) <= CONTEXT_TOKENS:
                arms[ARMS[0]] = lambda: _as_context(ListDoor(servers, counter, registry, everything))
            arms[ARMS[1]] = lambda: _as_context(ListDoor(servers, counter, registry, None))
            for arm, options, environ in (
                (ARMS[2], (), NO_MEMORY),
                (ARMS[3], (), {}),
                (ARMS[4], ("--surface", "router"), {}),
            ):
                arms[arm] = stack.enter_context(_gateway(host, counter, options, environ))
            yield arms


@asynccontextmanager
async def _as_context(door: Door) -> AsyncIterator[Door]:
    yield door


@contextmanager
def _gateway(host: Host, counter: Counter, options: Sequence[str], environ: Mapping[str, str]) -> Iterator[Opening]:
    """A service; each task is a session of its own with it, as the handshake's era has sessions."""
    _, key = KeyFile(host.folder / "keys.json").create(f"loop {len(options)} {len(environ)}", SCOPES, everything=True)
    port = free_port()
    command = waygraph_command("--registry", str(host.registry), "serve", "--port", str(port), *options)

    @asynccontextmanager
    async def opening() -> AsyncIterator[Door]:
        headers = {"Authorization": f"Bearer {key}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=TIMEOUT_CLIENT_S, verify=False) as http,
            Client(
                streamable_http_client(f"http://127.0.0.1:{port}/mcp", http_client=http),
                read_timeout_seconds=TIMEOUT_CLIENT_S,
                mode="legacy",
            ) as client,
        ):
            yield GatewayDoor(client, counter, is_router=bool(options))

    with run_server(command, port, {**host.environ(), **environ}, host.folder / "service.log"):
        yield opening


def _row(distractors: int, arm: str, mind: str, runs: Sequence[Run]) -> dict[str, Any]:
    kinds = dict.fromkeys(run.kind for run in runs)
    return {
        "distractors": distractors,
        "arm": arm,
        "mind": mind,
        "tasks": len(runs),
        "solved": round(fmean(run.is_solved for run in runs), 3),
        "calls": sum(run.calls for run in runs),
        "wrong calls": sum(run.wrong_calls for run in runs),
        "tokens a task": round(fmean(run.tokens for run in runs)),
        "by kind": {kind: round(fmean(run.is_solved for run in runs if run.kind == kind), 2) for kind in kinds},
    }
