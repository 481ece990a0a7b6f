"""Which agent is to be called next in a conversation: this project's own Agent Route set (ToolACE-MCP, section 4.4).

165 calls of 54 conversations over real agent cards and the example catalogue, alone and among mutants of these agents,
each with all turns before it, as a gateway knows them, and with none.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, replace
from typing import Any

from benchmarks.published import AGENT_ROUTES
from benchmarks.record import IS_CLONE, NEEDS_CLONE, PROJECT, Measure, Result
from benchmarks.world import World, scratch_folder
from waygraph.ingest.manifest.records import Manifest
from waygraph.registry.language_model.endpoint import configured_model
from waygraph.registry.routing.recipes import AGENTS, HYBRID, LEXICAL, Recipe, Rerank, with_rerank
from waygraph_lab.datasets.conversations import (
    TRAJECTORIES,
    CatalogueNames,
    checksum,
    read_catalogue,
    read_trajectories,
)
from waygraph_lab.datasets.decisions import decisions
from waygraph_lab.evaluation.compare import Table, markdown_table, mean_markdown, tabulate
from waygraph_lab.evaluation.dataset import Asker, Dataset
from waygraph_lab.evaluation.record import record_of
from waygraph_lab.evaluation.run import Trial
from waygraph_lab.synthesis.mutation_rules import RuleAuthor
from waygraph_lab.synthesis.mutations import evolve, write_mutations
from waygraph_lab.synthesis.orders import Order

NAME = "agent_routes"
FILE = PROJECT / "packages" / "waygraph-lab" / "data" / NAME / TRAJECTORIES
CARDS = "a2x/agent_cards_default.json"
CATALOGUE = "catalog"
MUTANTS, QUICK_MUTANTS = 125, 10
"""So many to an agent as the paper made to a tool."""
METRIC = "Recall@1"
ASKERS: Mapping[Asker, str] = {"service": "all turns", "gateway": "as a gateway", "stranger": "no history"}
NOTES = (
    "The conversations are this project's own, written over 21 real A2A cards and the 36 agents of examples/catalog. "
    "One agent is right for each call. Every agent of a catalogue is a candidate, as in the paper's set.",
    f"The paper's router has {AGENT_ROUTES:.1%} on its own 156 calls over 40 agents, which are not published: the two "
    "sets are not the same, so that only drops and gains can be compared.",
    "`as a gateway`: what the user said, and calls by name and outcome, without results and the assistant's words. "
    "Mutants are made by rules; some do what the original does, and count as wrong.",
    "With --model the model orders the 20 best of `hybrid`: a router that was trained on tools is tried on agents so.",
)


def run(world: World) -> Result:
    """Raises InvalidSetting and LanguageModelError of a model as the router, NotReranked."""
    if not IS_CLONE:
        return Result(name=NAME, skipped=NEEDS_CLONE)
    if not (world.data / CARDS).is_file():
        return Result(name=NAME, skipped="no data: give its folder by --data or WAYGRAPH_BENCH_DATA")
    with scratch_folder() as folder:
        dataset = read_routes(world)
        order = Order(by="rules", count=QUICK_MUTANTS if world.quick else MUTANTS)
        made = write_mutations(folder / "mutants", evolve(dataset.catalogue, "agents", RuleAuthor(), order))
        mutants = read_catalogue(str(folder / "mutants"), world.settings)
        noisy = replace(dataset, name=f"{NAME} +{made.mutants} mutants", catalogue=join([dataset.catalogue, mutants]))
        tables = [measure(world, each) for each in (dataset, noisy)]
    return Result(
        name=NAME,
        embedder=world.embedder().fingerprint,
        measures=[*_measures(tables)],
        notes=NOTES,
        details={"tables": [asdict(table) for table in tables], "published": AGENT_ROUTES},
    )


def read_routes(world: World) -> Dataset:
    """Raises InvalidDataset."""
    cards = read_catalogue(str(world.data / CARDS), world.settings)
    catalogue = join([cards, read_catalogue(str(world.examples / CATALOGUE), world.settings)])
    talks = read_trajectories(FILE, CatalogueNames.of(catalogue))
    questions = tuple(question for talk in talks for question in decisions(talk))
    return Dataset(
        name=NAME,
        catalogue=catalogue,
        questions=questions[:20] if world.quick else questions,
        license="Apache-2.0",
        checksum=checksum([FILE, world.data / CARDS]),
    )


def join(catalogues: Sequence[Manifest]) -> Manifest:
    """All agents as of one source."""
    return replace(catalogues[0], entries=tuple(entry for each in catalogues for entry in each.entries))


def measure(world: World, dataset: Dataset) -> Table:
    trials = [
        Trial(recipe=recipe, texts=recipe.texts or "contextual", label=f"{recipe.name}, {label}", asker=asker)
        for recipe in _recipes(world)
        for asker, label in ASKERS.items()
        if recipe.history or asker == "stranger"
    ]
    with world.paid_bench(NAME) if world.model else nullcontext(world.bench) as bench:
        outcomes = sorted(bench.outcomes(dataset, trials), key=lambda outcome: trials.index(outcome.trial))
    record = record_of(dataset, [outcome.refuse_failures() for outcome in outcomes], {})
    (table,) = tabulate([(NAME, record)], metrics=(METRIC, "Recall@5"))
    return table


def _recipes(world: World) -> Iterator[Recipe]:
    yield from (HYBRID, LEXICAL, AGENTS)
    for spec in world.models:
        model = configured_model(spec, world.environ, option="--model", purpose="for the router")
        yield with_rerank(HYBRID, Rerank(spec=f"openai:{model}"))


def _measures(tables: Sequence[Table]) -> Iterator[Measure]:
    for table in tables:
        for row in table.rows:
            name = f"{table.dataset}, {row.method}: first agent right"
            yield Measure(name=name, value=row.estimates[METRIC].value)


def tables_of(details: Mapping[str, Any]) -> str:
    rows = [
        (table.dataset, row.method, *(mean_markdown(each) for each in row.estimates.values()))
        for table in map(Table.from_json, details["tables"])
        for row in table.rows
    ]
    return markdown_table(("catalogue", "method", METRIC, "Recall@5"), rows)
