"""Indexes and constraints of a server, made by several at the same time."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Barrier

import pytest

from tests.neo4j_fixtures import SERVERS, wipe
from tests.places import Servers, new_place, server_engine
from waygraph.cypher import load
from waygraph.registry.graph.engine import GraphEngine

WRITERS, ROUNDS = 4, 8


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("index", ["agent_text", "agent_vector_8"])
def test_writers_that_begin_together_all_find_an_index(
    server: str, index: str, tmp_path: Path, neo4j_servers: Servers
) -> None:
    """A server refuses all but one of those that define it at once, though each says `IF NOT EXISTS`."""
    with closing(server_engine(new_place(server, tmp_path, neo4j_servers, clear=wipe))) as engine:
        engine.define(load("schema/unique_id", "Agent"))  # so that there is the label
        for _ in range(ROUNDS):
            engine.run(load("neo4j/schema/drop_index"), name=index)
            together = Barrier(WRITERS)
            with ThreadPoolExecutor(WRITERS) as writers:
                done = [writers.submit(defined, engine, index, together) for _ in range(WRITERS)]
            assert [each.result() for each in done] == [None] * WRITERS
            held = [row["name"] for row in engine.run(load("neo4j/check/indexes"))]
            assert held.count(index) == 1


def defined(engine: GraphEngine, index: str, together: Barrier) -> None:
    together.wait()
    if index == "agent_text":
        engine.define(load("neo4j/schema/agent_text"))
    else:
        config = {"vector.dimensions": 8, "vector.similarity_function": "cosine"}
        engine.define(load("neo4j/schema/agent_vectors"), name=index, options={"indexConfig": config})
