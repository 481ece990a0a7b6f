"""A Python process that stays: `python -m benchmarks.store.process REGISTRY`.

Each line of standard input is one JSON request, answered by one line of JSON. `change`: a catalogue document, ingested
as one source; `route`: texts. The answer holds the milliseconds of each, and the memory of the process in MiB. It uses
only what every release has.
"""

import json
import sys
import time
from collections.abc import Callable
from typing import Any

from benchmarks.route_process import memory_mib
from waygraph.ingest import ingest
from waygraph.registry.registry import Registry

SOURCE = "change"


def main(location: str) -> None:
    with Registry.open(location) as registry:
        for line in sys.stdin:
            print(json.dumps({"ms": _answer(registry, json.loads(line)), "mib": memory_mib()}), flush=True)


def _answer(registry: Any, request: dict[str, Any]) -> list[float]:
    if "change" in request:
        return [_ms(lambda: ingest(registry, request["change"], source=SOURCE))]
    return [_ms(lambda text=text: registry.route(text)) for text in request["route"]]  # type: ignore[misc]


def _ms(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) * 1000


if __name__ == "__main__":
    main(sys.argv[1])
