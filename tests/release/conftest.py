"""What `make release` builds, built once from a copy of the tree."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.tree import PARTS, ROOT

BUILT_OF = (*PARTS, "src", "deploy", "packages", "scripts", "pyproject.toml", "README.md", "LICENSE")
GIVEN = os.environ.get("WAYGRAPH_DIST", "")
"""A folder that is built already: `make release` has its own checked."""


@pytest.fixture(scope="session")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, so that the working tree stays as it is."""
    if GIVEN:
        return Path(GIVEN).resolve()
    copy = tmp_path_factory.mktemp("built")
    for name in BUILT_OF:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, copy / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, copy)
    command = [sys.executable, "-m", "scripts.build_release", "--no-sbom"]
    done = subprocess.run(command, cwd=copy, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return copy / "dist"


def wheel_of(dist: Path, package: str) -> Path:
    """The one wheel of a package, whatever its version."""
    [wheel] = dist.glob(f"{package}-*.whl")
    return wheel
