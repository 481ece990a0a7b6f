"""`waygraph route` as a whole process, beside the least that a process with this model must do; and `--help`."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

from benchmarks.processes import Ended, ProcessFailed, in_turn, run_process, waygraph_command
from benchmarks.record import PROJECT, Measure, Result, Target
from benchmarks.world import World
from waygraph.registry.embedding.onnx import GRAPH, build_key
from waygraph.registry.embedding.weights import TOKENIZER, locate, read_card, weights_sha256
from waygraph.registry.model.settings import DEFAULT_EMBEDDER, Settings

NAME = "process_speed"
TOOLS, QUICK_TOOLS, ROUNDS, QUICK_ROUNDS = 5_000, 500, 15, 5
REQUEST = "book a table for four on Friday and tell the team"
WHOLE = Target(bound="at_most", value=0.7)
TO_BARE = Target(bound="at_most", value=1.5)
TO_SMALL = Target(bound="at_most", value=1.3)
TWO_COMMANDS = """
import typer
app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)
@app.command()
def one(name: str) -> None: ...
@app.command()
def two(name: str) -> None: ...
app()
"""
NAMED = {"command": "`waygraph route`", "library": "a Python process that routes once", "bare": "the bare process"}
NOTES = (
    "Wall-clock time from start to end of a process whose output goes to a pipe; medians; one run of each is not "
    "counted. The processes run in turn: command, library, bare.",
    "bare: benchmarks/bare_process.py, imports numpy, onnxruntime and tokenizers and loads the model. "
    "library: Python with waygraph.registry alone, opens the registry and routes once.",
)


def run(world: World) -> Result:
    tools, rounds = (QUICK_TOOLS, QUICK_ROUNDS) if world.quick else (TOOLS, ROUNDS)
    embedder = world.embedder().fingerprint
    with world.registry_of_tools(tools) as registry:
        place = registry.status().location
        commands = {
            "command": waygraph_command("--registry", place, "route", REQUEST),
            "library": [sys.executable, "-m", "benchmarks.route_process", place, "1"],
            "bare": [sys.executable, str(PROJECT / "benchmarks" / "bare_process.py"), *model_files(world.settings)],
        }
        notes: tuple[str, ...] = NOTES
        try:
            run_process(commands["command"], world)
        except (ProcessFailed, FileNotFoundError) as failed:
            notes = (*NOTES, f"The command was not measured: {failed}")
            del commands["command"]
        runs = in_turn(commands, rounds, world)
    measures = [*_measures(tools, runs), *_help_measures(world, rounds)]
    return Result(name=NAME, embedder=embedder, measures=measures, notes=notes, details={"runs": rounds})


def model_files(settings: Settings) -> tuple[str, str]:
    """The built graph and the tokenizer of the default model, as the embedder itself loads them."""
    folder = locate(DEFAULT_EMBEDDER, settings)
    key = build_key(weights_sha256(folder, settings), read_card(folder).shape, "int8")
    graph: Path = settings.cache_path / "models" / "built" / key / GRAPH
    return str(graph), str(folder / TOKENIZER)


def _help_measures(world: World, rounds: int) -> list[Measure]:
    """`waygraph --help`, in the same Python, beside the help of a program of two commands."""
    ours = [sys.executable, "-c", "from waygraph.api.cli.app import main; main()", "--help"]
    runs = in_turn({"ours": ours, "small": [sys.executable, "-c", TWO_COMMANDS, "--help"]}, rounds, world)
    seconds = {arm: median(ended.seconds for ended in ends) for arm, ends in runs.items()}
    ratio = seconds["ours"] / seconds["small"]
    return [
        Measure(name="`waygraph --help`", value=seconds["ours"], unit="s"),
        Measure(name="`waygraph --help` / a typer program of two commands", value=ratio, unit="×", target=TO_SMALL),
    ]


def _measures(tools: int, runs: Mapping[str, Sequence[Ended]]) -> list[Measure]:
    bare = NAMED["bare"]
    seconds = {arm: median(ended.seconds for ended in ends) for arm, ends in runs.items()}
    cpu_s = {arm: median(ended.cpu_s for ended in ends) for arm, ends in runs.items()}
    measures = []
    for arm, value in seconds.items():
        name = NAMED[arm] if arm == "bare" else f"{NAMED[arm]}, {tools} tools"
        whole, ratio = (WHOLE, TO_BARE) if arm == "command" else (None, None)
        measures.append(Measure(name=name, value=value, unit="s", target=whole))
        measures.append(Measure(name=f"{name}, processor time", value=cpu_s[arm], unit="s"))
        if arm != "bare":
            measures.append(Measure(name=f"{name} / {bare}", value=value / seconds["bare"], unit="×", target=ratio))
            to_bare = cpu_s[arm] / cpu_s["bare"]
            measures.append(Measure(name=f"{name} / {bare}, processor time", value=to_bare, unit="×"))
    return measures
