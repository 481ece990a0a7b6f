"""Services that tests of the REST API share."""

from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.service import Served, served
from waygraph import Settings
from waygraph.ingest.sources.read import read_path
from waygraph.ingest.sync.apply import sync
from waygraph.registry.registry import Registry


@pytest.fixture(scope="session")
def catalogue_file(tmp_path_factory: pytest.TempPathFactory, catalog: Path) -> Path:
    """A registry of the example catalogue with vectors, which no test changes."""
    path = tmp_path_factory.mktemp("catalogue") / "r.grafeo"
    with Registry.open(path, environ={}) as registry:
        for manifest in read_path(str(catalog), Settings(), source="examples/catalog"):
            sync(registry, manifest)
    return path


@pytest.fixture(scope="module")
def example(catalogue_file: Path) -> Iterator[Served]:
    """Over the example catalogue, without authentication; no test changes it."""
    with served(catalogue_file, embedder="") as service:
        yield service


@pytest.fixture
def blank() -> Iterator[Served]:
    """Over a registry that is not there yet, without authentication and vectors."""
    with served() as service:
        yield service


@pytest.fixture
def client(blank: Served) -> httpx2.Client:
    return blank.client()


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Served]:
    """The same, but it asks who calls."""
    with served(auth=True, folder=tmp_path) as service:
        yield service
