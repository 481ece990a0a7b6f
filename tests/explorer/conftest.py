"""The explorer as people meet it: a service over the example catalogue, and Chromium."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.browser import Visit, started_browser, visited
from tests.explorer.hostile import hostile_service
from tests.service import Served, served
from waygraph.ingest import ingest

__all__ = ["hostile_service"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Of each module: while one is driven, its event loop runs in this thread, and other tests need their own."""
    with started_browser() as browser:
        yield browser


@pytest.fixture(scope="module")
def explored(catalog: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service without authentication that holds the example catalogue; what a module's tests change stays changed."""
    with served(tmp_path_factory.mktemp("explored") / "r.grafeo") as service:
        ingest(service.registry, str(catalog))
        yield service


@pytest.fixture
def visit(browser: Browser, explored: Served) -> Iterator[Visit]:
    with visited(browser, explored.url) as visit:
        yield visit
