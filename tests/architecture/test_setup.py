"""Set-up on a bare machine: it finds a fitting Python, or says in one line how to get one."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.tree import ROOT

FIND_PYTHON = ROOT / "scripts" / "find-python"
TOOLS = ("sh", "ls", "sort", "dirname")


@pytest.fixture
def bare(tmp_path: Path) -> dict[str, str]:
    """An environment whose PATH holds a shell and hardly more, and a home with nothing in it."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for tool in TOOLS:
        found = shutil.which(tool)
        assert found
        (folder / tool).symlink_to(found)
    return {"PATH": str(folder), "HOME": str(tmp_path)}


FAKE = """#!{python}
import sys
if sys.argv[1] == "--version":
    sys.exit(print("Python {version}"))
sys.version_info = tuple(map(int, "{version}".split(".")))
exec(sys.argv[2])
"""
"""A Python that takes itself for another version; `-c CODE` is all it is asked."""


def add_python(environ: dict[str, str], name: str, version: str) -> Path:
    path = Path(environ["PATH"]) / name
    path.write_text(FAKE.format(python=sys.executable, version=version), encoding="utf-8")
    path.chmod(0o755)
    return path


def find(environ: dict[str, str]) -> subprocess.CompletedProcess[str]:
    shell = shutil.which("sh", path=environ["PATH"])
    assert shell
    return subprocess.run([shell, FIND_PYTHON], env=environ, capture_output=True, text=True, check=False)


def test_without_a_python_one_line_says_what_to_do(bare: dict[str, str]) -> None:
    """Nothing fits: exit 1, and one line that names the version wanted and ways to get it."""
    found = find(bare)
    assert (found.returncode, found.stdout) == (1, "")
    (line,) = found.stderr.splitlines()
    assert "3.12" in line
    assert "uv python install" in line
    assert "PYTHON=" in line


def test_a_python_that_is_too_old_is_named(bare: dict[str, str]) -> None:
    """The line says which Python was seen, so that nobody wonders why theirs was not taken."""
    add_python(bare, "python3", "3.11.0")
    found = find(bare)
    assert found.returncode == 1
    assert "seen: Python 3.11.0" in found.stderr


def test_the_python_asked_for_is_used_or_refused(bare: dict[str, str]) -> None:
    add_python(bare, "python3.13", "3.13.0")
    old = add_python(bare, "old", "3.10.0")
    found = find({**bare, "PYTHON": str(old)})
    assert found.returncode == 1
    assert f"PYTHON={old}" in found.stderr
    assert find({**bare, "PYTHON": sys.executable}).stdout.strip() == sys.executable


def test_an_install_by_an_older_python_says_which_one_it_needs(bare: dict[str, str]) -> None:
    """An older pip reads our dependencies before our `requires-python`, and only says that one of them is missing."""
    old = add_python(bare, "python3.11", "3.11.2")
    code = f"import runpy; runpy.run_path({str(ROOT / 'setup.py')!r})"
    built = subprocess.run([old, "-c", code], env=bare, capture_output=True, text=True, check=False)
    assert (built.returncode, built.stderr) == (1, "Waygraph needs Python 3.12 or newer; this is 3.11.\n")
