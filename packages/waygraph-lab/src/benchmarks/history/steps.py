"""LiveMCPBench's steps with what was called for the steps before, alone and among other catalogues' tools."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from statistics import fmean
from typing import Any

from benchmarks.history.answers import EVERYTHING, FOLDS, find, first_tool, recover, with_shares
from benchmarks.history.next_calls import Level
from benchmarks.world import World, scratch_folder, write_catalogue
from waygraph.ingest.manifest.records import Manifest
from waygraph.ingest.sources.read import read_path
from waygraph.registry.model.nouns import Filters, Turn
from waygraph.registry.registry import Registry
from waygraph.registry.routing.recipes import HYBRID, Recipe
from waygraph_lab.datasets.conversations import read_catalogue
from waygraph_lab.evaluation.dataset import Need, Question
from waygraph_lab.evaluation.metrics import measure_query, paired_p
from waygraph_lab.synthesis.mutation_rules import RuleAuthor
from waygraph_lab.synthesis.mutations import evolve, write_mutations
from waygraph_lab.synthesis.orders import Order

LIVE = "livemcpbench"
ALONE, TRUE, OWN = "no history", "true history", "own history"
WITH_WORDS, BY_FOLDS = "true history with the steps' words", "true history, share chosen on other folds"
KNOWN = (ALONE, TRUE, WITH_WORDS, OWN)
SHARES = (0.0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5)
"""Of a called agent, as tried by folds."""
STEP_METRICS: Mapping[str, str] = {"R@1": "Recall@1", "R@5": "Recall@5", "nDCG@5": "nDCG@5"}
TOOL_METRICS: Mapping[str, str] = {"R@1": "Recall@1", "R@5": "Recall@5"}
INVENTED, MUTANTS, QUICK_INVENTED = 5_000, 1_158, 100
"""As many mutants of a tool as in the paper, 2,005 - 627 of 627."""
NOISE: Mapping[str, str] = {
    "+Docker": "catalogs/docker_mcp_registry.json",
    "+awesome": "catalogs/awesome_mcp.jsonl",
}
StepValues = Mapping[Level, Mapping[str, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """`histories`: by what is known of the steps before."""

    need: Need
    question: str
    histories: Mapping[str, tuple[Turn, ...]]


def measure_live(world: World) -> dict[str, Any]:
    dataset = world.dataset(LIVE)
    with world.registry_of([dataset.catalogue], texts="contextual") as registry:
        steps = [step for question in dataset.questions for step in steps_of(registry, question)]
        values = {known: [judge_step(registry, step, step.histories[known]) for step in steps] for known in KNOWN}
        values[BY_FOLDS] = by_folds(registry, steps)
        right = frozenset().union(*(item for step in steps for item in step.need.gold))
        noise = [noise_row(registry, "Clean", steps, Filters(agent_ids=tuple(sorted(right))))]
        recovery = recover(registry, [(step.need, item) for step in steps for item in step.need.gold_tools])
    for label, manifests in noises(world, dataset.catalogue):
        with world.registry_of([dataset.catalogue, *manifests], texts="contextual") as registry:
            noise.append(noise_row(registry, label, steps))
    rows = [{"history": known} | step_means(each, values[ALONE]) for known, each in values.items()]
    after = sum(bool(step.histories[TRUE]) for step in steps)
    return {"steps": rows, "judged": len(steps), "after another": after, "noise": noise, "recovery": recovery}


def steps_of(registry: Registry, question: Question) -> Iterator[Step]:
    """The judged ones, in order."""
    told: dict[str, list[Turn]] = {known: [] for known in KNOWN}
    for need in question.steps:
        if need.gold:
            histories = {known: tuple(turns) for known, turns in told.items()}
            yield Step(need=need, question=question.id, histories=histories)
            ranked = list(find(registry, need.text)["tools"])
            calls = [Turn(role="call", tool=_best(ranked, item)) for item in need.gold_tools]
            told[TRUE] += calls
            told[WITH_WORDS] += [Turn(role="user", text=need.text), *calls]
            told[OWN].append(Turn(role="call", tool=first_tool(registry, need.text, histories[OWN])))


def _best(ranked: Sequence[str], right: Collection[str]) -> str:
    return next((tool for tool in ranked if tool in right), min(right))


def judge_step(
    registry: Registry, step: Step, history: tuple[Turn, ...], filters: Filters = EVERYTHING, recipe: Recipe = HYBRID
) -> StepValues:
    found = find(registry, step.need.text, history, filters, recipe)
    tools = step.need.gold_tools
    return {
        "agents": measure_query(list(found["agents"]), step.need.gold),
        "tools": measure_query(list(found["tools"]), tools) if tools else {},
    }


def step_means(values: Sequence[StepValues], alone: Sequence[StepValues]) -> dict[str, Any]:
    """Agents' metrics, tools' recall, and p of the agents' nDCG@5 against `alone`."""
    agents, tools = [each["agents"] for each in values], [each["tools"] for each in values if each["tools"]]
    without = [each["agents"]["nDCG@5"] for each in alone]
    return {
        **{name: round(fmean(each[metric] for each in agents), 4) for name, metric in STEP_METRICS.items()},
        **{f"T {name}": round(fmean(each[metric] for each in tools), 4) for name, metric in TOOL_METRICS.items()},
        "p": round(paired_p([each["nDCG@5"] for each in agents], without), 4),
    }


def by_folds(registry: Registry, steps: Sequence[Step]) -> list[StepValues]:
    """With true history, by the share of a called agent that is best on the other folds over questions."""
    tried = [
        [judge_step(registry, step, step.histories[TRUE], recipe=with_shares(share, share)) for step in steps]
        for share in SHARES
    ]
    folds = [int(sha256(step.question.encode()).hexdigest(), 16) % FOLDS for step in steps]
    best = {fold: max(tried, key=partial(_outside, folds, fold)) for fold in range(FOLDS)}
    return [best[fold][at] for at, fold in enumerate(folds)]


def _outside(folds: Sequence[int], fold: int, values: Sequence[StepValues]) -> float:
    """Sum of nDCG@5 over the other folds."""
    return sum(each["agents"]["nDCG@5"] for each, of in zip(values, folds, strict=True) if of != fold)


def noises(world: World, catalogue: Manifest) -> Iterator[tuple[str, list[Manifest]]]:
    yield "LiveMCPBench", []
    for label, place in NOISE.items():
        if (path := world.data / place).is_file() and not world.quick:
            yield label, list(read_path(str(path), world.settings))
    with scratch_folder() as folder:
        invented = QUICK_INVENTED if world.quick else INVENTED
        yield f"+{invented:,} invented tools", list(read_path(str(write_catalogue(folder, invented)), world.settings))
        order = Order(by="rules", count=QUICK_INVENTED if world.quick else MUTANTS)
        made = write_mutations(folder / "mutants", evolve(catalogue, "tools", RuleAuthor(), order))
        yield f"+{made.mutants:,} mutated by rules", [read_catalogue(str(folder / "mutants"), world.settings)]


def noise_row(registry: Registry, label: str, steps: Sequence[Step], filters: Filters = EVERYTHING) -> dict[str, Any]:
    values = {
        known: [judge_step(registry, step, step.histories[known], filters)["agents"] for step in steps]
        for known in (ALONE, TRUE)
    }
    return {"catalogue": label} | {
        f"{name}, {known}": round(fmean(each[metric] for each in of), 4)
        for known, of in values.items()
        for name, metric in STEP_METRICS.items()
    }
