"""What tests of calls share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.calling.opened_here import Here
from waygraph.registry import Registry


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Here]:
    with Registry.open(tmp_path / "r.grafeo", embedder="none", environ={}) as registry:
        yield Here(tmp_path, registry)
