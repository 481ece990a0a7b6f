"""Reads a `.cypher` file into a Statement and refuses a file whose header and text disagree.

A file starts with comment lines: a purpose, then `params:` and `returns:` with `name type` pairs.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

TYPES: Mapping[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "float": (int, float),
    "boolean": bool,
    "map": dict,
    "list<string>": list,
    "list<float>": list,
    "list<map>": list,
    "list": list,
}
_FOLDER = Path(__file__).parent
_PARAMETER = re.compile(r"\$([A-Za-z_]\w*)")
_QUOTED_TEXT = re.compile(r"'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"|`[^`]*`|//[^\n]*")
_WRITES = re.compile(r"\b(CREATE|MERGE|SET|DELETE|REMOVE|DROP)\b")


class BadStatement(Exception):
    """A statement file, or the parameters given to it, do not fit its header: a fault of the program."""


@dataclass(frozen=True, slots=True, eq=False)
class Statement:
    """`params` and `returns` map a name to its declared type, in the file's order."""

    name: str
    purpose: str
    text: str
    params: Mapping[str, str]
    returns: Mapping[str, str]
    writes: bool
    """Whether it changes the graph: in a cluster it must then go to the leader."""
    neo4j_text: str
    """What a Neo4j runs: `text`, unless the file of the same name under `neo4j/` says it otherwise."""


@cache
def load(name: str, label: str = "") -> Statement:
    """The statement in `<name>.cypher`, such as `read/agents`. Raises BadStatement.

    `label`: of its nodes, where the file says `Node`, since it holds for nodes of any label.
    """
    if label:
        statement = load(name)
        return replace(statement, text=_of(label, statement.text), neo4j_text=_of(label, statement.neo4j_text))
    file, special = _FOLDER / f"{name}.cypher", _FOLDER / "neo4j" / f"{name}.cypher"
    if not file.is_file():
        raise BadStatement(f"there is no statement {name!r}; known: {', '.join(names())}")
    statement = parse(name, file.read_text(encoding="utf-8"))
    if not special.is_file():
        return statement
    return replace(statement, neo4j_text=parse(f"neo4j/{name}", special.read_text(encoding="utf-8")).text)


@cache
def names() -> tuple[str, ...]:
    """All statements, sorted."""
    return tuple(sorted(str(file.relative_to(_FOLDER).with_suffix("")) for file in _FOLDER.rglob("*.cypher")))


def _of(label: str, text: str) -> str:
    return text.replace(":Node", f":{label}").replace("node_id", f"{label.lower()}_id")


def parse(name: str, source: str) -> Statement:
    """Splits header and text, and checks one against the other."""
    lines = source.splitlines()
    header = [line.removeprefix("//").strip() for line in lines if line.startswith("//")]
    text = "\n".join(line for line in lines if not line.startswith("//")).strip()
    fields = {part.partition(":")[0]: part.partition(":")[2] for part in header[1:]}
    if not header or fields.keys() != {"params", "returns"}:
        raise BadStatement(f"{name}: the header is a purpose, then params: and returns:")
    params, returns = _pairs(name, fields["params"]), _pairs(name, fields["returns"])
    writes = bool(_WRITES.search(_QUOTED_TEXT.sub("", text)))
    statement = Statement(name, header[0], text, params, returns, writes, text)
    _check_text(statement)
    return statement


def _pairs(name: str, text: str) -> dict[str, str]:
    pairs = [part.split() for part in text.split(",") if part.strip() not in ("", "none")]
    for pair in pairs:
        if len(pair) != 2 or pair[1] not in TYPES:
            raise BadStatement(f"{name}: {' '.join(pair)!r} is not `name type` with a type of {', '.join(TYPES)}")
    return dict(pairs)


def _check_text(statement: Statement) -> None:
    names = set(_PARAMETER.findall(_QUOTED_TEXT.sub("", statement.text)))
    if names != set(statement.params):
        raise BadStatement(f"{statement.name}: declares {sorted(statement.params)}, uses {sorted(names)}")
    if not statement.text or ";" in _QUOTED_TEXT.sub("", statement.text):
        raise BadStatement(f"{statement.name}: a file holds one statement, without a semicolon")
