"""The benchmark that compares `Registry.route` with that of an earlier commit."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.processes import plain_environ
from benchmarks.record import PROJECT
from benchmarks.route_ratio import BASE, NEW, OLD, export_layers, measure
from benchmarks.world import World
from waygraph.registry.model.settings import load_settings


def test_the_earlier_code_is_measured_beside_this_checkout(tmp_path: Path) -> None:
    """Over one registry, which the earlier code writes; each process imports its own code."""
    if not export_layers(BASE, tmp_path / "old"):
        pytest.skip(f"commit {BASE} is not in this clone's history")
    where = [sys.executable, "-c", "import waygraph.registry as r; print(r.__file__)"]
    environ = plain_environ(os.environ) | {"PYTHONPATH": str(tmp_path / "old")}
    output = subprocess.run(where, capture_output=True, text=True, check=True, env=environ, cwd=PROJECT).stdout
    assert Path(output.strip()) == tmp_path / "old" / "waygraph" / "registry" / "__init__.py"
    world = World(settings=load_settings(), environ=os.environ, data=tmp_path / "none", cache=tmp_path / "cache")
    measures = measure(world, tmp_path, tools=14, count=20)
    names = [f"Registry.route, 14 tools, {texts}" for texts in ("new texts", "vector cached")]
    assert [each.name for each in measures if each.target] == [f"{name}, {NEW} / {OLD}" for name in names]
    assert len(measures) == 6
    assert all(each.value > 0 for each in measures)


def test_a_commit_that_is_not_there_is_reported(tmp_path: Path) -> None:
    assert shutil.which("git")
    assert not export_layers("0" * 40, tmp_path)
    assert list(tmp_path.iterdir()) == []
