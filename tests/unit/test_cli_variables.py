"""Variables that look like settings: what is misspelt is told once, what is somebody else's is not."""

import pytest

from benchmarks.world import DATA_VARIABLE
from waygraph.api.cli.app import misspelt
from waygraph.api.rest.bootstrap import OPTIONS_VARIABLE
from waygraph.ingest.manifest.environment import INPUT_PREFIX
from waygraph.registry.model.settings import VARIABLES


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("WAYGRAPH_EMBEDER", "WAYGRAPH_EMBEDDER"),
        ("WAYGRAPH_LOGLEVEL", "WAYGRAPH_LOG_LEVEL"),
        ("WAYGRAPH_REQUEST_TIMEOUT", "WAYGRAPH_REQUEST_TIMEOUT_S"),
        ("WAYGRAPH_KEY_FILE", "WAYGRAPH_KEYS_FILE"),
        ("WAYGRAPH_REGISTERY", "WAYGRAPH_REGISTRY"),
    ],
)
def test_a_misspelt_variable_is_told_with_the_nearest(given: str, meant: str) -> None:
    assert misspelt({given: "anything", "HOME": "/"}) == f"{given} is no setting; did you mean {meant}?"


@pytest.mark.parametrize(
    "name",
    [
        *sorted(VARIABLES),
        "WAYGRAPH_REGISTRY",
        OPTIONS_VARIABLE,
        DATA_VARIABLE,
        f"{INPUT_PREFIX}API_KEY",
        "WAYGRAPH_TEST_CACHE",
        "WAYGRAPH_REQUIRE_NEO4J",
        "WAYGRAPH_SERVICE_HOST",
        "WAYGRAPH_SERVICE_PORT_HTTP",
        "WAYGRAPH_PORT_8080_TCP_ADDR",
        "WAYGRAPH_NEO4J_SERVICE_HOST",
        "WAYGRAPH_NEO4J_PORT_7687_TCP",
        "WAYGRAPH_SECRET",
        "WAYGRAPH_GITHUB_API_KEY",
        "WAYGRAPH_NEO4J_URI",
        "EMBEDER",
    ],
)
def test_no_other_variable_is(name: str) -> None:
    """Settings; what the program, tests and benchmarks read; what a cluster tells of a service; somebody's own."""
    assert misspelt({name: "anything"}) == ""
