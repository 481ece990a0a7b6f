"""ScaleMCP's Tables 3 and A6: models that find and call tools of real servers, by way of finding, beside the paper's.

It asks a model, and runs only with one.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from threading import Thread
from time import sleep
from typing import Any

import uvicorn

from benchmarks.processes import free_port
from benchmarks.published import SCALEMCP_AGENTS
from benchmarks.record import Measure, Result
from benchmarks.scalemcp import COMPANIES, QUICK_COMPANIES, QUICK_INSTANCES, RERANKERS_VARIABLE
from benchmarks.world import World, keeping, report_part, scratch_folder
from waygraph.registry.language_model.endpoint import configured_model, model_in
from waygraph.registry.routing.recipes import TOOLS
from waygraph_lab.datasets.folder import write_server_config
from waygraph_lab.datasets.read_dataset import read_dataset
from waygraph_lab.datasets.trials import AgentBench, agent_trials, choose_tasks
from waygraph_lab.evaluation.agents import AgentOutcome, AgentTrial, attempt_of
from waygraph_lab.evaluation.asking import KeptLines, QueryFailed, estimate_text
from waygraph_lab.evaluation.compare import markdown_table
from waygraph_lab.evaluation.estimate import estimate_agents
from waygraph_lab.scalemcp.companies import read_companies
from waygraph_lab.scalemcp.company_servers import CompanyServers
from waygraph_lab.scalemcp.generate import DAILY_SPLIT, Choices, generate

NAME = "end_to_end"
TASKS, QUICK_TASKS = 50, 4
QUESTIONS, LIMIT = 10, 5
JUDGE_VARIABLE = "WAYGRAPH_BENCH_JUDGE"
"""`openai:MODEL` that scores answers; else nobody does, and there is no task completion."""
METHODS: Mapping[str, str] = {"lexical": "Text Search", "tools": "Vector Search"}
RERANKED = "Vector Search + reranker"
SCORES: Mapping[str, str] = {
    "tool_correctness": "tool correctness",
    "task_completion": "task completion",
    "gold_coverage": "gold coverage",
}
NO_MODEL = "it asks a model: --model openai:MODEL --spend, several with commas between"
NOTES = (
    "Tools of companies as real MCP servers, concatenation, 10 questions a tool, five tools a search. Queries, figures "
    "of companies and questions are this project's. The paper judged 10 models, with Cohere's reranker.",
    f"{JUDGE_VARIABLE}=openai:MODEL judges answers, {RERANKERS_VARIABLE} names rerankers.",
)


def run(world: World) -> Result:
    """Raises InvalidSetting, LanguageModelError, and QueryFailed at the end if a task failed."""
    if not world.model:
        return Result(name=NAME, skipped=NO_MODEL)
    path = world.data / COMPANIES
    if not path.is_file():
        return Result(name=NAME, skipped=f"no {COMPANIES}: give the data's folder by --data or WAYGRAPH_BENCH_DATA")
    companies = read_companies(path)[: QUICK_COMPANIES if world.quick else None]
    choices = Choices(layout="companies", questions=QUESTIONS, daily_only=True)
    trials = _trials(world)
    with scratch_folder() as scratch, served(servers := CompanyServers(companies, "companies")) as base:
        folder = scratch / "dataset"
        generate(folder, companies, replace(choices, instances=QUICK_INSTANCES) if world.quick else choices)
        config = write_server_config(folder, servers.urls(base))
        dataset = read_dataset(folder, world.settings)
        tasks = choose_tasks(dataset, split=DAILY_SPLIT, count=QUICK_TASKS if world.quick else TASKS)
        tools = [tool for entry in dataset.catalogue.entries for tool in entry.tools]
        told = estimate_text([estimate_agents(trial, tasks, tools) for trial in trials])
        print(f"{NAME}: {told}", file=sys.stderr)
        with kept_attempts(world) as lines:
            bench = AgentBench(
                settings=world.settings,
                environ=world.environ,
                embedder=world.spec,
                at_once=world.jobs,
                watching=report_part,
                lines=lines,
            )
            outcomes = list(bench.outcomes(dataset, config, tasks, trials))
    for outcome in outcomes:
        refuse_failures(outcome)
    rows = [row_of(outcome) for outcome in outcomes]
    return Result(
        name=NAME,
        embedder=outcomes[0].fingerprint,
        measures=[
            Measure(name=f"ScaleMCP's agents, {row['model']}, {row['method']}: {told}", value=row[told])
            for row in rows
            for told in SCORES.values()
            if row[told] is not None
        ],
        notes=NOTES,
        details={"tasks": len(tasks), "rows": rows},
    )


def _trials(world: World) -> list[AgentTrial]:
    """Models × ways of finding, the paper's first."""
    models = [
        configured_model(spec, world.environ, option="--model", purpose="for the agents") for spec in world.models
    ]
    judge = model_in(world.environ.get(JUDGE_VARIABLE, ""))
    like = AgentTrial(recipe=TOOLS, texts="concat", model="", judge=judge, limit=LIMIT)
    trials = agent_trials(like, world.environ, models=models, recipes=tuple(METHODS))
    for spec in filter(None, world.environ.get(RERANKERS_VARIABLE, "").split(",")):
        trials += agent_trials(like, world.environ, models=models, recipes=[TOOLS.name], rerank=spec)
    return trials


@contextmanager
def kept_attempts(world: World) -> Iterator[KeptLines]:
    """As `World.asking`, of whole tasks."""
    lines = KeptLines(world.line_file(NAME), attempt_of)
    with keeping(NAME, lines, lines.file, "tasks were not tried again"):
        yield lines


def refuse_failures(outcome: AgentOutcome) -> None:
    """Raises QueryFailed: the next run tries such a task again."""
    failed = [attempt for attempt in outcome.attempts if attempt.fault]
    if failed:
        method = f"{outcome.trial.model}, {outcome.trial.recipe.name}"
        raise QueryFailed(failed[-1].id, failed[-1].fault, failed=len(failed), of=method)


@contextmanager
def served(servers: CompanyServers) -> Iterator[str]:
    """The address of the servers, in this process, until the block ends."""
    port = free_port()
    config = uvicorn.Config(servers, host="127.0.0.1", port=port, log_level="error", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    thread = Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        if not thread.is_alive():
            raise RuntimeError("the companies' servers did not start")
        sleep(0.02)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join()


def row_of(outcome: AgentOutcome) -> dict[str, Any]:
    trial, scores = outcome.trial, outcome.scores
    means = {told: round(scores[name].value, 4) if name in scores else None for name, told in SCORES.items()}
    rerank = trial.recipe.rerank
    method = f"{RERANKED}: {rerank.spec}" if rerank else METHODS[trial.recipe.name]
    costs = {name: round(outcome.costs[name], 2) for name in ("calls", "prompt_tokens", "completion_tokens")}
    return {"model": trial.model, "method": method, **means, **costs}


def tables_of(details: Mapping[str, Any]) -> str:
    """Agents × ways of finding × models, and the paper's behind them."""
    lines: list[Sequence[object]] = [
        [row["model"], row["method"], *(_percent(row[told]) for told in SCORES.values()), row["calls"]]
        for row in details["rows"]
    ]
    for (model, method), (correct, completed) in SCALEMCP_AGENTS.items():
        lines.append([f"*{model}, the paper's*", method, correct, completed, "", ""])
    head = ("model", "found by", *(f"{told}, %" for told in SCORES.values()), "calls a task")
    return f"Models with tools, {details['tasks']} tasks (ScaleMCP, Tables 3 and A6):\n\n{markdown_table(head, lines)}"


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.1f}"
