"""`generate`: datasets for evaluation that are made here."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from waygraph.api.cli.options import AsJson
from waygraph.api.cli.quick import QuickCommand, QuickGroup
from waygraph.api.cli.shown.output import show

generate = typer.Typer(cls=QuickGroup, no_args_is_help=True, help="Make a dataset for `waygraph eval`.")


@generate.callback()
def _() -> None:
    """Make a dataset for `waygraph eval`."""


@generate.command(cls=QuickCommand)
def scalemcp(
    companies: Annotated[
        Path, typer.Argument(metavar="CSV", help="Your list of companies: company, ticker, sector; 15 or more.")
    ],
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where the dataset is written; a folder of its own.")],
    *,
    layout: Annotated[
        Literal["tools", "companies"], typer.Option(help="An agent for each tool, as in the paper, or each company.")
    ] = "tools",
    questions: Annotated[int, typer.Option(min=0, max=10, help="Synthetic questions of a tool, for embedding.")] = 10,
    instances: Annotated[int, typer.Option(min=1, help="Queries in all.")] = 140_000,
    daily_only: Annotated[
        bool, typer.Option("--daily-only", help="Write only the sample of 2,000, the split `daily`.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Another seed, other queries.")] = 20_250_509,
    as_json: AsJson = False,
) -> None:
    """Write ScaleMCP's benchmark: five financial tools a company, and queries over them.

    waygraph generate scalemcp fortune1000.csv scalemcp

    The same list and options give the same files. `waygraph eval DIR --split daily` asks the sample alone.
    """
    from waygraph.api.cli.shown import operating_views, shapes
    from waygraph.ingest.datasets.scalemcp.companies import read_companies
    from waygraph.ingest.datasets.scalemcp.generate import Choices
    from waygraph.ingest.datasets.scalemcp.generate import generate as write

    choices = Choices(layout=layout, questions=questions, seed=seed, instances=instances, daily_only=daily_only)
    show(write(folder, read_companies(companies), choices), shapes.generated, operating_views.generated, as_json)
