"""The wheel alone is enough: built once, installed where nothing else of Waygraph is, it routes."""

import os
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from pathlib import Path

import pytest

from tests.architecture.tree import ROOT, files, project
from tests.release.conftest import wheel_of
from waygraph.cypher import names

REQUEST = "who still owes us money"
RIGHT = "ledgerleaf"
LAB = ROOT / "packages" / "waygraph-lab"
LAB_COMMANDS = ("eval", "generate", "learn embedder", "learn ranker", "learn suspicion")


@pytest.fixture(scope="session")
def wheel(dist: Path) -> Path:
    return wheel_of(dist, "waygraph")


@pytest.fixture(scope="session")
def lab_wheel(dist: Path) -> Path:
    return wheel_of(dist, "waygraph_lab")


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    """A virtual environment with nothing in it; its bin folder."""
    run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], tmp_path)
    return tmp_path / "venv" / "bin"


def run(command: list[str | Path], folder: Path, **environ: str) -> str:
    """What the command prints. It sees no setting of Python's, so no folder but its own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    done = subprocess.run(command, cwd=folder, env=kept | environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def install(wheel: Path, bin_folder: Path, *options: str) -> None:
    pip: list[str | Path] = [sys.executable, "-m", "pip", "--python", bin_folder / "python", "install", "--quiet"]
    run([*pip, *options, wheel], bin_folder)


def told(bin_folder: Path, expression: str, *imports: str) -> str:
    """What the environment's Python says of an expression."""
    lines = [*(f"import {name}" for name in imports), f"print({expression})"]
    return run([bin_folder / "python", "-c", "\n".join(lines)], bin_folder).strip()


def routed(bin_folder: Path, folder: Path) -> str:
    """The answer of the installed command to a request, over the example catalogue, in an empty folder."""
    environ = {"WAYGRAPH_REGISTRY": str(folder / "wheel.grafeo"), "COLUMNS": "120"}
    run([bin_folder / "waygraph", "ingest", ROOT / "examples" / "catalog"], folder, **environ)
    return run([bin_folder / "waygraph", "route", REQUEST], folder, **environ)


def test_the_wheel_carries_the_whole_tree(wheel: Path) -> None:
    """Every module, statement, page template and the typing mark are in it, and nothing beside them."""
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if not name.startswith("waygraph-")}
    own = {f"waygraph/{name}" for name in ("__init__.py", "__main__.py", "py.typed")}
    assert held == {f"waygraph/{path.relative_to(ROOT)}" for path in files()} | own
    assert {f"waygraph/cypher/{name}.cypher" for name in names()} | {"waygraph/registry/py.typed"} <= held


def install_over_dependencies(wheel: Path, bin_folder: Path) -> Path:
    """Into an environment that sees the dependencies but not the working tree; its folder of packages."""
    install(wheel, bin_folder, "--no-deps")
    # Only the folder, not the .pth files in it: among those is the one that leads to the working tree.
    site = Path(told(bin_folder, "sysconfig.get_path('purelib')", "sysconfig"))
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return site


def test_the_wheel_alone_routes(wheel: Path, empty: Path, tmp_path: Path) -> None:
    """In an environment that sees the dependencies but not the working tree, the installed command answers."""
    site = install_over_dependencies(wheel, empty)
    assert Path(told(empty, "waygraph.registry.__file__", "waygraph.registry")).is_relative_to(site)
    assert RIGHT in routed(empty, tmp_path)
    assert "Usage: waygraph" in run([empty / "python", "-m", "waygraph", "--help"], tmp_path)
    assert told(empty, "waygraph.__version__", "waygraph") == project()["project"]["version"]


def test_a_clone_does_not_shadow_what_is_installed(wheel: Path, empty: Path, tmp_path: Path) -> None:
    """Beside a folder named `waygraph`, as a clone is, Python still imports the installed package."""
    site = install_over_dependencies(wheel, empty)
    (tmp_path / "waygraph" / "registry").mkdir(parents=True)
    (tmp_path / "waygraph" / "registry" / "__init__.py").touch()
    program = "import waygraph; print(waygraph.__file__, waygraph.Query.__module__)"
    file, module = run([empty / "python", "-c", program], tmp_path).split()
    assert Path(file).is_relative_to(site)
    assert module == "waygraph.registry.model.nouns"


def test_the_lab_brings_its_commands(wheel: Path, lab_wheel: Path, empty: Path, tmp_path: Path) -> None:
    """Without the lab each of its commands says in one line how to get it; with the lab's wheel each is there."""
    site = install_over_dependencies(wheel, empty)
    # Metadata of the working tree's lab stands among the dependencies: a copy of all but that.
    (site / "dependencies.pth").unlink()
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if not path.name.startswith(("waygraph", "__editable__")) and not (site / path.name).exists():
            (site / path.name).symlink_to(path)
    for command in LAB_COMMANDS:
        done = subprocess.run(
            [empty / "waygraph", *command.split(), "--help"], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 1
        assert done.stderr.splitlines() == [
            f"error: waygraph {command} needs waygraph-lab, which is not installed: pip install waygraph-lab"
        ]
    install(lab_wheel, empty, "--no-deps")
    for command in LAB_COMMANDS:
        assert f"Usage: waygraph {command}" in run([empty / "waygraph", *command.split(), "--help"], tmp_path)
    with zipfile.ZipFile(lab_wheel) as archive:
        held = {name for name in archive.namelist() if name.startswith(("benchmarks/", "waygraph/"))}
    tree = [path for path in (LAB / "src" / "benchmarks").rglob("*") if path.is_file() and path.suffix != ".pyc"]
    assert held == {path.relative_to(LAB / "src").as_posix() for path in tree}
    assert "livemcpbench: " in run([empty / "python", "-m", "benchmarks", "list"], tmp_path)


def test_the_lab_and_the_locks_agree_on_its_extras() -> None:
    lab = tomllib.loads((LAB / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert lab["version"] == project()["project"]["version"]
    assert {name: project()["dependency-groups"][name] for name in lab["optional-dependencies"]} == lab[
        "optional-dependencies"
    ]
