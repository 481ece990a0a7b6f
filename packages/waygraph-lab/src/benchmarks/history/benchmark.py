"""Routing that knows the conversation: the next call of conversations, LiveMCPBench's steps, failures and costs."""

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import anyio

from benchmarks.catalogue import requests
from benchmarks.history.conversations import CALLS_ALONE, FOLLOWING, PARTS, TYPED, choose_shares, measure_part
from benchmarks.history.dialogues import measure_dialogues
from benchmarks.history.model_queries import measure_model_queries
from benchmarks.history.steps import ALONE, KNOWN, LIVE, TRUE, measure_live
from benchmarks.published import BEST_COUNTS, NOISE_DROPS, NOISE_LEVELS, SAME_AGENT
from benchmarks.record import Measure, Result, Target
from benchmarks.timing import Arm, median_difference, time_arms
from benchmarks.world import World
from waygraph.registry.model.nouns import Query, Turn
from waygraph.registry.registry import Registry
from waygraph_lab.evaluation.compare import markdown_table
from waygraph_lab.evaluation.dataset import SEED

NAME = "history"
TOOLS, TURNS, ROUNDS = 5_000, 20, 300
"""Of the measure of time."""
NOTES = (
    "Sets: Schema-Guided Dialogue (Google Research, CC-BY-SA-4.0), TRAJECT-Bench (MIT), API-Bank (Apache-2.0, MIT).",
    "A decision is a call that was made; its text is what the user said last, its history all turns before it. "
    "At most 1,500 a part, by seed 20261124. A = agent, T = tool; first, stay, switch: agent top-1 where there is no "
    "call before, where the right agent is that of the last call, where it is another. family: right up to the "
    "service's number. again: tool top-1 where the tool of the last call is right once more. Calls alone: without "
    "the words, as a gateway knows a session.",
    "Model-written queries: those of LiveMCPBench's public logs with a call before; right is what the model called "
    "next, among what another router had shown.",
    "Retrieval is `hybrid` without history, and keeps 40 agents and 100 tools. Counts (Witten-Bell) are learnt on the "
    "train split; of sgd-dev on four of five folds over groups; of sgd-dev unseen on sgd-train. The baselines' weights "
    "are those of the data's README, the best in hindsight on these very sets.",
    "names shuffled: the calls that are learnt from stand under other names, each agent's under one other agent's.",
    "LiveMCPBench, true history: the right tools of earlier judged steps, one of each need, that which the router "
    "ranks first. own history: the router's own first tool for each earlier step. p: paired randomisation, nDCG@5.",
    "Clean: only agents that are right for some step. Drops are in points of R@1, from Clean. The paper's are of the "
    "success of a whole agent (MCP-Universe): only the drops can be compared.",
    "Dialogues: requests of ToolRet_clean whose texts mark who speaks; only the turns, no calls, are in them.",
    "Mutants by rules stand for harder neighbours, not for an LLM's: some do the same as the original under other "
    "parameters, and count as wrong.",
    "Time: the vector of every request is in the cache; that of the words before it is made anew at each route.",
    "Recovery: the first offer, where it is right, is declared failed, and the request made again. Another right tool: "
    "of the same need (LiveMCPBench), of the same name in a service of the same family (SGD).",
)


def run(world: World) -> Result:
    if not (world.has("trajectories") and world.has(LIVE)):
        return Result(name=NAME, skipped="no data: give its folder by --data or WAYGRAPH_BENCH_DATA")
    chosen = choose_shares(world)
    parts = [measure_part(world, part, chosen[part.family]) for part in PARTS]
    live, queries = measure_live(world), measure_model_queries(world)
    return Result(
        name=NAME,
        embedder=world.embedder().fingerprint,
        measures=[
            *_part_measures(parts),
            *_alone_measures(parts, queries),
            *_live_measures(live),
            *_recovery_measures(parts, live),
            *time_turns(world),
        ],
        notes=NOTES,
        details={"parts": parts, **live, "model_queries": queries, "dialogues": measure_dialogues(world)},
    )


def time_turns(world: World) -> list[Measure]:
    """The same requests with and without turns before them, in turn; every request's own vector is in the cache."""
    chance = random.Random(SEED)  # noqa: S311 - no secret
    tools, rounds = (100, 20) if world.quick else (TOOLS, ROUNDS)
    texts = requests(rounds)
    with world.registry_of_tools(tools) as registry:
        ids = [tool.id for tool in registry.tools()]
        calls = [tuple(Turn(role="call", tool=tool) for tool in chance.sample(ids, TURNS)) for _ in texts]
        words = [
            tuple(
                call if at % 3 == 2 else Turn(role="assistant" if at % 3 else "user", text=chance.choice(texts))
                for at, call in enumerate(turns)
            )
            for turns in calls
        ]
        histories: dict[str, Sequence[tuple[Turn, ...]]] = {"": [()] * rounds, "calls": calls, "calls and words": words}
        arms = {name: _arm(registry, texts, turns) for name, turns in histories.items()}
        times = anyio.run(lambda: time_arms(arms, rounds, warm_up=rounds))
    name = f"route, {tools:,} tools, {TURNS} turns before it"
    target = Target(bound="at_most", value=0.5)
    return [
        Measure(
            name=f"{name}, {arm}: more than without, p50",
            value=median_difference(times[""], times[arm]),
            unit="ms",
            target=target,
        )
        for arm in ("calls", "calls and words")
    ]


