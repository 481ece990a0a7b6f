"""The benchmark `loop`."""

import hashlib
import json
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import version
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
from benchmarks.loop.doors import LIMIT, Door, GatewayDoor, ListDoor, Opening, Servers, Tally, offers_of, open_servers
from benchmarks.loop.minds import MAX_CALLS, MINDS, SYSTEM, Choice, Mind, ModelMind, ReActMind
from benchmarks.loop.servers import SERVERS
from benchmarks.loop.tasks import GIT_DATES, Place, Step, Task, is_left, read_tasks
from benchmarks.processes import free_port, run_server, waygraph_command
from benchmarks.record import IS_CLONE, NEEDS_CLONE, PROJECT, Measure, Result
from benchmarks.world import World, scratch_folder, write_catalogue
from waygraph.ingest.manifest.records import Manifest
from waygraph.ingest.sources.read import read_path
from waygraph.registry.access.api_keys import KeyFile
from waygraph.registry.catalog.tool_formats import definitions
from waygraph.registry.language_model.endpoint import ChatModel, configured_model
from waygraph.registry.model.errors import LanguageModelError
from waygraph_lab.evaluation.asking import Asking, Failures, estimate_text, key_of
from waygraph_lab.evaluation.compare import markdown_table
from waygraph_lab.evaluation.estimate import CALL_TOKENS, CostEstimate

