"""docs/cypher.md as its tests read it, the registry that its questions are asked of, and what the answers are.

The registry holds examples/catalog and a second, made-up source, which shares an agent with the first and was read
once, in January; the catalogue was confirmed in March.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, ROOT, rows
from waygraph import Settings
from waygraph.ingest.sources.read import read_path
from waygraph.ingest.sync.apply import sync
from waygraph.registry.model.nouns import Of
from waygraph.registry.model.transitions import count_transitions
from waygraph.registry.operators.transition_counts import learn_transitions
from waygraph.registry.storage.local_registry import LocalRegistry
from waygraph.registry.taxonomy.prompts import Service
from waygraph.registry.taxonomy.tree import By, Category, Taxonomy
from waygraph_lab.synthesis.candidate_graph import put_similar

PAGE = DOCS / "cypher.md"
ALGORITHM = "Algorithm 1 as one statement"
FIRST, SECOND, JANUARY, MARCH = (f"2026-{day}T08:00:00+00:00" for day in ("01-08", "01-09", "01-10", "03-02"))
STAMP = "Put a stamp on it."

BACK_OFFICE = """\
waygraph: 1
agents:
  - id: ledgerleaf
    name: Ledgerleaf, as the back office knows it
    description: Invoices.
    kind: openapi
    transport: {type: http, url: "https://api.ledgerleaf.example/v2"}
    tools:
      - name: createInvoice
        description: Write an invoice.
  - id: post-room
    name: Post Room
    description: Letters and parcels of the house.
    tags: [mail, franking]
    visible_to: [office]
    transport: {type: stdio, command: post-room}
    tools:
      - name: send-letter
        description: Send a new letter, with copies and attachments if given.
      - name: frank
        description: Put a stamp on it.
  - id: old-fax
    name: Old Fax
    description: Nobody uses it any more.
    transport: {type: http, url: "https://fax.example/mcp"}
"""

NEAR = [
    {"one": "pigeon-mail/send-message", "other": "post-room/send-letter", "cosine": 0.9},
    {"one": "cubby-files/delete", "other": "cubby-files/list", "cosine": 0.8},
]
"""Edges that a model's vectors might give."""

_LOOK, _READ = "harbor-git/list_commits", "harbor-git/read_file"
_USED = "quarry-sql/explain_plan"
TALKS = [[_LOOK, _READ], [_LOOK, _LOOK, _READ], *[[_USED, "post-room/frank"]] * 2]
"""Calls that were made."""

ANSWERS: dict[str, list[tuple[object, ...]]] = {
    "Agents by their number of tools": [
        ("cubby-files", 8), ("hearthside", 8), ("skylark-travel", 8), ("daybook-calendar", 7), ("foolscap", 7),
    ],
    "Agents without tools": [
        ("clause-and-seal",), ("fernwise",), ("old-fax",), ("podium-coach",), ("quillfeather",), ("tithe-and-table",),
    ],
    "Tools of different agents with nearly the same description": [
        ("pigeon-mail/send-message", "post-room/send-letter", 0.9),
    ],
    "Near tools of different agents": [("pigeon-mail/send-message", "post-room/send-letter", 0.9)],
    "What is called after a tool": [("harbor-git/read_file", 2.0), ("harbor-git/list_commits", 1.0)],
    "Which tools of different agents are used together": [("post-room/frank", _USED, 2.0)],
    "What stands in a category and below it": [
        ("letters", "post-room", "model"), ("messages", "pigeon-mail", "model"),
    ],
    "Which tools a toolset includes": [("code", "harbor-git", 1), ("code", "quarry-sql", 7)],
    "Which skills teach tools that are hidden, wait or were rejected": [],  # tests/contract/test_skill_links.py
    "Agents that no source has confirmed since a date": [("old-fax", JANUARY), ("post-room", JANUARY)],
    "Sources that state an agent otherwise than it is held": [("ledgerleaf", "back-office", SECOND)],
    "Agents that only some may see": [("post-room", ["office"]), ("quarry-sql", ["analysts"])],
    "What operators said of agents": [
        ("old-fax", True, False, False, False, True),
        ("pigeon-mail", False, True, False, False, True),
        ("quarry-sql", False, False, True, False, True),
        ("unit-bench", False, False, False, True, False),
    ],
    "What changed since a date": [(JANUARY, "back-office", "post-room", "frank", "changed", ["description"])],
    "Agents that came since a date": [("back-office", "old-fax", SECOND), ("back-office", "post-room", SECOND)],
    "What belongs to nobody": [("tools without an agent", 0), ("agents without a source", 0)],
}  # fmt: skip
"""Title of a question → rows."""

