"""The benchmark `service`."""

from benchmarks.catalogue import all_requests, all_steps
from benchmarks.record import Result
from benchmarks.service import mixed, speed, syncing
from benchmarks.service.arena import Queries, arena
from benchmarks.world import World

NAME = "service"
TOOLS, QUICK_TOOLS = 5_000, 500
SYNCED, QUICK_SYNCED = 1_000, 100
ROUNDS, QUICK_ROUNDS = 5, 1
NOTES = (
    "`waygraph serve` as it comes, one worker, API keys on, log to a file, in a process of its own; so is each bare "
    "endpoint; so is the load generator (benchmarks/service/load.py), on the same processors. Every query is new: "
    "requests of 9 to 23 words as people write them, for one client also steps of 3 to 10, as models do.",
    "Bare endpoint: benchmarks/service/bare.py, as one would first write it. FastAPI and uvicorn, a plain `def` that "
    "embeds the query with the same model, multiplies the same matrix and answers with five ids; onnxruntime and BLAS "
    "take the threads that they take by themselves. The limits of throughput and p99 are against it.",
    "Tuned bare endpoint: the same with Waygraph's own embedder and BLAS on one thread, the stronger opponent; "
    "throughput has the same limit against it. Its p99 has none: of a fixed number of clients that each wait for their "
    "answer the mean latency is their number / throughput, so whoever does more for each request can have no lower p99 "
    "than one who does less, unless that one is unfair to its clients. How fair each is: p99 / p50.",
    "Start: the median of five, after one that is not counted.",
    "The servers are loaded in turn; figures are medians of the rounds, ratios medians of the rounds' ratios. The "
    "first 1.5 s of a round do not count.",
    "While tools are synchronised: every text of the thousand tools is new each time, so all are embedded. An answer "
    "tells its revision, and each synchronised tool its edition.",
    "Mixed load: 24 clients that route, search, list, type Cypher, make and revoke keys, write, and send what cannot "
    "be answered; memory is that of the server's process, read every 2 s.",
)


def run(world: World) -> Result:
    tools, synced, rounds = (QUICK_TOOLS, QUICK_SYNCED, QUICK_ROUNDS) if world.quick else (TOOLS, SYNCED, ROUNDS)
    queries, steps = Queries(texts=all_requests()), Queries(texts=all_steps())
    timing = speed.Timing(rounds=rounds, alone_s=2.0 if world.quick else 5.0, crowd_s=2.0 if world.quick else 8.0)
    with arena(world, tools) as made:
        parts = {
            "speed": speed.measured(made, queries, steps, timing),
            "syncing": syncing.measured(made, queries, tools=synced, rounds=min(rounds, 3), quiet_s=timing.crowd_s),
            "mixed": mixed.measured(made, queries, minutes=world.minutes),
        }
    return Result(
        name=NAME,
        embedder=made.embedder,
        measures=[measure for measures, _ in parts.values() for measure in measures],
        notes=NOTES,
        details={"tools": tools, **{name: details for name, (_, details) in parts.items()}},
    )
