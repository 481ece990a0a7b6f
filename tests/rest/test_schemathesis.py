"""schemathesis against the live service: every operation, all checks, with a key."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import load_all_checks
from schemathesis.specs.openapi.checks import positive_data_acceptance

from tests.service import Served, served
from waygraph.api.rest.application import document
from waygraph.ingest.sources.read import read_path
from waygraph.ingest.sync.apply import sync
from waygraph.registry.model.settings import Settings


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory, catalog: Path) -> Iterator[Served]:
    """Over the example catalogue, which the requests change. Its limits of rate are off, of Cypher short."""
    limits = Settings(rate_per_minute=0, failures_per_minute=0, cypher_timeout_s=1.0)
    with served(auth=True, folder=tmp_path_factory.mktemp("keys"), settings=limits) as service:
        for manifest in read_path(str(catalog), Settings()):
            sync(service.registry, manifest)
        yield service


@pytest.fixture(scope="module")
def key(target: Served) -> str:
    return target.key(everything=True)


BEYOND_SCHEMAS = ("invalid-query", "cypher-refused", "cypher-failed", "cypher-limit", "source-error", "invalid-setting")
load_all_checks()
schema = schemathesis.openapi.from_dict(document())


@schema.parametrize()
@settings(
    max_examples=25,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
    phases=(Phase.explicit, Phase.generate),
    derandomize=True,
)
def test_the_service_is_as_its_document_says(case: "schemathesis.Case[Any]", target: Served, key: str) -> None:
    """No fault of its own, no answer that is not documented, what is wrong refused and what is right taken."""
    response = case.call(base_url=target.url, headers={"Authorization": f"Bearer {key}"})
    told = response.json().get("code") if response.status_code == 422 else ""
    # Whether it is one that can be read, no schema says: the text of a cursor, of a statement, of a source.
    beyond: list[Any] = [positive_data_acceptance] if told in BEYOND_SCHEMAS else []
    case.validate_response(response, excluded_checks=beyond)
