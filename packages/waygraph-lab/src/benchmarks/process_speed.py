"""Whole processes: `waygraph route` beside a process that only loads the model, the start of a gateway, and memory."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

from benchmarks.catalogue import requests
from benchmarks.processes import (
    Completed,
    plain_environ,
    processor_s,
    run_answerer,
    run_in_turn,
    waygraph_command,
)
from benchmarks.record import Measure, Result, Target
from benchmarks.route_ratio import route_process
from benchmarks.world import World
from waygraph.registry.embedding.onnx import build_key
from waygraph.registry.embedding.weights import GRAPH, TOKENIZER, locate, model_sha256, read_card
from waygraph.registry.model.settings import DEFAULT_EMBEDDER, Settings

NAME, MEMORY = "process_speed", "memory"
TOOLS, QUICK_TOOLS, ROUNDS, QUICK_ROUNDS, ROUTES = 5_000, 500, 15, 5, 200
REQUEST = "book a table for four on Friday and tell the team"
WHOLE, MEMORY_LIMIT = Target(bound="at_most", value=0.7), Target(bound="at_most", value=350)
ROUTE_CPU, INTRODUCTION_CPU = Target(bound="at_most", value=0.3), Target(bound="at_most", value=0.5)
LOAD_MODEL = """
import sys
import numpy, onnxruntime
from tokenizers import Tokenizer
graph, tokenizer = sys.argv[1:]
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = options.inter_op_num_threads = 1
options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
Tokenizer.from_file(tokenizer)
"""
"""With the session options of Waygraph's own embedder."""
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}},
}
COMMAND, BARE = "`waygraph route`", "the bare process"
NOTES = (
    "Wall-clock time from start to end of a process whose output goes to a pipe; medians; one run of each is not "
    "counted. The processes run in turn.",
    "bare: a Python process that imports numpy, onnxruntime and tokenizers and loads the model.",
    "Processor time: of a route from start to end; of `waygraph mcp` until its host has the answer of `initialize`.",
)
MEMORY_NOTES = (
    "VmRSS of /proc/self/status after 200 distinct routes, all else that the process imports included. It counts the "
    "pages of mapped files (model, words, libraries), which processes share: RssFile; RssAnon is the process's own.",
)


def run(world: World) -> Result:
    tools, rounds = (QUICK_TOOLS, QUICK_ROUNDS) if world.quick else (TOOLS, ROUNDS)
    with world.registry_of_tools(tools) as registry:
        place, environ = ("--registry", registry.status().location), plain_environ(world.environ)
        commands = {
            COMMAND: waygraph_command(*place, "route", REQUEST),
            BARE: [sys.executable, "-c", LOAD_MODEL, *model_files(world.settings)],
        }
        runs = run_in_turn(commands, rounds, environ)
        gateway = waygraph_command(*place, "mcp")
        introductions = [introduction_cpu_s(gateway, environ) for _ in range(rounds)]
        embedder = registry.status().state.embedder
    return Result(
        name=NAME,
        embedder=embedder,
        measures=_measures(tools, runs, introductions),
        notes=NOTES,
        details={"runs": rounds},
    )


def run_memory(world: World) -> Result:
    """Resident memory of a process after 200 routes."""
    tools = QUICK_TOOLS if world.quick else TOOLS
    with world.registry_of_tools(tools) as registry:
        state = registry.status()
        with route_process(state.location, plain_environ(world.environ)) as process:
            mib = process.ask(requests(ROUTES))["mib"]
    name = f"process after {ROUTES} routes over {tools} tools"
    return Result(
        name=MEMORY,
        embedder=state.state.embedder,
        measures=[
            Measure(name=f"{name}, resident memory", value=mib["VmRSS"], unit="MiB", target=MEMORY_LIMIT),
            Measure(name=f"{name}, peak", value=mib["VmHWM"], unit="MiB"),
            Measure(name=f"{name}, of its own (RssAnon)", value=mib["RssAnon"], unit="MiB"),
        ],
        notes=MEMORY_NOTES,
        details={"process": mib},
    )


def model_files(settings: Settings) -> tuple[str, str]:
    """The built graph and the tokenizer of the default model, as the embedder itself loads them."""
    folder = locate(DEFAULT_EMBEDDER, settings)
    key = build_key(model_sha256(folder, settings), read_card(folder).shape, "int8")
    graph: Path = settings.cache_path / "models" / "built" / key / GRAPH
    return str(graph), str(folder / TOKENIZER)


def introduction_cpu_s(command: Sequence[str], environ: Mapping[str, str]) -> float:
    """Processor time of a gateway from its start until its host has the answer of `initialize`."""
    with run_answerer(command, environ) as gateway:
        gateway.ask(INITIALIZE)
        return processor_s(gateway.pid)


def _measures(tools: int, runs: Mapping[str, Sequence[Completed]], introductions: Sequence[float]) -> list[Measure]:
    seconds = {name: median(completed.seconds for completed in done) for name, done in runs.items()}
    name = f"{COMMAND}, {tools} tools"
    cpu_s = median(completed.cpu_s for completed in runs[COMMAND])
    return [
        Measure(name=name, value=seconds[COMMAND], unit="s", target=WHOLE),
        Measure(name=BARE, value=seconds[BARE], unit="s"),
        Measure(name=f"{name} / {BARE}", value=seconds[COMMAND] / seconds[BARE], unit="×"),
        Measure(name=f"{name}, processor", value=cpu_s, unit="s", target=ROUTE_CPU),
        Measure(
            name=f"`waygraph mcp` until `initialize` is answered, {tools} tools, processor",
            value=median(introductions),
            unit="s",
            target=INTRODUCTION_CPU,
        ),
    ]
