"""Algorithm 1 of Agent-as-a-Graph as one Cypher statement, from docs/cypher.md: it routes as recipe `paper` does."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from neo4j import Driver, GraphDatabase

from tests.cypher_page import PAGE, algorithm
from tests.docs.pages import ROOT, blocks
from tests.neo4j_server import DATABASE, Target
from tests.places import on_server
from waygraph import RECIPES, Query, Settings
from waygraph.ingest.sources.read import read_path
from waygraph.ingest.sync.apply import sync
from waygraph.registry.embedding import open_embedder
from waygraph.registry.embedding.embedder import Embedder
from waygraph.registry.embedding.factory import default_spec
from waygraph.registry.embedding.texts import query_text
from waygraph.registry.registry import Registry

REQUESTS = [
    json.loads(line)["text"]
    for line in (ROOT / "examples" / "requests" / "queries.jsonl").read_text("utf-8").splitlines()
]
PAPER = RECIPES["paper"]


@pytest.fixture(scope="module")
def registry(neo4j_target: Target) -> Iterator[Registry]:
    place = on_server(neo4j_target, Settings())
    with Registry.open(
        place.location, embedder=default_spec(Settings()), settings=place.settings, environ={}
    ) as opened:
        for manifest in read_path(str(ROOT / "examples" / "catalog"), Settings()):
            sync(opened, manifest, texts="plain")
        yield opened


@pytest.fixture(scope="module")
def embedder() -> Embedder:
    opened = open_embedder(default_spec(Settings()), Settings(), {})
    assert opened is not None
    return opened


@pytest.fixture(scope="module")
def driver(neo4j_target: Target) -> Iterator[Driver]:
    with GraphDatabase.driver(neo4j_target.uri, auth=neo4j_target.auth) as opened:
        yield opened


def vector_of(text: str, embedder: Embedder) -> list[float]:
    return [float(number) for number in embedder.embed([query_text(text, literals=PAPER.literals)], "query")[0]]


def params(vector: list[float], **changes: object) -> dict[str, object]:
    """As the page gives them, and as the recipe has them."""
    weights = {"alpha_A": PAPER.agent_weight, "alpha_T": PAPER.tool_weight}
    return {"vector": vector, "N": PAPER.depth, "K": 5, "k": PAPER.legs[0].k} | weights | changes


def test_the_statement_routes_as_the_recipe(registry: Registry, driver: Driver, embedder: Embedder) -> None:
    """For each of 48 requests, typed into any tool: the same agents in the same order, by the same scores and ranks."""
    assert len(REQUESTS) == 48
    for text in REQUESTS:
        route = registry.route(Query(text=text, limit=5), recipe="paper")
        expected = [(match.agent.id, match.votes[0].rank, match.score) for match in route.matches]
        given = params(vector_of(text, embedder))
        records = driver.execute_query(algorithm(), given, database_=DATABASE).records  # pyright: ignore
        assert [(row["agent"], row["rank"]) for row in records] == [told[:2] for told in expected], text
        assert [row["score"] for row in records] == pytest.approx([told[2] for told in expected])


@pytest.mark.parametrize(("agent_weight", "tool_weight"), [(1.0, 1.0), (3.0, 0.5), (0.0, 1.0)])
def test_the_weights_count_as_in_the_recipe(
    agent_weight: float, tool_weight: float, registry: Registry, embedder: Embedder
) -> None:
    """Asked through the registry: other weights move the same agents to the same places, down to the twentieth."""
    query = Query(text=REQUESTS[0], limit=20)
    route = registry.route(query, recipe="paper", agent_weight=agent_weight, tool_weight=tool_weight)
    given = params(vector_of(query.text, embedder), K=20, alpha_A=agent_weight, alpha_T=tool_weight)
    result = registry.operator.cypher(algorithm(), given)
    assert [row[0] for row in result.rows] == [match.agent.id for match in route.matches]


def test_a_tools_own_vector_finds_its_agent(registry: Registry) -> None:
    before = "MATCH (like:Tool {id: 'trencher-tables/reserve'})\nWITH like.embedding AS vector\n"
    statement = before + algorithm().replace("CALL () {", "CALL (vector) {", 1).replace("$vector", "vector")
    assert registry.operator.cypher(statement, params([])).rows[0][0] == "trencher-tables"


def test_the_pages_code_gives_a_vector(registry: Registry) -> None:
    """The Python on the page runs, and its vector routes to who books tables."""
    names: dict[str, Any] = {"registry": registry}
    for block in blocks(PAGE, "python"):
        exec(compile(block, "docs/cypher.md", "exec"), names)  # noqa: S102 - that is what is tested
    assert registry.operator.cypher(algorithm(), params(names["vector"])).rows[0][0] == "trencher-tables"


def test_embeddings_are_told_by_their_length(registry: Registry) -> None:
    statement = "MATCH (a:Agent {id: 'bureau-fx'}) RETURN a.embedding, size(a.embedding), [properties(a).embedding]"
    assert registry.operator.cypher(statement).rows == (("<384 floats>", 384, ["<384 floats>"]),)
