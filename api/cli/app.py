"""The program `waygraph`: its commands, the options before them, and the edge where errors become exit codes."""

import os
import re
import sys
from collections.abc import Mapping, Sequence
from io import TextIOWrapper
from typing import Annotated, Any

import typer
from typer import Option

from waygraph.api.cli.options import LAB, CommandAfterDashes, Invocation, LazyCommand, LazyGroup
from waygraph.api.cli.render.output import (
    INTERRUPT,
    complain,
    flush,
    is_of_a_stream,
    leave_unwritten,
    note,
    open_closed_streams,
)
from waygraph.registry.model.errors import InvalidQuery, InvalidSetting, UnknownRecipe, WaygraphError, nearest
from waygraph.registry.model.process import forbid_inspection, uncollected_at_exit

_OTHERS = re.compile(
    "WAYGRAPH_(SERVICE_CHOSEN|(BENCH|INPUT|REQUIRE|TEST)_.*"  # of workers; of benchmarks, configurations and tests
    "|(.*_)?(SERVICE_HOST|PORT)(_.*)?)"  # as Kubernetes and Docker tell of a service whose name begins like ours
)
_PREFIX = "WAYGRAPH_"
LEAST_LIKENESS = 0.88
"""What is less like any setting may be somebody's own, or was a setting once."""


def misspelt(environ: Mapping[str, str]) -> str:
    """A notice of variables that are named like ours and set nothing; empty if there are none. It shows no values."""
    names = {name for name in environ if name.startswith("WAYGRAPH_") and not _OTHERS.fullmatch(name)}
    if not names:
        return ""
    # Only where something is set: help starts without it.
    from waygraph.registry.model.settings import VARIABLES

    variables = VARIABLES | {"WAYGRAPH_REGISTRY"}
    # What all begin with would make all alike.
    rest = {name.removeprefix(_PREFIX) for name in variables}
    near = {each: nearest(each.removeprefix(_PREFIX), rest, least=LEAST_LIKENESS) for each in names - variables}
    hints = {name: f"; did you mean {_PREFIX}{stems[0]}?" if stems else "" for name, stems in near.items()}
    return "; ".join(f"{name} is no setting{hints[name]}" for name in sorted(hints))


_COMMANDS = {
    "start": LazyCommand("start:start", "Take in the MCP servers of the hosts here, and connect the hosts."),
    "ingest": LazyCommand(
        "ingest:ingest", "Bring the registry to what files, addresses and servers say.", CommandAfterDashes
    ),
    "route": LazyCommand("route:route", "Find the agents that can do this, best first."),
    "find": LazyCommand("route:find", "Find the tools that can do this, best first, whoever owns them."),
    "call": LazyCommand("call:call", "Run a tool, by the rules that hold for hosts."),
    "agents": LazyCommand("route:agents", "List the agents."),
    "tools": LazyCommand("route:tools", "List the tools of all agents, or of one."),
    "show": LazyCommand("route:show_one", "Show all that is known of an agent or a tool."),
    "set": LazyCommand("operate:set_agent", "Pin, hide, tag or restrict an agent."),
    "set-tool": LazyCommand("operate:set_tool", "Rename, describe or hide a tool, change its texts and parameters."),
    "remove": LazyCommand("operate:remove", "Remove an agent, and keep it away whatever its source says."),
    "changes": LazyCommand("operate:changes", "List what came, and what sources changed of what was known."),
    "usage": LazyCommand("operate:usage", "Show calls, errors and latencies by tool."),
    "approve": LazyCommand("operate:approve", "Let what waits into routing; also accept flagged texts."),
    "reject": LazyCommand("operate:reject", "Keep what waits out of routing; also flagged texts."),
    "cypher": LazyCommand("cypher:cypher", "Ask the graph in Cypher."),
    "status": LazyCommand("route:status", "Say where the registry is and what it holds."),
    "export": LazyCommand("maintain:export", "Write the whole registry as JSON, GraphML or HTML."),
    "migrate": LazyCommand("maintain:migrate", "Copy a registry to another file or server, vectors included."),
    "reindex": LazyCommand("operate:reindex", "Embed everything anew, with another embedder or other texts."),
    "graph": LazyCommand("graph", "Make and remove edges between near tools.", package=LAB),
    "doctor": LazyCommand("maintain:doctor", "Check that the registry is well; exit 1 and advice if not."),
    "serve": LazyCommand("serve:serve", "Offer the registry over REST, and over MCP at /mcp."),
    "explore": LazyCommand("serve:explore", "See the registry in your browser, and why it answered."),
    "mcp": LazyCommand("serve:mcp", "Serve registry and tools over MCP to the host that starts it."),
    "watch": LazyCommand(
        "watch:watch", "Keep the registry in step with sources and running servers.", CommandAfterDashes
    ),
    "connect": LazyCommand("connect:connect", "Print or write the entry by which a host starts this gateway."),
    "sources": LazyCommand("operate:sources", "List the sources, or remove one."),
    "keys": LazyCommand("serve:keys", "Make, list and revoke the API keys of a service."),
    "logins": LazyCommand("logins:logins", "List, make and remove callers' own logins at servers."),
    "model": LazyCommand("maintain:model", "Get and list embedding models."),
    "eval": LazyCommand("eval", "Measure routing on a dataset: `waygraph eval DIR`.", package=LAB),
    "lint": LazyCommand("lint", "Measure how often each tool is found, and what to add to its text.", package=LAB),
    "generate": LazyCommand("generate", "Make data for evaluation and for training a router.", package=LAB),
    "taxonomy": LazyCommand("taxonomy:taxonomy", "Build and look at trees of categories."),
    "toolset": LazyCommand("toolset:toolset", "Make, list and remove named choices of tools and agents."),
    "learn": LazyCommand("maintain:learn", "Learn from data with known answers."),
}


