"""A process that reads registries to the last word: `python -m benchmarks.store.reader`.

Each line of standard input is a path; it is answered by a line of JSON with all that the registry there lists and
answers (`fleet.read_all`), or with `error`, and `ours`: whether it is one of Waygraph's errors.
"""

import json
import sys

from benchmarks.store.fleet import read_all
from waygraph.registry.model.errors import WaygraphError
from waygraph.registry.registry import Registry


def main() -> None:
    for line in sys.stdin:
        print(json.dumps(_read(line.strip())), flush=True)


def _read(path: str) -> dict[str, object]:
    try:
        with Registry.open(path) as registry:
            return read_all(registry)
    except BaseException as error:  # noqa: BLE001 - a panic of the engine is no Exception; the benchmark judges it
        return {"error": f"{type(error).__name__}: {error}"[:300], "ours": isinstance(error, WaygraphError)}


if __name__ == "__main__":
    main()
