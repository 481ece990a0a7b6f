"""Statements of strangers, each on a copy in a process of its own with limits: what it reaches, and how it ends."""

import os
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.engines.children import in_child
from benchmarks.engines.contenders import FILE
from benchmarks.engines.faults import filled
from benchmarks.processes import status_mib

MEMORY_BYTES = 2**30
"""What a process may take beside what it has when it begins."""
DEADLINE_S, OWN_DEADLINE_MS = 4.0, 1_000
TOLD = "a line of a file that the statement may not see"
TOOLS = 2_000

STATEMENTS = {
    "LOAD CSV of a local file": "LOAD CSV FROM '{file}' AS line RETURN line",
    "LOAD CSV behind a comment": "LOAD /* */ CSV FROM '{file}' AS line RETURN line",
    "a write on the copy": "CREATE (made:Tool {{id: 'made'}}) RETURN made.id AS id",
    "a range of a billion": "RETURN size(range(0, 1000000000)) AS found",
    "a range of a billion, unwound": "UNWIND range(0, 1000000000) AS number RETURN count(number) AS found",
    "a product of three": "MATCH (a:Tool), (b:Tool), (c:Tool) RETURN count(*) AS found",
    "a product of two, its rows": "MATCH (a:Tool), (b:Tool) RETURN a.description AS one, b.description AS other",
    "a sorted product": "MATCH (a:Tool), (b:Tool) RETURN a.id AS one, b.id AS other ORDER BY other + one LIMIT 3",
    "paths of any length": "MATCH path = (a)-[*]-(b) RETURN count(path) AS found",
    "a text that doubles 40 times": "RETURN size(reduce(text = 'x', n IN range(1, 40) | text + text)) AS found",
    "10,000 parentheses": "RETURN " + "(" * 10_000 + "1" + ")" * 10_000 + " AS found",
    "a pattern that backtracks": "MATCH (a:Tool) WHERE a.name =~ '(([a-z ])+.)+[A-Z]$' RETURN count(a) AS found",
}


def run_hostile(name: str, folder: Path) -> dict[str, str]:
    """Statement → how it ended: reaches the file, answers, refuses or stops by itself, runs on, kills its process."""
    folder.mkdir(parents=True)
    in_child(filled, name, folder, TOOLS)
    secret = folder / "secret.txt"
    secret.write_text(TOLD, encoding="utf-8")
    ends = {}
    for what, text in STATEMENTS.items():
        ended = in_child(ask, name, folder, text.format(file=secret), timeout_s=DEADLINE_S)
        if ended.how == "answered":
            ends[what] = "reaches the file" if TOLD in ended.value else "answers"
        else:
            ends[what] = {"raised": "is refused or stopped", "hung": "runs on", "died": "kills its process"}[ended.how]
    return ends


def ask(name: str, folder: Path, text: str) -> str:
    """The first rows, as text."""
    limit = int(status_mib(os.getpid(), "VmSize:") * 2**20) + MEMORY_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    return ASK[name](str(folder / FILE), text)


def _ask_grafeo(path: str, text: str) -> str:
    import grafeo

    return str(list(grafeo.GrafeoDB.open_read_only(path).execute_cypher(text))[:3])


def _ask_kglite(path: str, text: str) -> str:
    import kglite  # pyright: ignore[reportMissingImports] - only where it is installed

    session: Any = kglite.open_session(path)
    return str(session.cypher(text, timeout_ms=OWN_DEADLINE_MS, row_limit=1_000).to_list()[:3])


ASK: dict[str, Callable[[str, str], str]] = {"Grafeo": _ask_grafeo, "KGLite": _ask_kglite}
