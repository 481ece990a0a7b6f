"""The benchmark `live_ingest`."""

from benchmarks.live import changes, fleet, killing, polling, silent
from benchmarks.live.scene import scene
from benchmarks.record import Result
from benchmarks.world import World

NAME = "live_ingest"
SERVERS, QUICK_SERVERS, TOOLS = 200, 10, 20
POLLS, QUICK_POLLS = 1_000, 50
NOTES = (
    "Servers: real MCP servers over HTTP on this machine, 20 tools each, all in one process of their own "
    "(benchmarks/live/stubs.py), each at its path; every text is distinct. Their work counts: it is done on the same "
    "processors.",
    "First sync: `Watch` in a new process over a configuration of 200 servers and a new registry, with the model on "
    "disk and nothing embedded yet, until every tool is in the registry. Bare: the same embedder is given the same "
    "distinct texts in one call. They run in turn. Unchanged: the same again in a new process, over the registry made.",
    "One that never answers: 49 servers with and without a fiftieth that takes its request and answers nothing, each "
    "into a new registry, from the start until the tools of all 49 are there, vectors from a filled cache.",
    "list_changed: a server of a watch that follows 200 adds a tool and tells of it; until `find_tools` gives it. "
    "From before the server is asked to add it.",
    "Polls: 20 servers that do not tell of changes are listed anew all the time; resident memory and open files of "
    "the watching process after a tenth of the polls and at their end.",
    "kill -9: `waygraph watch` of six servers, started by their command in Python; processes that are left after 2 s.",
)


def run(world: World) -> Result:
    servers, polls = (QUICK_SERVERS, QUICK_POLLS) if world.quick else (SERVERS, POLLS)
    with scene(world, servers, TOOLS) as made:
        parts = {
            "first": fleet.measured(made, rounds=1 if world.quick else 2),
            "silent": silent.measured(made, among=min(servers, 50) - 1, rounds=1 if world.quick else 3),
            "changes": changes.measured(made, times=5 if world.quick else 30),
            "polls": polling.measured(made, servers=min(servers, 20), polls=polls),
            "killed": killing.measured(made, servers=6),
        }
    return Result(
        name=NAME,
        embedder=made.embedder.fingerprint,
        measures=[measure for measures, _ in parts.values() for measure in measures],
        notes=NOTES,
        details={"servers": servers, "tools": TOOLS, **{name: details for name, (_, details) in parts.items()}},
    )
