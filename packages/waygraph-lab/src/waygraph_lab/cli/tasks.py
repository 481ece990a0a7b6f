"""`generate tasks`: tasks of public repositories as a dataset."""

from pathlib import Path
from typing import Annotated

import typer

from waygraph.api.cli.options import AsJson, invocation
from waygraph.api.cli.render.output import show
from waygraph.registry.model.errors import InvalidSetting


def tasks(
    context: typer.Context,
    checkout: Annotated[Path, typer.Argument(metavar="CHECKOUT", help="MCP-Universe or MCPMark, cloned.")],
    catalog: Annotated[
        str, typer.Argument(metavar="SOURCE", help="The agents to choose from: a dataset's folder, or as for `ingest`.")
    ],
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where the dataset is written; a folder of its own.")],
    *,
    server: Annotated[
        list[str] | None,
        typer.Option("--server", metavar="NAME=AGENT", help="The agent that stands for a server of another name."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write the tasks of a checkout of MCP-Universe or MCPMark as a dataset, for `eval`.

    waygraph generate tasks mcpmark livemcpbench/tools.json mark && waygraph eval mark

    A task is right when all its servers are found; its tools are not stated. left-out.jsonl says which tasks are
    left out and why, mcp.json how the servers are started, where that is stated.
    """
    from waygraph.registry.model import shapes
    from waygraph_lab.cli import views
    from waygraph_lab.datasets.conversations import CatalogueNames, read_catalogue
    from waygraph_lab.datasets.task_repositories import read_tasks, write_tasks

    named = dict(_pair(each) for each in server or ())
    known = CatalogueNames.of(read_catalogue(catalog, invocation(context).settings))
    show(write_tasks(folder, read_tasks(checkout), catalog, known, named), shapes.shape, views.numbers, as_json)


def _pair(text: str) -> tuple[str, str]:
    """Raises InvalidSetting."""
    name, equals, agent = text.partition("=")
    if not (name and equals and agent):
        raise InvalidSetting(f"--server {text!r}: expected NAME=AGENT")
    return name, agent
