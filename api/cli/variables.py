"""Variables of the environment that look like settings and set nothing: one letter amiss, and a default holds."""

import re
from collections.abc import Mapping

_OTHERS = re.compile(
    "WAYGRAPH_(SERVICE_CHOSEN|(BENCH|INPUT|REQUIRE|TEST)_.*"  # of workers; of benchmarks, configurations and tests
    "|(.*_)?(SERVICE_HOST|PORT)(_.*)?)"  # as Kubernetes and Docker tell of a service whose name begins like ours
)
LEAST_LIKENESS = 0.8
"""What is less like any setting may be somebody's own, such as one that a configuration refers to."""


def misspelt(environ: Mapping[str, str]) -> str:
    """What to tell of them, by their names alone; empty if there are none."""
    given = {name for name in environ if name.startswith("WAYGRAPH_") and not _OTHERS.fullmatch(name)}
    if not given:
        return ""
    from waygraph.registry.settings import VARIABLES  # only where something is set: help starts without it

    known = VARIABLES | {"WAYGRAPH_REGISTRY"}
    if not given - known:
        return ""
    from waygraph.registry.nearest import nearest

    near = {name: nearest(name, known, least=LEAST_LIKENESS) for name in sorted(given - known)}
    return "; ".join(f"{name} sets nothing; did you mean {names[0]}?" for name, names in near.items() if names)
