"""`generate`: datasets that are made here, for evaluation and for training a router."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from waygraph.api.cli.options import AsJson, Invocation, invocation
from waygraph.api.cli.render.output import flush, note, show
from waygraph_lab.cli.tasks import tasks

if TYPE_CHECKING:
    from waygraph.ingest.manifest.records import Manifest
    from waygraph.registry.model.settings import Settings
    from waygraph_lab.scalemcp.companies import Company, Layout
    from waygraph_lab.synthesis.orders import Order

generate = typer.Typer(no_args_is_help=True, help="Make data for evaluation and for training a router.")


@generate.callback()
def _() -> None:
    """Make data for evaluation and for training a router."""


generate.command()(tasks)


@generate.command()
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
    serve: Annotated[
        bool, typer.Option("--serve", help="Then serve the agents as MCP servers over HTTP, until Ctrl-C.")
    ] = False,
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Where --serve listens; 0: any free port.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Write ScaleMCP's benchmark: five financial tools a company, and queries over them.

    waygraph generate scalemcp fortune1000.csv scalemcp

    The same list and options give the same files. `waygraph eval DIR --split daily` asks the sample alone.
    --serve listens on 127.0.0.1, returns invented figures, and writes DIR/mcp.json for `waygraph ingest`.
    """
    from waygraph_lab.cli import shapes, views
    from waygraph_lab.scalemcp.companies import read_companies
    from waygraph_lab.scalemcp.generate import Choices
    from waygraph_lab.scalemcp.generate import generate as write

    choices = Choices(layout=layout, questions=questions, seed=seed, instances=instances, daily_only=daily_only)
    listed = read_companies(companies)
    show(write(folder, listed, choices), shapes.generation_json, views.view_generation, as_json)
    if serve:
        _serve(folder, listed, layout, port)


HOST = "127.0.0.1"


def _serve(folder: Path, companies: "Sequence[Company]", layout: "Layout", port: int) -> None:
    """Raises InvalidSetting for a port that cannot be had, InvalidDataset if mcp.json cannot be written."""
    import uvicorn

    from waygraph.api.rest.bootstrap import Alone, listen, stops_in_order
    from waygraph_lab.datasets.folder import write_server_config
    from waygraph_lab.scalemcp.company_servers import CompanyServers

    servers = CompanyServers(companies, layout)
    with stops_in_order() as stops, listen(HOST, port) as listening:
        base = f"http://{HOST}:{listening.getsockname()[1]}"
        path = write_server_config(folder, servers.urls(base))
        note(f"{len(servers.names)} MCP servers at {base}, as {path} says; Ctrl-C ends them")
        flush()
        config = uvicorn.Config(
            servers, log_config=None, access_log=False, ws="none", lifespan="on", timeout_graceful_shutdown=1
        )
        Alone(config, stops).run(sockets=[listening])


Source = Annotated[
    str, typer.Argument(metavar="SOURCE", help="A catalogue: a dataset's folder, or files as `ingest` reads them.")
]
By = Annotated[str, typer.Option("--by", metavar="AUTHOR", help="rules, or openai:MODEL of OPENAI_BASE_URL.")]
Seed = Annotated[int, typer.Option(help="Another seed, other data.")]
AtOnce = Annotated[int, typer.Option(min=1, help="Made at a time. Part of what the seed stands for.")]


@generate.command()
def mutations(
    context: typer.Context,
    source: Source,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where the mutants are written; a folder of its own.")],
    *,
    by: By = "rules",
    level: Annotated[Literal["tools", "agents"], typer.Option(help="What is mutated.")] = "tools",
    count: Annotated[int, typer.Option("--count", "-n", min=1, help="How many mutants.")] = 100,
    seed: Seed = 1,
    at_once: AtOnce = 4,
    as_json: AsJson = False,
) -> None:
    """Make new agents or tools from those of a catalogue, by the operators of ToolACE-MCP.

    waygraph generate mutations examples/catalog mutants --by openai:MODEL -n 500

    Mutants alone are written, each marked as synthetic and by whom, and in mutations.jsonl what each was made of. What
    the model answered is kept in DIR: the same command goes on where it was cut short, and asks nothing twice.
    """
    from waygraph.registry.model import shapes
    from waygraph_lab.cli import views
    from waygraph_lab.synthesis.mutation_rules import RuleAuthor
    from waygraph_lab.synthesis.mutations import ModelAuthor, evolve, write_mutations

    settings = invocation(context).settings
    catalogue = _read(source, settings)
    with _order(by, folder, count, seed, at_once, settings) as order:
        author = ModelAuthor(order.answers) if order.answers else RuleAuthor()
        made = write_mutations(folder, evolve(catalogue, level, author, order))
    _remark(made.mutants, order, made.unfit)
    show(made, shapes.shape, views.numbers, as_json)


