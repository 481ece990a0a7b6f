"""A Python process that routes: `python -m benchmarks.route_process REGISTRY`.

Each line of standard input is a JSON list of texts. It is answered by a line with the milliseconds of each route and
the memory of the process in MiB. It uses only `waygraph.registry.registry.Registry`, so that it runs on any release.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

from waygraph.registry.registry import Registry


def main(location: str) -> None:
    with Registry.open(location) as registry:
        for line in sys.stdin:
            print(json.dumps({"ms": [_route_ms(registry, text) for text in json.loads(line)], "mib": memory_mib()}))
            sys.stdout.flush()


def _route_ms(registry: Any, text: str) -> float:
    start = time.perf_counter()
    registry.route(text)
    return (time.perf_counter() - start) * 1000


def memory_mib() -> dict[str, float]:
    """Resident memory now, at its peak, and the parts of it that are anonymous and of files."""
    rows = (line.split() for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines())
    names = {"VmRSS:", "VmHWM:", "RssAnon:", "RssFile:"}
    return {row[0].rstrip(":"): int(row[1]) / 1024 for row in rows if row and row[0] in names}


if __name__ == "__main__":
    main(sys.argv[1])
