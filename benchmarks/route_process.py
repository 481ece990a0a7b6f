"""A Python process that routes: `python -m benchmarks.route_process REGISTRY COUNT`. Prints its memory as JSON."""

import json
import sys
from pathlib import Path

from benchmarks.catalogue import requests
from waygraph.registry import Registry


def main(location: str, count: str) -> None:
    with Registry.open(location) as registry:
        texts = requests(int(count))
        for text in texts:
            registry.route(text)
        print(json.dumps(memory_mib() | {"routes": len(texts), "tools": registry.status().state.tools}))


def memory_mib() -> dict[str, float]:
    """Resident memory now, at its peak, and the parts of it that are anonymous and of files, in MiB."""
    rows = (line.split() for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines())
    wanted = {"VmRSS:", "VmHWM:", "RssAnon:", "RssFile:"}
    return {row[0].rstrip(":"): int(row[1]) / 1024 for row in rows if row and row[0] in wanted}


if __name__ == "__main__":
    main(*sys.argv[1:])
