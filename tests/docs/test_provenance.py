"""Which commit a record names."""

import shutil
import subprocess
from pathlib import Path

import pytest

from waygraph_lab.evaluation.record import source_commit


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository with one committed file."""
    git = shutil.which("git")
    if git is None:
        pytest.skip("there is no git on this machine")
    folder = tmp_path / "project"
    (folder / "registry").mkdir(parents=True)
    (folder / "registry" / "a.py").write_text("one\n", encoding="utf-8")
    (folder / "evals").mkdir()
    (folder / "evals" / "a.json").write_text("{}\n", encoding="utf-8")
    author = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    for words in (["init", "-q"], ["add", "."], [*author, "commit", "-q", "-m", "first"]):
        subprocess.run([git, "-C", folder, *words], check=True)
    return folder


def test_a_checkout_has_its_commit(checkout: Path) -> None:
    """Short, and `+changes` once a tracked file differs; one that is not tracked and a record do not count."""
    commit = source_commit(checkout)
    assert len(commit) >= 7
    assert set(commit) <= set("0123456789abcdef")
    (checkout / "new.py").write_text("two\n", encoding="utf-8")
    (checkout / "evals" / "a.json").write_text("[]\n", encoding="utf-8")
    assert source_commit(checkout) == commit
    (checkout / "registry" / "a.py").write_text("two\n", encoding="utf-8")
    assert source_commit(checkout) == f"{commit}+changes"


def test_a_hook_of_another_checkout_changes_nothing(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = source_commit(checkout)
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "absent"))
    assert source_commit(checkout) == commit != ""


def test_what_lies_inside_of_another_project_has_none(checkout: Path, tmp_path: Path) -> None:
    """A folder of a repository is not its root: an installed package does not carry its host's commit."""
    assert source_commit(checkout / "registry") == ""
    (tmp_path / "plain").mkdir()
    assert source_commit(tmp_path / "plain") == ""
    assert source_commit(tmp_path / "absent") == ""
