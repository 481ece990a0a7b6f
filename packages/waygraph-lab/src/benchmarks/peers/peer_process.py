"""A peer in a process of its own: `python -m benchmarks.peers.peer_process NAME CATALOGUE CACHE`.

It takes the catalogue in and says how that went; then each line of standard input, `{"texts": […], "limit": n}`, is
answered by a line with the agents and the milliseconds of each text. All lines are JSON; what the peer itself prints
goes to standard error.
"""

import json
import os
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from benchmarks.peers.peer import read_catalogue_file
from benchmarks.peers.vectors import Vectors
from benchmarks.route_process import memory_mib
from waygraph.registry.model.settings import Settings

if TYPE_CHECKING:
    from benchmarks.peers.contenders import Contender
    from benchmarks.peers.peer import Peer


def main(name: str, catalogue: str, cache: str) -> int:
    from benchmarks.peers.contenders import contender_named

    answers = _own_stdout()
    vectors = Vectors(Settings(cache_dir=cache))
    try:
        peer, told = take_in(contender_named(name), Path(catalogue), vectors)
    except ImportError as error:
        _say(answers, {"failed": f"not installed: {error}"})
        return 1
    _say(answers, told)
    for line in sys.stdin:
        asked = json.loads(line)
        _say(answers, ask(peer, asked["texts"], asked["limit"]))
    return 0


def take_in(contender: "Contender", catalogue: Path, vectors: Vectors) -> tuple["Peer", dict[str, Any]]:
    """The peer with the catalogue in it. `ingest_s` counts imports too, and leaves out `vectors_s`."""
    manifest = read_catalogue_file(catalogue)
    started = time.perf_counter()
    peer = contender.make(vectors)
    peer.ingest(manifest)
    seconds = time.perf_counter() - started
    return peer, {
        "ingest_s": seconds - vectors.documents_s,
        "vectors_s": vectors.documents_s,
        "texts": vectors.documents,
        "newly_embedded": vectors.newly_embedded,
    }


def ask(peer: "Peer", texts: Sequence[str], limit: int) -> dict[str, Any]:
    """Agents and milliseconds of each text, and the memory of this process after the last."""
    agents, times = [], []
    for text in texts:
        started = time.perf_counter()
        agents.append(peer.ask(text, limit))
        times.append((time.perf_counter() - started) * 1000)
    return {"agents": agents, "ms": times, "memory": memory_mib()}


def _own_stdout() -> TextIO:
    """Standard output as it was; from now on what is printed goes to standard error."""
    own = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return own


def _say(answers: TextIO, said: dict[str, Any]) -> None:
    answers.write(json.dumps(said) + "\n")
    answers.flush()


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        sys.exit(main(*sys.argv[1:]))
