"""Variables of the environment that look like settings and set nothing: one letter amiss, and a default holds."""

import re
from collections.abc import Mapping

_OTHERS = re.compile(
    "WAYGRAPH_(SERVICE_CHOSEN|(BENCH|INPUT|REQUIRE|TEST)_.*"  # of workers; of benchmarks, configurations and tests
    "|(.*_)?(SERVICE_HOST|PORT)(_.*)?)"  # as Kubernetes and Docker tell of a service whose name begins like ours
)
_PREFIX = "WAYGRAPH_"
LEAST_LIKENESS = 0.88
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

    # What all begin with would make all alike.
    rest = {name.removeprefix(_PREFIX) for name in known}
    unknown = sorted(given - known)
    near = {name: nearest(name.removeprefix(_PREFIX), rest, least=LEAST_LIKENESS) for name in unknown}
    return "; ".join(
        f"{name} is no setting; did you mean {_PREFIX}{found[0]}?" for name, found in near.items() if found
    )
