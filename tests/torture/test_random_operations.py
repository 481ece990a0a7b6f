"""Random operations on the embedded engine against a model: it never forgets, invents or mixes anything."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from waygraph.cypher.loader import Statement, parse
from waygraph.registry.graph.engine import GraphSession
from waygraph.registry.graph.grafeo import GrafeoEngine


def statement(text: str, params: str, returns: str = "none") -> Statement:
    return parse("test/random", f"// For a trial.\n// params: {params}\n// returns: {returns}\n{text}")


PUT_NODES = statement("UNWIND $rows AS row MERGE (node:Node {id: row.id}) SET node += row.props", "rows list<map>")
DROP_NODES = statement("UNWIND $ids AS gone MATCH (node:Node {id: gone}) DETACH DELETE node", "ids list<string>")
UNSET = statement("MATCH (node:Node {id: $id}) SET node.text = null", "id string")
PUT_EDGE = statement(
    "MATCH (a:Node {id: $id}) MATCH (b:Node {id: $other}) MERGE (a)-[edge:TO]->(b) SET edge.weight = $weight",
    "id string, other string, weight integer",
)
DROP_EDGES = statement("MATCH (:Node {id: $id})-[edge:TO]->(:Node) DELETE edge", "id string")
NODES = statement(
    "MATCH (node:Node) RETURN node.id AS id, node.text AS text, node.number AS number, node.tags AS tags ORDER BY id",
    "none",
    "id string, text string, number integer, tags list<string>",
)
EDGES = statement(
    "MATCH (a:Node)-[edge:TO]->(b:Node) RETURN a.id AS id, b.id AS other, edge.weight AS weight ORDER BY id, other",
    "none",
    "id string, other string, weight integer",
)

Nodes = dict[str, dict[str, object]]
Edges = dict[tuple[str, str], int]
TEXTS = ("", "a", "1", "01", "true", "null", "é", "天気", "🚢", "'", '"', "\\", "$id", "\n\t\x00", "x" * 5000)
IDS = (*(f"n{number}" for number in range(40)), "1", "01", "true", "null", "NULL", "n 1", "ñ", "'", "天")


class Rollback(Exception):
    pass


class Trial:
    """The engine, the model, and what may be done to both."""

    def __init__(self, path: Path, seed: int) -> None:
        self.path, self.chance = path, random.Random(seed)  # noqa: S311
        self.engine = GrafeoEngine.open(path)
        self.nodes: Nodes = {}
        self.edges: Edges = {}

    def put_nodes(self, session: GraphSession) -> None:
        rows = []
        for name in self.chance.sample(IDS, self.chance.randint(1, 6)):
            props = {
                "id": name,
                "text": self.chance.choice(TEXTS),
                "number": self.chance.choice([0, -1, 7, 2**40]),
                "tags": self.chance.sample(("a", "b", "c"), self.chance.randrange(4)),
            }
            rows.append({"id": name, "props": props})
            self.nodes[name] = props
        session.run(PUT_NODES, rows=rows)

    def drop_nodes(self, session: GraphSession) -> None:
        gone = self.chance.sample(IDS, self.chance.randint(1, 4))
        session.run(DROP_NODES, ids=gone)
        self.nodes = {name: props for name, props in self.nodes.items() if name not in gone}
        self.edges = {ends: weight for ends, weight in self.edges.items() if not set(ends) & set(gone)}

    def unset(self, session: GraphSession) -> None:
        name = self.chance.choice(IDS)
        session.run(UNSET, id=name)
        if name in self.nodes:
            self.nodes[name] = {**self.nodes[name], "text": None}

    def put_edge(self, session: GraphSession) -> None:
        one, other, weight = self.chance.choice(IDS), self.chance.choice(IDS), self.chance.randrange(100)
        session.run(PUT_EDGE, id=one, other=other, weight=weight)
        if one in self.nodes and other in self.nodes:
            self.edges[one, other] = weight

    def drop_edges(self, session: GraphSession) -> None:
        name = self.chance.choice(IDS)
        session.run(DROP_EDGES, id=name)
        self.edges = {ends: weight for ends, weight in self.edges.items() if ends[0] != name}

    def several(self) -> None:
        """A transaction of several operations; a third of them is rolled back."""
        before = dict(self.nodes), dict(self.edges)
        ends_badly = self.chance.random() < 0.33
        try:
            with self.engine.transaction() as session:
                for _ in range(self.chance.randint(1, 8)):
                    self.chance.choice(self.operations())(session)
                    if self.chance.random() < 0.2:
                        self.check(session)
                if ends_badly:
                    raise Rollback
        except Rollback:
            self.nodes, self.edges = before

    def single(self) -> None:
        self.chance.choice(self.operations())(self.engine)

    def reopen(self) -> None:
        self.engine.close()
        self.engine = GrafeoEngine.open(self.path)

    def copy(self) -> None:
        """A copy holds the same, and goes on doing so when the original changes."""
        place = self.path.with_suffix(".copy")
        place.unlink(missing_ok=True)
        self.engine.save(place)
        nodes, edges = dict(self.nodes), dict(self.edges)
        self.single()
        opened = GrafeoEngine.open_copy(place)
        check(opened, nodes, edges)
        opened.close()

    def operations(self) -> list[Callable[[GraphSession], None]]:
        return [
            self.put_nodes,
            self.put_nodes,
            self.drop_nodes,
            self.unset,
            self.put_edge,
            self.put_edge,
            self.drop_edges,
        ]

    def step(self) -> None:
        rare = self.chance.random()
        if rare < 0.02:
            self.reopen()
        elif rare < 0.04:
            self.copy()
        elif rare < 0.06:
            self.engine.checkpoint()
        elif rare < 0.5:
            self.several()
        else:
            self.single()

    def check(self, session: GraphSession) -> None:
        check(session, self.nodes, self.edges)


def check(session: GraphSession, nodes: Nodes, edges: Edges) -> None:
    assert session.run(NODES) == [nodes[name] for name in sorted(nodes)]
    found = [(row["id"], row["other"], row["weight"]) for row in session.run(EDGES)]
    assert found == [(*ends, edges[ends]) for ends in sorted(edges)]


@pytest.mark.parametrize(
    ("seed", "steps"), [(1, 300), *(pytest.param(seed, 5000, marks=pytest.mark.slow) for seed in range(2, 6))]
)
def test_random_operations_agree_with_a_model(tmp_path: Path, seed: int, steps: int) -> None:
    """Writes, deletions, transactions and their rollbacks, reopening, checkpoints, copies: always the model's state."""
    trial = Trial(tmp_path / "graph.grafeo", seed)
    for _ in range(steps):
        trial.step()
        trial.check(trial.engine)
    trial.reopen()
    trial.check(trial.engine)
    trial.engine.close()
