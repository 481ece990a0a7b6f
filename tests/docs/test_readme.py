"""README.md and docs/tutorial.md show what happens: their code runs, and their targets and commands exist."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, prose

README = ROOT / "README.md"


def test_the_examples_print_what_the_pages_show() -> None:
    """Python blocks run, and console blocks hold what the command prints, numbers apart; `make docs` updates them."""
    command: list[str | Path] = [sys.executable, ROOT / "scripts" / "tour.py", "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_targets_named_exist() -> None:
    named = set(re.findall(r"(?:^|`)make ([a-z][a-z-]*)", README.read_text(encoding="utf-8"), re.MULTILINE))
    named |= set(re.findall(r"(?:^|`)make ([a-z][a-z-]*)", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE))
    targets = set(re.findall(r"^([a-z0-9-]+):.*## ", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert named
    assert named - targets == set()


def test_make_lists_its_targets() -> None:
    make = shutil.which("make")
    if make is None:
        pytest.skip("there is no make on this machine")
    listed = subprocess.run([make, "-s", "-C", ROOT], capture_output=True, text=True, check=True).stdout
    lines = listed.splitlines()
    assert [line for line in lines if not re.match(r"make [a-z0-9-]+ +\S", line)] == []
    told = re.findall(r"^([\w-]+):.*## ", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert [line.split()[1] for line in lines] == told


def test_all_commands_are_named() -> None:
    """Each that `waygraph --help` lists stands in the README, and the list there names no other."""
    page = README.read_text(encoding="utf-8")
    command = Path(sys.executable).with_name("waygraph")
    told = subprocess.run([command, "--help"], capture_output=True, text=True, check=True).stdout
    commands = set(re.findall(r"^  ([a-z-]+)  ", told.partition("Commands:")[2], re.MULTILINE))
    named = set(re.findall(r"waygraph (?:--\S+ \S+ )*([a-z][a-z-]*)", page))
    listed = re.search(r"lists the rest: (.*?)\. Those", prose(README), re.DOTALL)
    assert listed
    rest = set(re.findall(r"`([a-z-]+)`", listed[1]))
    assert rest - commands == set()
    assert "`eval`, `generate` and `lint`" in page, "the lab brings these"
    assert commands - named - rest == {"eval", "generate", "lint"}
