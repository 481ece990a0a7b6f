"""What tests share that hold in every place."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.places import PLACES, Place, Servers, new_place
from tests.shelf import Shelf
from waygraph.registry.storage.local_registry import LocalRegistry


@pytest.fixture(scope="module", params=PLACES)
def shelf(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, neo4j_servers: Servers
) -> Iterator[Shelf]:
    with closing(Shelf(request.param, lambda: tmp_path_factory.mktemp("shelf"), neo4j_servers)) as opened:
        yield opened


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest, tmp_path: Path, neo4j_servers: Servers) -> Place:
    return new_place(request.param, tmp_path, neo4j_servers)


@pytest.fixture
def registry(place: Place) -> Iterator[LocalRegistry]:
    with LocalRegistry.open(place.location, embedder="none", settings=place.settings, environ={}) as opened:
        yield opened
