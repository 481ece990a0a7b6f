"""Names in the code: functions named by a participle, and modules that share a file name."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

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
