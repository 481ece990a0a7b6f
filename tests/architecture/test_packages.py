"""What is packaged, what is public, what is imported: the numbers of pyproject.toml against the tree."""

import ast
import importlib
import re
import subprocess
import sys
from importlib.metadata import packages_distributions

import pytest

import waygraph
from tests.architecture.tree import ROOT, code_packages, foreign_imports, modules, project, syntax

READ_ENVIRONMENT = {
    "api/cli": "the entry point: hands the environment on",
    "api/rest/bootstrap.py": "the entry point of each worker, which its parent tells by a variable",
    "ingest/pipeline.py": "the default of `environ`, which a caller may hand in",
    "ingest/upstream/stdio.py": "a server's process gets what a program needs and the way to the network",
    "ingest/upstream/reaper_process.py": "a program of its own: a server is found by the PATH that it gets",
    "registry/model/settings.py": "every limit and place",
    "registry/storage/local_registry.py": "the default of `environ`, which a caller may hand in",
    "registry/embedding/onnx.py": "switches the runtime's telemetry off before it is imported",
    "registry/graph/user_cypher/sandbox.py": "builds the worker's bare environment",
    "registry/graph/user_cypher/neo4j_runner.py": "tells its worker where the system keeps its certificates",
}
LIGHT = "import sys, waygraph, waygraph.ingest; print(*{name.partition('.')[0] for name in sys.modules})"
HEAVY = {"numpy", "pydantic", "grafeo", "Stemmer", "onnxruntime", "tokenizers", "typer", "rich", "yaml", "mcp"}


FRAMEWORKS = {
    "google_adk.py": {"google"},
    "haystack.py": {"haystack"},
    "langchain.py": {"langchain", "langchain_core"},
    "openai_agents.py": {"agents"},
    "pydantic_ai.py": {"pydantic_ai"},
}
"""Of each adapter what its user has installed; `tests/clients/test_adapters.py` runs it with that."""


def declared() -> set[str]:
    """The distributions that pyproject.toml asks for, extras included."""
    listed = [*project()["project"]["dependencies"]]
    for extra in project()["project"]["optional-dependencies"].values():
        listed += extra
    return {re.split(r"[^\w.-]", entry)[0].lower().replace("_", "-") for entry in listed}


def test_every_folder_of_code_is_a_package() -> None:
    """A folder without __init__.py would be left out of the wheel without a word."""
    folders = {path.parent for path in modules().values()}
    assert [folder for folder in sorted(folders) if not (folder / "__init__.py").exists()] == []


@pytest.mark.parametrize("name", code_packages())
def test_public_names_are_sorted_and_importable(name: str) -> None:
    """`__all__` is in order, without repeats, and everything in it is there."""
    package = importlib.import_module(name)
    public = list(getattr(package, "__all__", []))
    assert public == sorted(set(public), key=lambda n: (not n.isupper(), not n[0].isupper(), n))
    assert [n for n in public if not hasattr(package, n)] == []


def test_importing_waygraph_is_light() -> None:
    """`import waygraph` loads nothing heavy: what is heavy is imported where it is needed."""
    loaded = subprocess.run([sys.executable, "-c", LIGHT], capture_output=True, text=True, check=True)
    assert HEAVY & set(loaded.stdout.split()) == set()


def test_the_version_can_be_asked() -> None:
    """In Python as `waygraph.__version__`, on the command line as `python -m waygraph --version`."""
    version = project()["project"]["version"]
    assert waygraph.__version__ == version
    command = [sys.executable, "-m", "waygraph"]
    assert (
        subprocess.run([*command, "--version"], capture_output=True, text=True, check=False).stdout
        == f"waygraph {version}\n"
    )
    assert subprocess.run([*command, "no-command"], capture_output=True, check=False).returncode == 2


def test_every_import_is_declared() -> None:
    """What the code imports, pyproject.toml asks for; nothing rests on a neighbour's dependency unsaid."""
    distributions = {name: {d.lower().replace("_", "-") for d in of} for name, of in packages_distributions().items()}
    undeclared = {
        name
        for path in modules().values()
        for name in set(foreign_imports(path)) - FRAMEWORKS.get(path.name, set())
        if not {*distributions.get(name, ()), name.lower().replace("_", "-")} & declared()
    }
    assert undeclared == set()


def test_the_environment_is_read_in_few_places() -> None:
    readers = [
        str(path.relative_to(ROOT))
        for path in modules().values()
        if any(map(_reads_environment, ast.walk(syntax(path))))
    ]
    assert [reader for reader in readers if not reader.startswith(tuple(READ_ENVIRONMENT))] == []


def test_sizes_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    """Lengths of functions and modules, to be read with `pytest -s`; STYLE aims at p90 ≤ 25 and ≤ 500 lines."""
    functions = sorted(
        (node.end_lineno or node.lineno) - node.lineno + 1
        for path in modules().values()
        for node in ast.walk(syntax(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in modules().values()}
    longest = max(lengths, key=lambda path: lengths[path])
    told = (
        f"{len(functions)} functions: median {functions[len(functions) // 2]} lines, "
        f"p90 {functions[len(functions) * 9 // 10]}, longest {functions[-1]}; "
        f"{len(lengths)} modules, longest {longest.relative_to(ROOT)} with {lengths[longest]}"
    )
    print(told)  # noqa: T201
    assert "functions" in told


def _reads_environment(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(value=ast.Name(id="os"), attr="environ" | "getenv" | "environb"):
            return True
        case ast.ImportFrom(module="os", names=names):
            return any(alias.name in {"environ", "getenv"} for alias in names)
    return False
