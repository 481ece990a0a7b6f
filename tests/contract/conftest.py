"""What tests share that hold in every place."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.places import PLACES, Servers
from tests.shelf import Shelf


@pytest.fixture(scope="module", params=PLACES)
def shelf(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, neo4j_servers: Servers
) -> Iterator[Shelf]:
    with closing(Shelf(request.param, lambda: tmp_path_factory.mktemp("shelf"), neo4j_servers)) as opened:
        yield opened