class _Program(LazyGroup):
    lazy = _COMMANDS

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except typer.Abort as ending:  # of a question; the library would say "Aborted!" and end with 1
            if not isinstance(ending.__context__, KeyboardInterrupt):
                raise
            typer.echo(err=True)
            raise typer.Exit(INTERRUPT) from None


# Without rich typer starts three times as fast, and help is plain text wherever it is read.
app = typer.Typer(
    name="waygraph",
    cls=_Program,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(value: bool) -> None:
    if value:
        from importlib.metadata import version

        typer.echo(f"waygraph {version('waygraph')}")
        raise typer.Exit


_EMBEDDER_HELP = (
    "minilm, onnx:MODEL, openai:MODEL, sentence-transformers:MODEL or none. Default: WAYGRAPH_EMBEDDER, then the "
    "registry's own."
)
_REGISTRY_HELP = "A file, a server (neo4j://HOST) or a service (https://HOST). Default: a file in your data folder."


@app.callback()
def before_command(
    context: typer.Context,
    registry: Annotated[str, Option(metavar="PLACE", envvar="WAYGRAPH_REGISTRY", help=_REGISTRY_HELP)] = "",
    embedder: Annotated[str, Option(metavar="SPEC", help=_EMBEDDER_HELP)] = "",
    version: Annotated[  # noqa: ARG001 - its callback does the work
        bool, Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Keep agents and their tools as a graph, and find those that can do a task.

    --registry and --embedder may also stand behind the command.
    """
    note(misspelt(os.environ))
    context.obj = Invocation(location=registry, embedder=embedder)


def run() -> int:
    """The program, in a process of its own."""
    forbid_inspection()
    return main()


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command: 0 if all went well, 1 for an error of ours, 2 for wrong usage. Others keep their traceback."""
    _prepare_process()
    status = _status(arguments)
    flush()
    return status


def _status(arguments: Sequence[str] | None) -> int:
    try:
        app(arguments, prog_name="waygraph")
    except SystemExit as ending:
        if isinstance(ending.__context__, BrokenPipeError):  # the library that prints help ends with 1
            leave_unwritten(ending.__context__)
        return ending.code if isinstance(ending.code, int) else 0
    except OSError as error:
        if is_of_a_stream(error):  # help is printed by a library
            leave_unwritten(error)
        if not _is_nowhere():
            raise
        complain("the folder in which this was started is gone: change into one that is there")
        return 1
    except WaygraphError as error:
        complain(str(error))
        return 2 if isinstance(error, InvalidQuery | InvalidSetting | UnknownRecipe) else 1
    return 0


def _is_nowhere() -> bool:
    try:
        os.getcwd()
    except FileNotFoundError:
        return True
    return False


def _prepare_process() -> None:
    # One query is too small a sum to share: beside a busy neighbour the threads of BLAS wait for each other. The same
    # search took 8 ms instead of 2. Read by numpy when it is first imported, so set before any command runs.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    # Looking for pydantic's plugins reads what every installed package says of itself.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    uncollected_at_exit()
    open_closed_streams()
    for stream in (sys.stdout, sys.stderr):  # a terminal that is not UTF-8 gets an escape for what it cannot show
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


if __name__ == "__main__":
    sys.exit(run())
