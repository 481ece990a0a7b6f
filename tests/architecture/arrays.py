"""Arrays in public signatures, and whether the docstring says their shape and dtype."""

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.architecture.tree import ROOT, modules, syntax

NUMPY = frozenset({"ndarray", "NDArray"})
DTYPE = re.compile(r"\b(?:u?int(?:8|16|32|64)|float(?:32|64)|bool)\b")
SHAPE = re.compile(r"\bshape\b")


@dataclass(frozen=True)
class ArrayFunction:
    """A public function or method with an array among its parameters or as its result."""

    where: str
    is_documented: bool
    """Whether its docstring names a shape and a dtype."""


def array_functions() -> list[ArrayFunction]:
    return [function for path in modules().values() for function in _functions(path)]


def _functions(file: Path) -> Iterator[ArrayFunction]:
    tree = syntax(file)
    arrays = NUMPY | _aliases(tree) | _imported_aliases(tree)
    for path, node in _public_functions(tree, ()):
        arguments = node.args
        parameters = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
        annotations = [parameter.annotation for parameter in parameters if parameter] + [node.returns]
        if any(annotation and _names(annotation) & arrays for annotation in annotations):
            text = ast.get_docstring(node) or ""
            where = f"{file.relative_to(ROOT)}:{node.lineno} {'.'.join(path)}"
            yield ArrayFunction(where, bool(SHAPE.search(text) and DTYPE.search(text)))


def _public_functions(
    node: ast.Module | ast.ClassDef, path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], ast.FunctionDef | ast.AsyncFunctionDef]]:
    for child in node.body:
        if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and not child.name.startswith("_"):
            if isinstance(child, ast.ClassDef):
                yield from _public_functions(child, (*path, child.name))
            else:
                yield (*path, child.name), child


@cache
def _module_aliases() -> Mapping[str, frozenset[str]]:
    """Module → the names of its own types that are made of arrays."""
    return {name: _aliases(syntax(path)) for name, path in modules().items()}


def _aliases(tree: ast.Module) -> frozenset[str]:
    found: set[str] = set()
    for node in _statements(tree):
        match node:
            case ast.TypeAlias(name=ast.Name(id=name), value=value):
                pass
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Subscript() as value):
                pass
            case _:
                continue
        if {part.id for part in ast.walk(value) if isinstance(part, ast.Name)} & (NUMPY | found):
            found.add(name)
    return frozenset(found)


def _statements(tree: ast.Module) -> Iterator[ast.stmt]:
    """Of the module, and of its `if TYPE_CHECKING:` and their else."""
    for node in tree.body:
        yield from (*node.body, *node.orelse) if isinstance(node, ast.If) else (node,)


def _imported_aliases(tree: ast.Module) -> frozenset[str]:
    return frozenset(
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.name in _module_aliases().get(node.module or "", ())
    )


def _names(annotation: ast.expr) -> set[str]:
    """Of types in it, those in quotes too."""
    found: set[str] = set()
    for node in ast.walk(annotation):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name):
                found.add(name)
            case ast.Constant(value=str(text)):
                found.update(re.findall(r"\w+", text))
    return found
