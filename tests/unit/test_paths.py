"""What a person wrote as a path: a mistake is one line, never a traceback."""

from collections.abc import Callable
from pathlib import Path

import pytest

from waygraph.ingest.execution.services import load_services
from waygraph.ingest.hosts.hosts import absolute
from waygraph.registry.access.policy import load_policy
from waygraph.registry.embedding import open_embedder
from waygraph.registry.model.errors import InvalidSetting
from waygraph.registry.model.files import as_written
from waygraph.registry.model.settings import Settings
from waygraph.registry.registry import Registry
from waygraph.registry.storage.location import is_part_of

NOBODYS = "~no-such-user/x"
TAKEN: dict[str, Callable[[str], object]] = {
    "registry": Registry.open,
    "export": lambda path: is_part_of(Path(path), "r.grafeo"),
    "host": lambda path: absolute(path, Path.cwd()),
    "model": lambda path: open_embedder(f"onnx:{path}", Settings(), {}),
    "policy": load_policy,
    "services": load_services,
    "cache": lambda path: Settings(cache_dir=path).cache_path,
    "data": lambda path: Settings(data_dir=path).data_path,
    "keys": lambda path: Settings(keys_file=path).keys_path,
    "audit": lambda path: Settings(audit_file=path).audit_path,
}


def test_a_home_is_put_in_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ann")
    assert [str(as_written(path)) for path in ("~/r.grafeo", "r~", Path("/x"))] == ["/home/ann/r.grafeo", "r~", "/x"]


@pytest.mark.parametrize("takes", TAKEN.values(), ids=TAKEN)
def test_the_home_of_nobody_is_told(takes: Callable[[str], object]) -> None:
    with pytest.raises(InvalidSetting, match=f"'{NOBODYS}': nobody here has such a home"):
        takes(NOBODYS)
