"""Names in the code: what is named by a participle, names in comments that are not there, headings, file names."""

import ast
import io
import re
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from tests.architecture.tree import PARTS, ROOT, modules, syntax

IRREGULAR = frozenset(
    "been begun bent bound bought broken brought built caught chosen done drawn driven dug eaten fallen fed felt fled "
    "forgotten found frozen given gone got grown had heard held hidden hung kept known laid led left lent lit lost "
    "made meant met paid proven risen said seen sent shown sold sought spent spoken stolen stood struck stuck swept "
    "taken taught thought thrown told torn understood undone unheard unseen unwritten withheld woken won worn wound "
    "written".split()
)
"""Participles that do not end in -ed. `read`, `put`, `set` and their like are verbs as well, and fine."""
VERBS_IN_ED = frozenset("breed embed exceed feed need proceed seed shed speed succeed".split())
FUNCTION_WORDS = frozenset(
    "about after again all alone and anew apart as aside at away back before beside between by down each first for "
    "from here in inside into last not of off on once one or out outside over than that them there this to together "
    "too twice under until up whole with without yet".split()
)


def is_participle(word: str) -> bool:
    return word in IRREGULAR or (word.endswith("ed") and len(word) > 3 and word not in VERBS_IN_ED)


def is_named_by_participle(name: str) -> bool:
    """Whether a function's name is a participle alone, or with function words: `told`, `_asked_again`, `shown_to`.

    A participle before a noun is an adjective: `known_names`, `updated_agents`.
    """
    first, *others = name.strip("_").split("_")
    return is_participle(first) and FUNCTION_WORDS.issuperset(others)


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Of a file, those inside others included, and properties too."""
    for node in ast.walk(syntax(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def participle_functions() -> list[str]:
    """`file:line name` of each function of the product that is named by a participle."""
    return [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"
        for path in modules().values()
        for node in functions(path)
        if is_named_by_participle(node.name)
    ]


def shared_file_names() -> dict[str, list[str]]:
    """`layer/file.py` → the modules of that layer with this file name, where there are several."""
    found = defaultdict(list)
    for path in modules().values():
        layer, *_, name = path.relative_to(ROOT).parts
        if name != "__init__.py":
            found[f"{layer}/{name}"].append(str(path.relative_to(ROOT)))
    assert {key.partition("/")[0] for key in found} == set(PARTS)
    return {key: paths for key, paths in sorted(found.items()) if len(paths) > 1}


Kind = Literal["variable", "parameter", "class"]


class Name(NamedTuple):
    kind: Kind
    text: str
    line: int

    @property
    def is_participle(self) -> bool:
        return is_named_by_participle(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", self.text).lower())


def bound_names(tree: ast.AST) -> Iterator[Name]:
    """What a file names: variables and fields where they are bound, parameters, classes."""
    for node in ast.walk(tree):
        match node:
            case ast.arg(arg=name) if name not in {"self", "cls"}:
                yield Name("parameter", name, node.lineno)
            case ast.ClassDef(name=name):
                yield Name("class", name, node.lineno)
            case ast.Name(id=name, ctx=ast.Store()):
                yield Name("variable", name, node.lineno)
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield Name("variable", name, node.lineno)


def participle_shares(paths: Iterable[Path]) -> dict[str, float]:
    """Kind → the share of its names that are participles."""
    names = [name for path in paths for name in bound_names(syntax(path))]
    every, participles = Counter(n.kind for n in names), Counter(n.kind for n in names if n.is_participle)
    return {kind: participles[kind] / total for kind, total in every.items()}


def participle_counts() -> dict[str, int]:
    """`file name` → how often a variable, parameter or class of the product is bound by this participle."""
    found = Counter(
        f"{path.relative_to(ROOT)} {name.text}"
        for path in modules().values()
        for name in bound_names(syntax(path))
        if name.is_participle
    )
    return dict(sorted(found.items()))


HEADING = re.compile(r"^\n\n# [A-Z][^\n]*\.\n\n", re.MULTILINE)
"""A comment that stands alone between two definitions: a title of what should be a module of its own."""


def headings() -> list[str]:
    return [
        f"{path.relative_to(ROOT)} {heading.strip()}"
        for path in modules().values()
        for heading in HEADING.findall(path.read_text(encoding="utf-8"))
    ]


FOREIGN_NAMES = frozenset({"callbacks", "db_password", "registry_name", "stdio_client", "wait_readable", "webhooks"})
"""What comments name in backticks and the code does not hold: names of libraries, formats and examples."""


def unknown_names() -> list[str]:
    """`file:line name` of each name in backticks, in a docstring or comment, that the code does not hold."""
    known = set(FOREIGN_NAMES)
    for path in modules().values():
        known |= _held_names(path)
    for path in (ROOT / "cypher").rglob("*.cypher"):
        known |= {path.stem, *re.findall(r"\w+", path.read_text(encoding="utf-8"))}
    return [
        f"{path.relative_to(ROOT)}:{line} {name}"
        for path in modules().values()
        for line, text in _remarks(path)
        for name in re.findall(r"`([a-z][a-z0-9_]*(?:\.[a-z_]+)*)`", text)
        if name.removesuffix(".py").rpartition(".")[2] not in known
    ]


def _remarks(path: Path) -> Iterator[tuple[int, str]]:
    """Docstrings and comments, each with its line."""
    for node in ast.walk(syntax(path)):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield node.lineno, text
    for token in tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def _held_names(path: Path) -> set[str]:
    """Identifiers of a file, words of its texts that are no docstrings, and the parts of its path."""
    tree = syntax(path)
    docstrings = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    names = set(path.relative_to(ROOT).with_suffix("").parts)
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name) | ast.keyword(arg=str(name)):
                names.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.alias(name=name):
                names |= set(name.split("."))
            case ast.Constant(value=str(text)) if node not in docstrings:
                names |= set(re.findall(r"\w+", text))
    return names