NAME = "loop"
CONTEXT_TOKENS = 150_000
"""What a host can put before its model at most: beyond it a list of all tools does not fit."""
REAL = ("filesystem", "memory", "git", "time")
PUBLIC = "training/toucan"
"""Tools of real servers, known from a catalogue only: the distractors. Without it they are invented."""
ALL_TOOLS, BM25, NO_MEMORY, SHIPPED, ROUTER = "all tools", "BM25", "find_tools, no memory", "find_tools", "router"
GATEWAYS: Mapping[str, tuple[Sequence[str], Mapping[str, str]]] = {
    NO_MEMORY: ((), {"WAYGRAPH_ROUTE_HISTORY": "false"}),
    SHIPPED: ((), {}),
    ROUTER: (("--surface", "router"), {}),
}
"""Arm → the options and the environment of `waygraph serve`."""
SUMS = ("solved", "first", "wrong calls", "tokens a task")
ARMS = (ALL_TOOLS, BM25, *GATEWAYS)
NOTES = (
    "Twelve servers: four that others wrote, eight of our own with real state. A task is solved if the state that all "
    "servers are left in is the one that the right calls leave; services that only tell things must have told what was "
    "wanted. Before each task all state is as at first; each is a session of its own.",
    "A mind is offered tools for each step, calls one, and after an error asks again, three calls a step at most. The "
    "oracle calls the right tool if it is offered. The reader takes the first whose schema can hold the arguments, and "
    "leaves one that failed twice. The noisy one takes the first, second or third of these, with odds of .7, .2 and "
    ".1, the same in each run.",
    "Offered: of the steps that a tool serves and that were begun, how often it was offered; first: how often it came "
    "first. A wrong call is one of another tool than the right one, or than one that fits and is broken.",
    "Table 1 of ToolACE-MCP has these rows: `ReAct` over all tools is its ReAct; the model on the router's surface is "
    "its light routing agent; BM25 stands for its retrieval. The executor is the same in each.",
    "Tokens: all that a mind reads in a task: the list of all tools, or the gateway's list and instructions, then what "
    "is found, then results. BM25 finds 5 tools over names, descriptions and parameters, as hosts do it; the gateway "
    "as many as it does by default.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """What is measured at once. `every`: each such task."""

    distractors: int = 0
    arms: Sequence[str] = ARMS
    minds: Mapping[str, Mind] = field(default_factory=lambda: MINDS)
    every: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One task by one mind through one arm."""

    task: str
    kind: str
    is_solved: bool
    tally: Tally


def run(world: World) -> Result:
    """Raises InvalidSetting and LanguageModelError of a model as the mind."""
    counter = open_counter(world)
    rows: list[dict[str, Any]] = []
    with world.asking(NAME) if world.model else nullcontext(Asking()) as asking:
        for scale in scales(world):
            found = measure(world, counter, scale, asking=asking)
            rows += [row_of(scale, arm, mind, runs) for (arm, mind), runs in found.items() if runs]
    return Result(
        name=NAME,
        embedder=world.embedder().fingerprint,
        measures=[Measure(name=f"loop, {_title_of(row)}: {name}", value=row[name]) for row in rows for name in SUMS],
        notes=NOTES,
        details={"vocabulary": counter.vocabulary, "public distractors": world.has(PUBLIC), "rows": rows},
    )


def _title_of(row: Mapping[str, Any]) -> str:
    return f"{row['arm']}, {row['mind']}, {row['distractors']:,} other tools"


def scales(world: World) -> list[Scale]:
    """A model is asked at one scale: it costs money."""
    if world.model:
        models = [
            configured_model(spec, world.environ, option="--model", purpose="for the loop") for spec in world.models
        ]
        chats = {model: ChatModel.open(model, world.settings, world.environ) for model in models}
        minds: dict[str, Mind] = {
            **{model: ModelMind(chat) for model, chat in chats.items()},
            **{f"ReAct ({model})": ReActMind(chat) for model, chat in chats.items()},
        }
        return [Scale(distractors=50, minds=minds, every=6 if world.quick else 1)]
    if world.quick:
        return [Scale(distractors=50, every=6)]
    sure = {name: MINDS[name] for name in ("oracle", "reader")}
    return [Scale(distractors=50), Scale(distractors=500, minds=sure), Scale(distractors=5_000, minds=sure)]


def measure(
    world: World, counter: Counter, scale: Scale, names: Sequence[str] = (), asking: Asking | None = None
) -> dict[tuple[str, str], list[Run]]:
    """By arm and mind. `names`: only these tasks.

    So many parts of the tasks as `asking` says are worked on at once, each with servers of its own. With a task that
    failed, an arm has no runs. Raises QueryFailed after several failures in a row.
    """
    asking, failures = asking or Asking(), Failures()
    jobs = asking.at_once

    def measure_part(part: int) -> dict[tuple[str, str], list[Run | None]]:
        try:
            return anyio.run(_measure, world, counter, scale, _Part(names, part, jobs), asking, failures)
        except BaseExceptionGroup as group:
            raise _innermost(group) from None

    if jobs == 1:
        parts = [measure_part(0)]
    else:
        with ThreadPoolExecutor(jobs) as pool:
            parts = list(pool.map(measure_part, range(jobs)))
    whole = {key: [run for part in parts for run in part.get(key, ())] for key in parts[0]}
    return {key: [] if None in runs else [run for run in runs if run] for key, runs in whole.items()}


@dataclass(frozen=True, slots=True)
class _Part:
    """Every `of`-th task, from the `at`-th on, of those with these names; no names: of all."""

    names: Sequence[str]
    at: int
    of: int

    def choose(self, tasks: Sequence[Task]) -> list[Task]:
        return [task for task in tasks if not self.names or task.name in self.names][self.at :: self.of]


def _innermost(error: BaseException) -> BaseException:
    """Every connection of the SDK wraps what goes wrong within it once more."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


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


async def _measure(  # noqa: PLR0917 - as anyio.run hands them on
    world: World, counter: Counter, scale: Scale, part: _Part, asking: Asking, failures: Failures
) -> dict[tuple[str, str], list[Run | None]]:
    with ExitStack() as stack:
        folder = stack.enter_context(scratch_folder())
        host = stack.enter_context(open_host(world, list(distractors(world, folder, scale.distractors))))
        place = Place(folder / "state")
        place.begin()
        launches = dict(_launches(place))
        host.ingest("loop", launches)
        counter = replace(counter, count=_without_place(counter, place))
        tasks = part.choose([task for task in read_tasks(place) if _is_served(task, launches)][:: scale.every])
        log = stack.enter_context((folder / "servers.log").open("a", encoding="utf-8"))
        sessions = {name: Client(stdio_client(_parameters(each), errlog=log)) for name, each in launches.items()}
        runs: dict[tuple[str, str], list[Run | None]] = {}
        async with open_servers(sessions) as servers, _open_arms(host, servers, counter, scale.arms) as arms:
            with host.open_registry() as registry:
                catalogue = key_of(sorted((each.id, each.content_hash) for each in registry.tools()))
            wanted = {task.name: await _state_after(place, servers, task) for task in tasks}
            if part.at == 0 and asking.lines:
                _tell_estimate(host, counter, scale, tasks, list(arms), part.of)
            for arm, opening in arms.items():
                for name, mind in scale.minds.items():
                    print(f"loop: {scale.distractors} distractors, {arm}, {name}", file=sys.stderr)
                    trial = _Trial(place, opening, mind, f"{arm}, {name}, {scale.distractors} distractors", catalogue)
                    runs[arm, name] = [
                        await _kept_run(trial, task, wanted[task.name], asking, failures) for task in tasks
                    ]
        return runs


@dataclass(frozen=True, slots=True)
class _Trial:
    place: Place
    opening: Opening
    mind: Mind
    name: str
    catalogue: str
    """A digest of all tools that there are to find."""


async def _kept_run(
    trial: _Trial, task: Task, wanted: Mapping[str, Any], asking: Asking, failures: Failures
) -> Run | None:
    """None if a model failed; of an earlier run what is kept. Raises QueryFailed after several failures in a row."""
    if not isinstance(trial.mind, ModelMind | ReActMind):
        return await _run(trial.place, trial.opening, trial.mind, task, wanted)
    steps = [[step.say, step.tool, dict(step.arguments), step.broken] for step in task.steps]
    told = json.dumps(steps).replace(str(trial.place.folder), "/state")
    key = key_of(trial.name, trial.catalogue, trial.mind.model.key(), version("waygraph"), task.name, told)
    failures.refuse()
    if former := asking.former(key):
        tally = Tally(**former["tally"])
        return Run(task=task.name, kind=task.kind, is_solved=former["is_solved"], tally=tally)
    line = {"key": key, "of": trial.name, "id": task.name, "failure": ""}
    run = None
    try:
        run = await _run(trial.place, trial.opening, trial.mind, task, wanted)
        line |= {"is_solved": run.is_solved, "tally": asdict(run.tally)}
    except LanguageModelError as error:
        line["failure"] = str(error)
    asking.keep(line, failures)
    return run


def _tell_estimate(  # noqa: PLR0917 - what it depends on
    host: Host, counter: Counter, scale: Scale, tasks: Sequence[Task], arms: Sequence[str], parts: int
) -> None:
    """Of a model that calls once a step: each call shows what an arm offers at once."""
    with host.open_registry() as registry:
        lists = [counter.count(json.dumps(each)) for each in definitions(registry.tools(), "openai")]
    offered = {arm: sum(lists) if arm == ALL_TOOLS else LIMIT * sum(lists) // max(1, len(lists)) for arm in arms}
    steps = parts * sum(len(task.steps) for task in tasks)
    texts = parts * sum(counter.count(f"{SYSTEM} {step.say}") for task in tasks for step in task.steps)
    estimates = [
        CostEstimate(
            name=f"{arm}, {mind}",
            by="",
            queries=parts * len(tasks),
            kept=0,
            calls=steps,
            most_calls=steps * MAX_CALLS,
            prompt_tokens=texts + steps * tokens,
            completion_tokens=steps * CALL_TOKENS,
        )
        for arm, tokens in offered.items()
        for mind in scale.minds
    ]
    print(f"{NAME}: {estimate_text(estimates)}", file=sys.stderr)


def _without_place(counter: Counter, place: Place) -> Callable[[str], int]:
    """The folder has another name in each run."""
    return lambda text: counter.count(text.replace(str(place.folder), "/state"))


def distractors(world: World, folder: Path, count: int) -> Iterator[Manifest]:
    """Whole agents in an order of no meaning, until there are so many tools."""
    if not count:
        return
    if not world.has(PUBLIC):
        yield from read_path(str(write_catalogue(folder, count)), world.settings)
        return
    catalogue = world.dataset(PUBLIC).catalogue
    others = [entry for entry in catalogue.entries if entry.agent.name.casefold() not in {*SERVERS, *REAL}]
    entries = []
    for entry in sorted(others, key=lambda entry: hashlib.sha256(entry.agent.id.encode()).digest()):
        if count > 0:
            entries.append(entry)
            count -= len(entry.tools)
    yield replace(catalogue, entries=tuple(entries))


def _launches(place: Place) -> Iterator[tuple[str, dict[str, Any]]]:
    """Server → how it is started. Those of others that cannot be installed here are left out."""
    for name in SERVERS:
        arguments = ["-m", "benchmarks.loop.servers", name, str(place.folder)]
        yield name, {"command": sys.executable, "args": arguments, "cwd": str(PROJECT)}
    for name in REAL:
        try:
            launch = _real_launch(name, place)
        except NotLaunched as error:
            print(f"loop: without the server {name} and its tasks: {error}", file=sys.stderr)
            continue
        yield name, {"cwd": str(PROJECT), **launch}


class NotLaunched(Exception):
    """A server of others cannot be had here; says why in one line."""


def _real_launch(name: str, place: Place) -> dict[str, Any]:
    """The pins of these servers are the repository's. Raises NotLaunched."""
    if not IS_CLONE:
        raise NotLaunched(NEEDS_CLONE)
    from tests.environments import NotInstalled
    from tests.live_servers import find_server

    try:
        server = find_server(name, place.files if name == "filesystem" else place.folder)
    except NotInstalled as error:
        raise NotLaunched(str(error)) from error
    environ = {**server.env, **(GIT_DATES if name == "git" else {})}
    return {"command": server.command, "args": list(server.args), "env": environ}


def _parameters(launch: Mapping[str, Any]) -> StdioServerParameters:
    return StdioServerParameters(
        command=launch["command"], args=launch["args"], env=launch.get("env"), cwd=launch["cwd"]
    )


def _is_served(task: Task, servers: Mapping[str, object]) -> bool:
    return all(not step.tool or step.tool.partition("__")[0] in servers for step in task.steps)


async def _state_after(place: Place, servers: Servers, task: Task) -> dict[str, Any]:
    """What the right calls leave, made directly; one that fails is made again."""
    place.begin()
    for step in task.steps:
        if step.tool:
            choice = await _right_choice(servers, step)
            ok, text = await servers.call(choice)
            if not ok:
                ok, text = await servers.call(choice)
            assert ok, f"{task.name}: {step.tool} said {text}"
    return place.state()


async def _right_choice(servers: Servers, step: Step) -> Choice:
    agent, _, tool = step.tool.partition("__")
    listed = (await servers.clients[agent].list_tools()).tools
    properties = next(each.input_schema for each in listed if each.name == tool)["properties"]
    arguments = step.arguments.items()
    named = {next(each for each in names.split("|") if each in properties): value for names, value in arguments}
    return Choice(step.tool, named)


async def _run(place: Place, opening: Opening, mind: Mind, task: Task, wanted: Mapping[str, Any]) -> Run:
    place.begin()
    tally = Tally()
    async with opening() as door:
        for step in task.steps:
            await _take(door, mind, step, tally)
    return Run(task=task.name, kind=task.kind, is_solved=is_left(place.state(), wanted), tally=tally)


async def _take(door: Door, mind: Mind, step: Step, tally: Tally) -> None:
    failures: list[str] = []
    for tries in range(MAX_CALLS):
        offers = await door.offer(step.say, tally)
        if step.tool and not tries:
            names = [offer.name for offer in offers]
            tally.steps += 1
            tally.offered += step.tool in names
            tally.first += names[:1] == [step.tool]
        choice = await anyio.to_thread.run_sync(mind.choose, step, offers, failures)
        if choice is None:
            return
        tally.calls += 1
        tally.wrong_calls += choice.name not in (step.tool, step.broken)
        if await door.call(choice, tally):
            return
        failures.append(choice.name)


@asynccontextmanager
async def _open_arms(
    host: Host, servers: Servers, counter: Counter, names: Sequence[str]
) -> AsyncIterator[dict[str, Opening]]:
    """Those of `names` that there are: a list of all tools must fit."""
    with host.open_registry() as registry:
        tools = registry.tools()
        offers = {offer.name: offer for offer in offers_of(tools)}
        tokens = counter.count(json.dumps(definitions(tools, "mcp")))
        whole = ListDoor(servers, counter, everything=list(offers.values()), tokens=tokens)
        arms = {ALL_TOOLS: _reopened(whole)} if tokens <= CONTEXT_TOKENS else {}
        arms[BM25] = _reopened(ListDoor(servers, counter, registry=registry))
        async with AsyncExitStack() as stack:
            for arm in names:
                if arm in GATEWAYS:
                    arms[arm] = stack.enter_context(_gateway(host, counter, arm, offers))
            yield {arm: opening for arm, opening in arms.items() if arm in names}


def _reopened(door: Door) -> Opening:
    """A host that keeps nothing from one task to the next."""

    @asynccontextmanager
    async def opening() -> AsyncIterator[Door]:
        yield door

    return opening


@contextmanager
def _gateway(host: Host, counter: Counter, arm: str, offers: Mapping[str, Any]) -> Iterator[Opening]:
    """A service; each task is a session of its own with it, as the handshake's era has sessions."""
    options, environ = GATEWAYS[arm]
    _, key = KeyFile(host.folder / "keys.json").create(arm, SCOPES, everything=True)
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
            yield GatewayDoor(client, counter, offers, await _listed_tokens(client, counter), arm == ROUTER)

    with run_server(command, port, {**host.environ(), **environ}, host.folder / "service.log"):
        yield opening


async def _listed_tokens(client: Client, counter: Counter) -> int:
    tools = [
        tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in (await client.list_tools()).tools
    ]
    return counter.count(json.dumps(tools)) + counter.count(client.instructions or "")


def row_of(scale: Scale, arm: str, mind: str, runs: Sequence[Run]) -> dict[str, Any]:
    kinds = dict.fromkeys(run.kind for run in runs)
    sums = {name: sum(asdict(run.tally)[name] for run in runs) for name in asdict(Tally())}
    return {
        "distractors": scale.distractors,
        "arm": arm,
        "mind": mind,
        "tasks": len(runs),
        "solved": round(fmean(run.is_solved for run in runs), 3),
        "offered": round(sums["offered"] / max(sums["steps"], 1), 3),
        "first": round(sums["first"] / max(sums["steps"], 1), 3),
        "calls": sums["calls"],
        "wrong calls": sums["wrong_calls"],
        "tokens a task": round(sums["tokens"] / len(runs)),
        "by kind": {kind: round(fmean(run.is_solved for run in runs if run.kind == kind), 2) for kind in kinds},
    }
