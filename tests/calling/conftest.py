"""What tests of calls share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.calling.opened_here import Here
from waygraph.registry.storage.local_registry import LocalRegistry


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Here]:
    with LocalRegistry.open(tmp_path / "r.grafeo", embedder="none", environ={}) as registry:
        yield Here(tmp_path, registry)
