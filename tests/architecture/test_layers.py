"""The import direction: the rules hold, and each of them would catch its fault."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.tree import PARTS, ROOT, project

LINT_IMPORTS = Path(sys.executable).with_name("lint-imports")
RUFF = Path(sys.executable).with_name("ruff")

PLANTED = {
    "registry/model/nouns.py": "import waygraph.ingest.sync.apply, waygraph.registry.model.changes",
    "registry/routing/votes.py": "import grafeo, waygraph.registry.storage.store",
    "registry/registry.py": (
        "import neo4j, onnx, Stemmer, fastapi, jsonschema_rs, jwt, matplotlib, mcp, opentelemetry, "
        "pydantic_core, structlog, typer"
    ),
    "ingest/sync/apply.py": "import huggingface_hub, waygraph.ingest.pipeline",
    "ingest/sources/parse.py": "import waygraph.ingest.sources.formats.skill",
    "adapters/haystack.py": "import waygraph.adapters.langchain",
    "api/telemetry/traces.py": "import waygraph.api.cli.app",
}
"""File → a line that breaks rules: each contract is broken by one of them."""


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """The tree under its import names, in a folder of its own."""
    for part in PARTS:
        shutil.copytree(ROOT / part, tmp_path / "waygraph" / part, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "src" / "waygraph" / "__init__.py", tmp_path / "waygraph")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def verdicts(folder: Path) -> dict[str, str]:
    """Contract → KEPT or BROKEN, as lint-imports says in this folder."""
    command: list[str | Path] = [LINT_IMPORTS, "--no-logo", "--no-cache"]
    said = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    names = [contract["name"] for contract in project()["tool"]["importlinter"]["contracts"]]
    lines = [line for line in said.stdout.splitlines() if line.startswith(tuple(names))]
    found = {name: word for line in lines for name in names for word in ("KEPT", "BROKEN") if f"{name} {word}" in line}
    assert (said.returncode == 0) == (set(found.values()) == {"KEPT"}), said.stdout + said.stderr
    assert found.keys() == set(names), said.stdout + said.stderr
    return found


def test_the_import_direction_holds(copied: Path) -> None:
    assert set(verdicts(copied).values()) == {"KEPT"}


def test_every_contract_catches_its_fault(copied: Path) -> None:
    """With a forbidden import planted for each of them, every contract is broken."""
    for name, line in PLANTED.items():
        path = copied / "waygraph" / name
        path.write_text(f"{path.read_text(encoding='utf-8')}\n{line}\n", encoding="utf-8")
    assert set(verdicts(copied).values()) == {"BROKEN"}


@pytest.mark.parametrize("part", PARTS)
def test_a_second_copy_of_the_classes_is_banned(part: str) -> None:
    """`import registry` from the root would make every class twice: ruff refuses it."""
    command: list[str | Path] = [
        RUFF,
        "check",
        "--no-cache",
        "--select",
        "TID251",
        "--stdin-filename",
        "tests/x.py",
        "-",
    ]
    said = subprocess.run(command, cwd=ROOT, input=f"import {part}\n", capture_output=True, text=True, check=False)
    assert said.returncode == 1
    assert "a second copy of every class" in said.stdout
