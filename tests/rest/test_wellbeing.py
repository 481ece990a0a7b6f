"""Alive, ready, numbers, and the catalogue by which a service is found."""

import shutil
from pathlib import Path

from tests.observed_service import samples
from tests.service import Served, agent, assert_careful, assert_good, assert_problem, ingest, process, served
from waygraph.registry.model.errors import NotAuthenticated
from waygraph.registry.model.settings import Settings


def test_a_service_is_alive_and_ready(example: Served) -> None:
    client = example.client()
    assert assert_good(client.get("/healthz")) == {"alive": True}
    assert assert_good(client.get("/readyz")) == {"ready": True}


def test_health_is_told_to_everybody(guarded: Served) -> None:
    ingest(guarded.admin(), "s", agent("a"))
    for path in ("/healthz", "/readyz"):
        assert_good(guarded.client().get(path))
        assert_good(guarded.client("wg_000000000000_nobody").get(path))


def test_a_service_without_a_registry_is_not_ready(tmp_path: Path) -> None:
    """Before its first ingest, and after its files were removed: a balancer sends nobody there. It lives meanwhile."""
    with process(tmp_path / "r.grafeo", tmp_path) as running:
        client = running.client()
        for _ in range(2):
            told = assert_problem(client.get("/readyz"), 503, "not-ready")
            assert "`waygraph ingest SOURCE` creates one" in told["detail"]
            assert str(tmp_path) not in told["detail"]
            assert_good(client.get("/healthz"))
            ingest(client, "s", agent("a"))
            assert assert_good(client.get("/readyz")) == {"ready": True}
            for path in tmp_path.glob("r.grafeo*"):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        assert_problem(client.get("/readyz"), 503, "not-ready")


def test_a_damaged_registry_is_not_ready(tmp_path: Path) -> None:
    """It is told so, without the place; the service lives, and is ready when the registry is whole."""
    path = tmp_path / "r.grafeo"
    with served(path) as service:
        path.write_bytes(b"no registry")
        told = assert_problem(service.client().get("/readyz"), 503, "not-ready")
        assert told["retryable"]
        assert str(tmp_path) not in told["detail"]
        assert_good(service.client().get("/healthz"))
        assert_problem(service.client().post("/v1/route", json={"text": "a"}), 500, "registry-unusable")
        path.unlink()
        ingest(service.client(), "s", agent("a"))
        assert assert_good(service.client().get("/readyz")) == {"ready": True}


def test_a_registry_of_another_embedder_is_not_ready(tmp_path: Path, catalogue_file: Path) -> None:
    """Vectors of another model than the one that the service was told to use."""
    path = tmp_path / "r.grafeo"
    with served(path, embedder="openai:another?dimension=384") as service:
        shutil.copytree(catalogue_file.parent, tmp_path, dirs_exist_ok=True)
        told = assert_problem(service.client().get("/readyz"), 503, "not-ready")
        assert "all-MiniLM-L6-v2" in told["detail"]
        assert_good(service.client().get("/healthz"))


def test_a_service_that_cannot_read_its_keys_is_not_ready(guarded: Served) -> None:
    ingest(guarded.admin(), "s", agent("a"))
    assert guarded.keys
    held = guarded.keys.path.read_bytes()
    guarded.keys.path.write_bytes(b"{")
    told = assert_problem(guarded.client().get("/readyz"), 503, "not-ready")
    assert str(guarded.keys.path.parent) not in told["detail"]
    guarded.keys.path.write_bytes(held)
    assert assert_good(guarded.client().get("/readyz")) == {"ready": True}


def test_numbers_are_for_prometheus(guarded: Served) -> None:
    """Of requests by route and status, of refusals, writes and statements, and of what is held."""
    client = guarded.admin()
    ingest(client, "s", agent("a", "look", "say"))
    assert_good(client.post("/v1/route", json={"text": "look"}))
    assert_good(client.post("/v1/cypher", json={"statement": "RETURN 1"}))
    assert_problem(client.post("/v1/cypher", json={"statement": "CREATE (n)"}), 422, "cypher-refused")
    assert_problem(guarded.client().get("/v1/agents"), 401, NotAuthenticated)
    response = client.get("/metrics")
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/plain")
    assert_careful(response)
    found = samples(response.content)
    assert found['waygraph_http_requests_total{method="POST",route="/v1/route",status="2xx"}'] == 1
    assert found['waygraph_http_requests_total{method="GET",route="/v1/agents",status="4xx"}'] == 1
    assert found['waygraph_refused_total{reason="authentication"}'] == 1
    assert found['waygraph_writes_total{action="ingest",outcome="ok"}'] == 1
    assert found['waygraph_cypher_statements_total{outcome="ok"}'] == 1
    assert found['waygraph_cypher_statements_total{outcome="refused"}'] == 1
    assert (found["waygraph_registry_agents"], found["waygraph_registry_tools"]) == (1, 2)


def test_a_catalogue_names_the_address_that_the_world_knows() -> None:
    """Behind a proxy the service is called by another name than its own: `public_url` says by which."""
    with served(settings=Settings(public_url="https://agents.example.com/way/")) as service:
        client = service.client()
        ingest(client, "s", agent("a"))
        catalogue = assert_good(client.get("/.well-known/ai-catalog.json"))
    public = "https://agents.example.com/way"
    assert [entry["url"] for entry in catalogue["entries"]] == [
        f"{public}/openapi.json",
        f"{public}/v1/agents/a",
    ]
    assert all(":agents.example.com:" in entry["identifier"] for entry in catalogue["entries"])


def test_a_stranger_learns_of_the_service_alone(guarded: Served) -> None:
    """The catalogue tells a key that may read of the agents that it sees; a bad key is refused."""
    ingest(guarded.admin(), "s", agent("open"), agent("closed", visible_to=["g"]))
    path = "/.well-known/ai-catalog.json"

    def names(client: object) -> list[str]:
        response = client.get(path)  # type: ignore[attr-defined]
        assert response.headers["content-type"] == "application/ai-catalog+json"
        return [entry["url"].removeprefix(guarded.url) for entry in assert_good(response)["entries"]]

    service = ["/openapi.json"]
    assert names(guarded.client()) == service
    assert names(guarded.caller("route", "write", "cypher", "use", everything=True)) == service
    assert names(guarded.caller("read")) == [*service, "/v1/agents/open"]
    assert names(guarded.caller("read", groups=("g",))) == [*service, "/v1/agents/closed", "/v1/agents/open"]
    assert_problem(guarded.client("wg_000000000000_nobody").get(path), 401, NotAuthenticated)
