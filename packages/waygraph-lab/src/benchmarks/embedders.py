"""Methods by many embedders, with mean and spread: the low variance of Agent-as-a-Graph's Table 2."""

from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from statistics import fmean, stdev
from typing import Any

from benchmarks.agent_as_a_graph import AGAINST, DATA
from benchmarks.floors import floors
from benchmarks.methods import ALGORITHM_1, MCP_ZERO, mcp_zero
from benchmarks.published import TABLE_2
from benchmarks.record import Measure, Result
from benchmarks.world import FLOAT32, World, scratch_folder
from waygraph.registry.model.settings import DEFAULT_EMBEDDER
from waygraph.registry.routing.recipes import HYBRID
from waygraph_lab.evaluation.compare import markdown_table
from waygraph_lab.evaluation.dataset import Dataset
from waygraph_lab.evaluation.run import Outcome, Trial

NAME = "embedders"
METRICS = ("Recall@5", "nDCG@5", "mAP@5")
PAPERS = ("Algorithm 1", "MCP-Zero")
MODELS = {"all-MiniLM-L6-v2, float32": FLOAT32, "all-MiniLM-L6-v2, int8": DEFAULT_EMBEDDER}
OWN = "waygraph-minilm"
NOTES = (
    "LiveMCPBench by steps, texts `name: description`, agents judged; `hybrid` is the product's default recipe over "
    "its contextual texts. Weights are (1, 1), as the paper's text has them for this table.",
    "Mean ± standard deviation over the models alone, one row each; floors are no models: hashed words in 384 numbers, "
    "and latent semantic analysis of this catalogue in 200. The paper's are hosted models but for all-MiniLM-L6-v2, "
    "on its own gold sets: compare spreads, and differences between its two methods, not levels.",
    "Two of the models here are one network in two precisions, and waygraph-minilm was trained from it: their spread "
    "says less than one over networks that nothing binds. WAYGRAPH_EMBEDDER=SPEC adds a model.",
    "waygraph-minilm was trained on requests to other catalogues; see its card.",
)


def run(world: World) -> Result:
    if not world.has(DATA):
        return Result(name=NAME, skipped="no data: give its folder by --data or WAYGRAPH_BENCH_DATA")
    dataset = world.dataset(DATA)
    with scratch_folder() as folder, floors(folder, texts_of(dataset)) as without_model:
        models = models_of(world)
        rows = [
            row
            for kind, specs in (("model", models), ("floor", without_model))
            for name, spec in specs.items()
            for row in measure(world, dataset, name, spec, kind)
        ]
    return Result(
        name=NAME,
        embedder="",
        measures=list(_measures(rows)),
        notes=NOTES,
        details={"queries": len(dataset.queries("steps")), "rows": rows},
    )


def models_of(world: World) -> dict[str, str]:
    """Name → spec: what can be had here, and what is configured."""
    own = {OWN: f"onnx:{OWN}"} if find_spec(OWN.replace("-", "_")) else {}
    known = {*MODELS.values(), *own.values()}
    return {**MODELS, **own, **({} if world.configured in ("", *known) else {world.configured: world.configured})}


def texts_of(dataset: Dataset) -> Iterator[str]:
    """Of all agents and tools, as the recipes of the paper read them."""
    for entry in dataset.catalogue.entries:
        for noun in (entry.agent, *entry.tools):
            yield f"{noun.name}: {noun.description}"


def trials(spec: str) -> list[Trial]:
    """The paper's two methods, and the product's default recipe."""
    return [
        Trial(recipe=ALGORITHM_1, texts="plain", by="steps", embedder=spec, label=AGAINST),
        Trial(recipe=MCP_ZERO, texts="plain", by="steps", embedder=spec, label="MCP-Zero", routing=mcp_zero),
        Trial(recipe=HYBRID, texts="contextual", by="steps", embedder=spec),
    ]


def measure(world: World, dataset: Dataset, name: str, spec: str, kind: str) -> Iterator[dict[str, Any]]:
    tried = trials(spec)
    for outcome in sorted(world.bench.outcomes(dataset, tried), key=lambda outcome: tried.index(outcome.trial)):
        yield _row(outcome, name, kind)


def _row(outcome: Outcome, name: str, kind: str) -> dict[str, Any]:
    means = {metric: round(outcome.agents[metric].value, 4) for metric in METRICS}
    return {"embedder": name, "kind": kind, "fingerprint": outcome.fingerprint, "method": outcome.trial.name, **means}


def spreads(rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, tuple[float, float]]]:
    """Method → metric → mean and standard deviation over the models."""
    methods = dict.fromkeys(row["method"] for row in rows)
    return {
        method: {metric: _spread([row[metric] for row in rows if row["method"] == method]) for metric in METRICS}
        for method in methods
    }


def _spread(values: Sequence[float]) -> tuple[float, float]:
    return fmean(values), stdev(values) if len(values) > 1 else 0.0


def _models(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [row for row in rows if row["kind"] == "model"]


def _measures(rows: Sequence[Mapping[str, Any]]) -> Iterator[Measure]:
    of = len({row["embedder"] for row in _models(rows)})
    for method, metrics in spreads(_models(rows)).items():
        mean, spread = metrics["Recall@5"]
        yield Measure(name=f"LiveMCPBench steps, {method}: R@5, mean of {of} embedders", value=mean)
        yield Measure(name=f"LiveMCPBench steps, {method}: R@5, spread over {of} embedders", value=spread)


def tables_of(details: Mapping[str, Any]) -> str:
    rows = details["rows"]
    methods = list(dict.fromkeys(row["method"] for row in rows))
    found = {(row["embedder"], row["method"]): row for row in rows}
    kinds = {row["embedder"]: row["kind"] for row in rows}
    lines: list[list[str]] = [
        [f"{name} ({kind})" if kind == "floor" else name, *_cells(found, name, methods)] for name, kind in kinds.items()
    ]
    spread = spreads(_models(rows))
    lines.append(
        ["**models, mean ± sd**", *(_text(*spread[method][metric]) for metric in METRICS for method in methods)]
    )
    papers = [
        _text(*_spread([model[method][metric] for model in TABLE_2.values()])) if method in PAPERS else ""
        for metric in METRICS
        for method in (*PAPERS, *methods[2:])
    ]
    lines.append([f"*the paper's {len(TABLE_2)} models, mean ± sd*", *papers])
    head = ("embedder", *(f"{metric}, {method}" for metric in METRICS for method in methods))
    told = f"LiveMCPBench, {details['queries']} steps, by embedder (Agent-as-a-Graph, Table 2):"
    return f"{told}\n\n{markdown_table(head, lines)}"


def _cells(found: Mapping[tuple[str, str], Mapping[str, Any]], name: str, methods: Sequence[str]) -> list[str]:
    return [f"{found[name, method][metric]:.3f}" for metric in METRICS for method in methods]


def _text(mean: float, spread: float) -> str:
    return f"{mean:.3f} ± {spread:.3f}"
