"""The service over a registry on a graph server."""

from pathlib import Path

import pytest

from tests.neo4j_fixtures import SERVERS
from tests.places import Servers, new_place
from tests.service import agent, assert_good, assert_problem, ingest, served


@pytest.mark.parametrize("server", SERVERS)
def test_a_registry_on_neo4j_is_served(server: str, tmp_path: Path, neo4j_servers: Servers) -> None:
    """It routes, lists, tells a part to who sees a part, and takes only statements that read."""
    place = new_place(server, tmp_path, neo4j_servers)
    with served(str(place.location), auth=True, folder=tmp_path, settings=place.settings) as service:
        admin, other = service.admin(), service.caller(groups=("g",))
        ingest(admin, "s", agent("a", "look"), agent("b", "look", visible_to=["h"]))
        assert [each["id"] for each in assert_good(admin.get("/v1/agents"))["agents"]] == ["a", "b"]
        assert [each["id"] for each in assert_good(other.get("/v1/agents"))["agents"]] == ["a"]
        routed = assert_good(other.post("/v1/route", json={"text": "look"}))
        assert [match["agent"]["id"] for match in routed["matches"]] == ["a"]
        statement = "MATCH (a:Agent) RETURN count(a) AS n"
        assert assert_good(admin.post("/v1/cypher", json={"statement": statement}))["rows"] == [[2]]
        assert_problem(admin.post("/v1/cypher", json={"statement": "CREATE (n)"}), 422, "cypher-refused")
        assert_problem(other.post("/v1/cypher", json={"statement": statement}), 403, "not-allowed")
