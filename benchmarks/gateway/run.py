"""The benchmark `gateway`."""

import logging
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import anyio

from benchmarks.catalogue import requests
from benchmarks.gateway import finding, kills, overhead, sessions, starting, tokens
from benchmarks.gateway.counting import Counter, counter
from benchmarks.gateway.scene import Scene, scene
from benchmarks.record import Measure, Result
from benchmarks.world import World, scratch_folder, write_catalogue
from waygraph.ingest.sources.read import read_path

NAME = "gateway"
LIVEMCPBENCH = "livemcpbench"
QUERIES_SEED = 23
type Part = tuple[list[Measure], dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """How much of everything. `programs`: runs of `waygraph mcp`; `starts`: how often it is started among `servers`."""

    tools: int = 5_000
    calls: int = 600
    finds: int = 400
    token_queries: int = 60
    sessions: int = 1_000
    programs: int = 20
    upstreams: int = 10
    killed_calls: int = 2_000
    kills: int = 20
    servers: int = 50
    starts: int = 7


WHOLE = Sizes()
QUICK = Sizes(
    tools=500,
    calls=40,
    finds=30,
    token_queries=5,
    sessions=40,
    programs=2,
    upstreams=3,
    killed_calls=200,
    kills=4,
    servers=8,
    starts=1,
)
NOTES = (
    "`waygraph mcp` and `waygraph serve` as they come, each in a process of its own over one registry file; the client "
    "is the MCP SDK's own, in the measuring process. Servers are programs on the SDK's low-level server "
    "(benchmarks/gateway/upstream.py). All of them share the processors.",
    "Tool calls: the same calls are made in every way, ten in a row, beginning with another way each time; the first "
    "30 rounds do not count. `more than directly` is the median of the rounds' differences. The registry holds 5,000 "
    "invented tools beside those that are called. After a call of a tool that is not in the server's list the SDK's "
    "client asks for the list again, to look for a schema of the result: a call of a found tool is measured without "
    "that second request, as of hosts that make none, and with it; without it the call is compared with the direct "
    "one that is asked in the same way, as one request and its answer. The least gateway "
    "(benchmarks/gateway/bare.py) is the SDK's server before the SDK's client, and nothing else.",
    "find_tools: limit 5, detail as it comes. New queries were never asked before, so that their embedding is paid in "
    "each process; then the same again. Steps are of 3 to 10 words, as models write them, requests of 9 to 23. Every "
    "query is asked in all ways, ten in a row each. The bare pipe writes a line and reads one; the SDK's client "
    "does more with both.",
    "Tokens: what a host puts before its model in each request, as compact JSON: all tools as one list, and the "
    "gateway's list with its instructions. Of find_tools the text of the answer, the mean of the queries, by a session "
    "that remembers nothing of earlier ones. For all tools no instructions of their servers are counted.",
    "Sessions: a client connects, lists, finds, calls a tool and closes, four at a time; resident memory, open files "
    "and processes of the service after a tenth of them and at the end, 2 s after the last was closed.",
    "Killed: ten callers take one call after the other, each of a server chosen by chance; at calls chosen by chance "
    "one server's process is killed by SIGKILL, each server twice. A call whose server is killed while it runs may "
    "fail. The next call is the first to begin 0.1 s after the kill.",
    "Starts: the registry has been told of all servers when all were alive; one's program is gone since, one exits at "
    "once, one reads and never answers, one writes what is no message, one closes its output. Median of seven starts "
    "after one that does not count; the call of the dead has a deadline of 5 s.",
)


def run(world: World) -> Result:
    return measure(world, QUICK if world.quick else WHOLE, counter(world))


def measure(world: World, sizes: Sizes, counting: Counter) -> Result:
    parts: dict[str, Part] = {}
    logging.getLogger("client").setLevel(logging.ERROR)  # the SDK's, which warns of each call of an unlisted tool

    def part(name: str, measured: Callable[[], Awaitable[Part]]) -> None:
        print(f"gateway: {name}", file=sys.stderr)
        parts[name] = anyio.run(measured)

    with _invented(world, sizes.tools) as made:
        asked = requests(sizes.token_queries, seed=QUERIES_SEED)
        part("tokens", lambda: tokens.measured(made, counting, asked, what="invented"))
        overhead.prepare(made)
        part("overhead", lambda: overhead.measured(made, calls=sizes.calls))
        part("finding", lambda: finding.measured(made, tools=sizes.tools, queries=sizes.finds))
        part("sessions", lambda: sessions.measured(made, sessions=sizes.sessions, programs=sizes.programs))
        kills.prepare(made, sizes.upstreams)
        part(
            "kills",
            lambda: kills.measured(made, upstreams=sizes.upstreams, calls=sizes.killed_calls, kills=sizes.kills),
        )
        starting.prepare(made, sizes.servers)
        part("starts", lambda: starting.measured(made, servers=sizes.servers, starts=sizes.starts))
    if world.has(LIVEMCPBENCH):
        part(LIVEMCPBENCH, lambda: _of_livemcpbench(world, sizes, counting))
    return Result(
        name=NAME,
        embedder=made.embedder,
        measures=[measure for measures, _ in parts.values() for measure in measures],
        notes=NOTES,
        details={"vocabulary": counting.vocabulary, **{name: details for name, (_, details) in parts.items()}},
    )


@contextmanager
def _invented(world: World, tools: int) -> Iterator[Scene]:
    with (
        scratch_folder() as folder,
        scene(world, read_path(str(write_catalogue(folder, tools)), world.settings)) as made,
    ):
        yield made


async def _of_livemcpbench(world: World, sizes: Sizes, counting: Counter) -> Part:
    """Its 70 servers, asked for by its steps."""
    dataset = world.dataset(LIVEMCPBENCH)
    queries = [asked.texts[0] for asked in dataset.asked("steps")][: sizes.token_queries]
    with scene(world, [dataset.catalogue]) as made:
        return await tokens.measured(made, counting, queries, what=dataset.name)
