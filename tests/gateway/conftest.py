"""A registry with the tools of a real MCP server, and hosts that reach it through the gateway."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gateway.hosts import Place, toolbox_place
from tests.service import Served, served


@pytest.fixture(scope="module")
def toolbox(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """The server `box`, asked once; its tools are searched by words."""
    return toolbox_place(tmp_path_factory.mktemp("toolbox"))


@pytest.fixture(scope="module")
def service(toolbox: Place) -> Iterator[Served]:
    """A service over it, without authentication."""
    with served(toolbox.registry) as running:
        yield running


@pytest.fixture
def guarded(toolbox: Place, tmp_path: Path) -> Iterator[Served]:
    """The same, but it asks who calls."""
    with served(toolbox.registry, auth=True, folder=tmp_path) as running:
        yield running