def _arm(registry: Registry, texts: Sequence[str], histories: Sequence[tuple[Turn, ...]]) -> Arm:
    async def call(number: int) -> None:
        registry.route(Query(text=texts[number], history=histories[number]))

    return call


def _part_measures(parts: Sequence[Mapping[str, Any]]) -> Iterator[Measure]:
    for part in parts:
        rows = {row["method"]: row for row in part["rows"]}
        today = rows["request alone"]["first"]
        for method, asked in ((TYPED, SAME_AGENT), (FOLLOWING, BEST_COUNTS)):
            least = {**asked.get(part["part"], {}), "first": today}
            for metric in ("A@1", "T@1", "switch", "first"):
                value, asks = rows.get(method, {}).get(metric), least.get(metric)
                target = None if asks is None else Target(bound="at_least", value=asks)
                if value is not None:
                    yield Measure(name=f"{part['part']}, {method}: {metric}", value=value, target=target)


def _alone_measures(parts: Sequence[Mapping[str, Any]], queries: Sequence[Mapping[str, Any]]) -> Iterator[Measure]:
    """Calls without words may lose to no history nowhere: of all decisions, of the same tool again, of queries."""
    for part in parts:
        rows = {row["method"]: row for row in part["rows"]}
        for metric in ("T@1", "switch", "again"):
            without, value = rows["request alone"][metric], rows[CALLS_ALONE][metric]
            if value is not None:
                target = Target(bound="at_least", value=without)
                yield Measure(name=f"{part['part']}, {CALLS_ALONE}: {metric}", value=value, target=target)
    for without, alone in zip(queries[::2], queries[1::2], strict=True):
        for metric in ("tool first", "tool in 5"):
            target = Target(bound="at_least", value=without[metric])
            yield Measure(name=f"model-written query, calls alone: {metric}", value=alone[metric], target=target)


def _live_measures(live: Mapping[str, Any]) -> Iterator[Measure]:
    rows = {row["history"]: row for row in live["steps"]}
    target = Target(bound="at_least", value=0.86)
    for known in KNOWN:
        asked = target if known == TRUE else None
        yield Measure(name=f"LiveMCPBench steps, {known}: nDCG@5", value=rows[known]["nDCG@5"], target=asked)


def _recovery_measures(parts: Sequence[Mapping[str, Any]], live: Mapping[str, Any]) -> Iterator[Measure]:
    for label, counts in [("LiveMCPBench steps", live["recovery"]), *((p["part"], p["recovery"]) for p in parts)]:
        target = Target(bound="at_least", value=1)
        if counts["another is right"]:
            share = counts["and is offered"] / counts["another is right"]
            name = f"after a failure, {label}: the other right tool is offered"
            yield Measure(name=name, value=share, target=target)
        if counts["right first"]:
            yield Measure(name=f"after a failure, {label}: wrong offers", value=counts["wrong"] / counts["right first"])


def tables_of(details: Mapping[str, Any]) -> str:
    judged = f"LiveMCPBench, {details['judged']} steps, {details['after another']} of them after another judged one:"
    parts = [_part_table(part) for part in details["parts"]]
    parts += [judged, _rows_table(details["steps"]), _noise_table(details["noise"])]
    if details["model_queries"]:
        parts += ["Model-written queries with a call before:", _rows_table(details["model_queries"])]
    if details["dialogues"]:
        parts += ["Dialogues in the texts of ToolRet_clean:", _rows_table(details["dialogues"])]
    return "\n\n".join(parts)


def _rows_table(rows: Sequence[Mapping[str, Any]]) -> str:
    return markdown_table(tuple(rows[0]), [[_figure(value) for value in row.values()] for row in rows])


def _part_table(part: Mapping[str, Any]) -> str:
    columns = [name for name in part["rows"][0] if any(row[name] is not None for row in part["rows"])]
    rows = [[_figure(row[name]) for name in columns] for row in part["rows"]]
    chosen = f"(shares chosen on the other families: {part['chosen']})"
    return f"The next call, {part['part']}, {part['decisions']} decisions {chosen}:\n\n{markdown_table(columns, rows)}"


def _noise_table(noise: Sequence[Mapping[str, Any]]) -> str:
    first = noise[0]
    rows = [
        [
            row["catalogue"],
            *(_figure(value) for name, value in row.items() if name != "catalogue"),
            *(f"{100 * (first[f'R@1, {known}'] - row[f'R@1, {known}']):.1f}" for known in (ALONE, TRUE)),
        ]
        for row in noise
    ]
    table = markdown_table((*first, f"drop, {ALONE}", f"drop, {TRUE}"), rows)
    published = markdown_table(("method", *NOISE_LEVELS), [(name, *drops) for name, drops in NOISE_DROPS.items()])
    return f"Steps among other catalogues' tools:\n\n{table}\n\nThe paper's drops (MCP-Universe):\n\n{published}"


def _figure(value: object) -> object:
    return f"{value:.3f}" if isinstance(value, float) else value