@generate.command()
def trajectories(
    context: typer.Context,
    source: Source,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where they are written; a folder of its own.")],
    *,
    beside: Annotated[
        list[Path] | None,
        typer.Option("--with", metavar="DIR", help="Mutants that also play. Repeat."),
    ] = None,
    by: By = "rules",
    count: Annotated[int, typer.Option("--count", "-n", min=1, help="How many conversations.")] = 100,
    seed: Seed = 1,
    at_once: AtOnce = 4,
    as_json: AsJson = False,
) -> None:
    """Make conversations with calls: a planner, a user, an assistant and a tool play over near tools.

    waygraph generate trajectories examples/catalog played --with mutants --by openai:MODEL -n 500

    No tool is called. Tools are near by their vectors; `--embedder none` goes by agents and mutations alone.
    """
    from dataclasses import replace

    from waygraph.registry.model import shapes
    from waygraph_lab.cli import views
    from waygraph_lab.synthesis.role_rules import RuleRoles
    from waygraph_lab.synthesis.simulation import ModelRoles, mutation_edges, write_trajectories

    told = invocation(context)
    settings = told.settings
    catalogue = _read(source, settings)
    entries = [entry for mutants in beside or () for entry in _read(str(mutants), settings).entries]
    edges = [edge for mutants in beside or () for edge in mutation_edges(mutants)]
    once = {entry.agent.id: entry for entry in (*catalogue.entries, *entries)}
    catalogue = replace(catalogue, entries=tuple(once.values()))
    near = _near_tools(told, catalogue, edges)
    with _order(by, folder, count, seed, at_once, settings) as order:
        roles = ModelRoles(order.answers) if order.answers else RuleRoles()
        made = write_trajectories(folder, catalogue, roles, near, order)
    _remark(made.trajectories, order, made.unfit)
    show(made, shapes.shape, views.numbers, as_json)


@generate.command("router-data")
def router_data(
    context: typer.Context,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Conversations: agents.jsonl and trajectories.jsonl.")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where the samples are written, as JSON lines.")],
    *,
    form: Annotated[
        Literal["chat", "ranking"], typer.Option(help="chat: messages for trl or LLaMA-Factory; ranking: candidates.")
    ] = "chat",
    level: Annotated[Literal["tools", "agents"], typer.Option(help="What is routed to.")] = "tools",
    candidates: Annotated[int, typer.Option(min=2, help="How many are shown, the right one among them.")] = 20,
    split: Annotated[str, typer.Option(help="Only of this split.")] = "",
    asker: Annotated[
        Literal["service", "gateway"],
        typer.Option("--as", help="Who will ask the router. gateway: without results, and what the assistant said."),
    ] = "service",
    no_history: Annotated[bool, typer.Option("--no-history", help="Leave out all before the request.")] = False,
    seed: Seed = 1,
    as_json: AsJson = False,
) -> None:
    """Make training samples of conversations: each call is a label, and what was before it the input.

    waygraph generate router-data played train.jsonl --form chat --split train

    A router is trained as it will be asked: a gateway knows calls by tool and outcome alone.
    """
    from waygraph.registry.model import shapes
    from waygraph_lab.cli import views
    from waygraph_lab.datasets.conversations import CatalogueNames
    from waygraph_lab.synthesis.router_data import Candidates, write_router_data

    told = invocation(context)
    catalogue = _read(str(folder), told.settings)
    chosen = Candidates.of(catalogue, _near_tools(told, catalogue, []), level, candidates)
    known, knows = CatalogueNames.of(catalogue), "stranger" if no_history else asker
    made = write_router_data(folder, file, chosen, known, form=form, seed=seed, split=split, asker=knows)
    show(made, shapes.shape, views.numbers, as_json)


def _read(source: str, settings: "Settings") -> "Manifest":
    """Raises InvalidDataset, SourceError."""
    from waygraph_lab.datasets.conversations import read_catalogue

    catalogue = read_catalogue(source, settings)
    if catalogue.rejected:
        note(f"{source}: {len(catalogue.rejected)} records were rejected; `waygraph ingest --dry-run` says why")
    return catalogue


def _remark(made: int, order: "Order", unfit: Mapping[str, int]) -> None:
    if made < order.count:
        reasons = ", ".join(f"{n} {reason}" for reason, n in unfit.items())
        advice = f"; {order.answers.advice()}" if order.answers else ""
        note(f"{made} of {order.count}: the other tries were {reasons}{advice}")


@contextmanager
def _order(  # noqa: PLR0917 - the options, one by one
    by: str, folder: Path, count: int, seed: int, at_once: int, settings: "Settings"
) -> "Iterator[Order]":
    """With a bar of progress, and the answers of a model if it is one. Raises InvalidSetting."""
    import os

    from waygraph.api.cli.render.progress import progress_bar
    from waygraph.registry.language_model.answers import ModelAnswers
    from waygraph.registry.language_model.endpoint import ChatModel
    from waygraph_lab.synthesis.orders import ANSWERS, Order, model_of

    model = model_of(by)
    with ExitStack() as stack:
        progress = stack.enter_context(progress_bar("Making"))
        answers = ModelAnswers(ChatModel.open(model, settings, os.environ), folder / ANSWERS) if model else None
        if answers:
            stack.callback(answers.close)
        yield Order(by=by, count=count, seed=seed, at_once=at_once, answers=answers, progress=progress)


def _near_tools(told: Invocation, catalogue: "Manifest", edges: list[tuple[str, str]]) -> dict[str, list[str]]:
    """By the vectors of the embedder asked for, if there is one. Raises ModelNotFound."""
    import os

    from waygraph.registry.embedding.factory import OpenedEmbedders, default_spec
    from waygraph_lab.synthesis.simulation import candidate_edges

    settings = told.settings
    with closing(OpenedEmbedders(settings, os.environ)) as embedders:
        chosen = embedders.open_for_documents(told.wanted_embedder or default_spec(settings))
        return candidate_edges(catalogue, chosen.embedder, edges, settings)
