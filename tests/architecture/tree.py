"""The code as these tests read it: files, module names, syntax trees."""

import ast
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
PARTS = ("adapters", "api", "cypher", "ingest", "registry")


@cache
def project() -> dict[str, Any]:
    """pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def files() -> list[Path]:
    """Every file of the five parts, what Python leaves behind apart."""
    found = (path for part in PARTS for path in (ROOT / part).rglob("*") if path.is_file())
    return sorted(path for path in found if "__pycache__" not in path.parts)


def modules() -> dict[str, Path]:
    """Import name → file, of every module of Waygraph, in order of name."""
    return {_import_name(path): path for path in files() if path.suffix == ".py"}


def code_packages() -> list[str]:
    """Import names of the folders that hold modules, sorted."""
    return sorted({_import_name(path.parent) for path in modules().values()})


def syntax(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def foreign_imports(path: Path) -> Iterator[str]:
    """Top-level names that a file imports from outside Python and Waygraph, at any depth."""
    for node in ast.walk(syntax(path)):
        match node:
            case ast.Import(names=names):
                found = [alias.name for alias in names]
            case ast.ImportFrom(module=str(module), level=0):
                found = [module]
            case _:
                found = []
        tops = {name.partition(".")[0] for name in found}
        yield from sorted(tops - sys.stdlib_module_names - {"waygraph"})


def _import_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(("waygraph", *(part for part in parts if part != "__init__")))
