"""The benchmarks as a wheel installs them: without the repository's tests, in an empty folder."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.record import NEEDS_CLONE, PROJECT

LAB = PROJECT / "packages" / "waygraph-lab" / "src"
IMPORT_ALL = """
import importlib, pkgutil, benchmarks
from importlib.util import find_spec
assert find_spec("tests") is None
assert find_spec("scripts") is None
names = [each.name for each in pkgutil.walk_packages(benchmarks.__path__, "benchmarks.")]
for name in names:
    importlib.import_module(name)
print(len(names), benchmarks.__file__)
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of packages with the lab in it, as an installer leaves it."""
    folder = tmp_path_factory.mktemp("site")
    for name in ("benchmarks", "waygraph_lab"):
        shutil.copytree(LAB / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def run(site: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """By an interpreter that finds the product's code, the lab as installed, and no folder of the repository."""
    environ = {**os.environ, "PYTHONPATH": f"{site}{os.pathsep}{PROJECT / 'src'}", "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environ, capture_output=True, text=True, check=False
    )


def test_every_module_is_imported_without_the_repository(site: Path, tmp_path: Path) -> None:
    done = run(site, tmp_path, "-c", IMPORT_ALL)
    assert done.returncode == 0, done.stderr
    count, file = done.stdout.split()
    modules = [path for path in LAB.joinpath("benchmarks").rglob("*.py") if path.name != "__init__.py"]
    packages = list(LAB.joinpath("benchmarks").rglob("__init__.py"))
    assert int(count) == len(modules) + len(packages) - 1
    assert Path(file).is_relative_to(site)


def test_commands_start_in_an_empty_folder(site: Path, tmp_path: Path) -> None:
    """What needs a clone, data or a browser says so in one line; records go to the current folder, also in one."""
    assert "usage: python -m benchmarks" in run(site, tmp_path, "-m", "benchmarks", "--help").stdout
    listed = run(site, tmp_path, "-m", "benchmarks", "list").stdout.splitlines()
    assert any(line.startswith("livemcpbench: ") for line in listed)
    assert any(line.startswith("loop: ") and line.endswith(" Only when named.") for line in listed)
    skipping = ("first_call", "suspicion", "agent_as_a_graph")
    done = run(site, tmp_path, "-m", "benchmarks", *skipping, "table", "--data", str(tmp_path / "none"))
    assert done.returncode == 0, done.stderr
    assert f"records are read and written in {tmp_path / 'evals'}" in done.stderr.splitlines()
    assert f"first_call: skipped, {NEEDS_CLONE}" in done.stderr.splitlines()
    assert f"suspicion: skipped, {NEEDS_CLONE}" in done.stderr.splitlines()
    assert "| What | Measured | Target | Met |" in done.stdout
    assert run(site, tmp_path, "-m", "benchmarks", "details").stdout.strip() == ""
    assert not (tmp_path / "evals").exists()


def test_a_benchmark_leaves_its_record_in_the_current_folder(site: Path, tmp_path: Path) -> None:
    """It runs with what the wheel brings, such as its list of words; the page is printed and not written."""
    done = run(site, tmp_path, "-m", "benchmarks", "hidden_words", "table", "--quick")
    assert done.returncode == 0, done.stderr
    record = json.loads((tmp_path / "evals" / "hidden_words.json").read_text(encoding="utf-8"))
    assert record["measures"][0]["name"] in done.stdout
    assert {path.name for path in tmp_path.iterdir()} == {"evals"}