DIFFERENCES: dict[str, tuple[str, object, object]] = {
    "`'1' = 1`": ("RETURN '1' = 1", True, False),
    "`sum` of nothing": ("MATCH (n:Nothing) RETURN sum(n.x)", None, 0),
    "`toString(1.0)`": ("RETURN toString(1.0)", "1", "1.0"),
    "an aggregate inside an expression: `collect(x)[0]`": ("UNWIND [7] AS x RETURN collect(x)[0]", None, 7),
    "`round(x, 2)`": ("RETURN round(2.567, 2)", None, 2.57),
    "`[1, null] = [1, null]`": ("RETURN [1, null] = [1, null]", True, None),
    r"label expressions `(a:Agent\|Tool)`, `!`; `(…){1,2}` around a path": (
        "MATCH (a:Source|!(Agent|Tool|Setting|Registry|Migration|Change|Taxonomy|Category|Toolset|Term|Commit)) "
        "RETURN count(a)",
        None, 2,
    ),
    "likeness of two vectors": ("RETURN vector.similarity.cosine([1.0, 0.0], [1.0, 0.0])", None, 1.0),
    "functions with a dot: `duration.between`, `date.truncate`": (
        "RETURN date.truncate('month', date('2026-03-02'))", None, "2026-03-01",
    ),
    "procedures": ("CALL grafeo.louvain() YIELD community_id RETURN count(DISTINCT community_id) > 0", True, None),
    "`labels(tool)`": (
        "MATCH (t:Tool {id: 'post-room/frank'}) UNWIND labels(t) AS label WITH label ORDER BY label "
        "RETURN collect(label)", ["Tool"], ["Capability", "Tool"],
    ),
}  # fmt: skip
"""What the page says differs → a statement, and its one value on Grafeo and on Neo4j; None: null or not taken."""


def questions() -> dict[str, str]:
    """Title → statement, of every question of the page but the algorithm."""
    return {title: text for title, text in _statements().items() if title != ALGORITHM}


def algorithm() -> str:
    return _statements()[ALGORITHM]


def _statements() -> dict[str, str]:
    page = PAGE.read_text(encoding="utf-8")
    return dict(re.findall(r"^##+ ([^\n]+)\n(?:(?!^#).)*?^```cypher\n(.*?)^```$", page, re.M | re.S))


def documented() -> list[dict[str, set[str]]]:
    """Pattern of a node or edge → its properties: what is there, and what there is besides on Neo4j."""
    tables: list[dict[str, set[str]]] = []
    for cells in rows(PAGE):
        if cells[0] in ("node or edge", "on Neo4j"):
            tables.append({})
        elif cells[0].startswith("`(:"):
            tables[-1][cells[0].strip("`")] = set(re.findall(r"`(\w+)`", cells[1]))
    return tables


def labels_of(registry: LocalRegistry) -> set[str]:
    """Of all nodes, as the page writes them."""
    found = registry.operator.cypher("MATCH (n) UNWIND labels(n) AS label RETURN DISTINCT label")
    return {f"(:{label})" for (label,) in found.rows}


def properties_of(registry: LocalRegistry, pattern: str) -> set[object]:
    """Of the nodes or edges that `(:Label)` or `(:Label)-[:TYPE]->(:Label)` stands for."""
    one = pattern.replace("[:", "[it:") if "[" in pattern else pattern.replace("(:", "(it:")
    return {
        name for (name,) in registry.operator.cypher(f"MATCH {one} UNWIND keys(it) AS name RETURN DISTINCT name").rows
    }


def fill(registry: LocalRegistry, folder: Path) -> None:
    """The two sources, what an operator says of four agents, edges between near tools, and calls in a row.

    These go to the data folder of the registry's settings.
    """
    with pytest.MonkeyPatch.context() as patch:
        for source, when, stamp in (
            ("catalog", FIRST, ""),
            ("back-office", SECOND, "Frank a letter."),
            ("back-office", JANUARY, STAMP),
            ("catalog", MARCH, ""),
        ):
            patch.setattr("waygraph.registry.model.clock.now", lambda when=when: when)
            _sync(registry, source, folder, stamp)
    registry.operator.set("old-fax", hidden=True)
    registry.operator.set("pigeon-mail", pinned=True)
    registry.operator.set("quarry-sql", visible_to=["analysts"])
    registry.operator.remove("unit-bench")
    registry.change(lambda session: put_similar(session, lambda _: NEAR))
    registry.change(lambda session: learn_transitions(session, count_transitions(TALKS, MARCH)))
    registry.build_taxonomy(_tree)
    registry.operator.set_toolset("code", tools=["harbor-git/list_commits"], agents=["quarry-sql"])


def _tree(services: Sequence[Service], _: object, __: object) -> Taxonomy:
    """Messages apart from the rest, and letters apart from other messages."""
    rest = {each.id: By.MODEL for each in services if each.id not in ("pigeon-mail", "post-room")}
    tree = (
        Category(id="all", name="", children=("messages",), holds=rest),
        Category(id="messages", name="messages", depth=1, children=("letters",), holds={"pigeon-mail": By.MODEL}),
        Category(id="letters", name="letters", depth=2, holds={"post-room": By.MODEL}),
    )
    return Taxonomy(name="", of=Of.AGENTS, built_by="openai:any", categories={each.id: each for each in tree})


def _sync(registry: LocalRegistry, source: str, folder: Path, stamp: str) -> None:
    """`stamp`: what the back office says of that tool."""
    made_up = folder / "back-office.yaml"
    made_up.write_text(BACK_OFFICE.replace(STAMP, stamp), encoding="utf-8")
    path = ROOT / "examples" / "catalog" if source == "catalog" else made_up
    for manifest in read_path(str(path), Settings()):
        sync(registry, replace(manifest, source=source), texts="plain")
