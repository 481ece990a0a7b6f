"""A registry here and one over HTTP, through the same life: the same nouns, the same errors, to the last bit."""

import asyncio
from collections.abc import Iterator

import pytest

from tests.remote.lives import Awaited, Life, Step, call, outcome
from tests.service import Served, served
from waygraph.api.library import RemoteRegistry
from waygraph.registry.registry import Registry

NO_MODEL, DEFAULT_MODEL = "none", ""
FIRST = (
    Step("exists", lambda registry: registry.store.exists),
    Step("agents of no registry", lambda registry: registry.agents()),
    Step("route in no registry", lambda registry: registry.route("anything")),
    Step("set in no registry", lambda registry: registry.operator.set("a", pinned=True)),
    Step("export of no registry", lambda registry: registry.operator.export("json")),
    *(call(method) for method in ("tools", "sources", "status")),
    *(call(method, "a") for method in ("agent", "about", "tools", "tool")),
    call("operator.cypher", "RETURN 1"),
)


@pytest.fixture
def here(embedder: str) -> Iterator[Registry]:
    with Registry.open(":memory:", embedder=embedder or None, environ={}) as registry:
        yield registry


@pytest.fixture
def service(embedder: str) -> Iterator[Served]:
    with served(embedder=embedder) as running:
        yield running


@pytest.mark.parametrize(("embedder", "seed"), [(NO_MODEL, 1), (NO_MODEL, 2), (DEFAULT_MODEL, 4)])
def test_a_service_says_what_the_registry_says(here: Registry, service: Served, seed: int) -> None:
    """After each operation of a seeded life, and of everything that can be asked at its end."""
    with Registry.open(service.url, environ={}) as there:
        _compare(Life(seed), here, there)


@pytest.mark.parametrize("embedder", [NO_MODEL])
def test_so_it_is_for_asynchronous_programs(here: Registry, service: Served) -> None:
    with asyncio.Runner() as runner:
        registry = RemoteRegistry.open(service.url, environ={})
        there = Awaited(runner.run(registry.__aenter__()), runner)
        _compare(Life(3), here, there)
        there.close()


def _compare(life: Life, here: Registry, there: object) -> None:
    for step in FIRST:
        assert outcome(there, step) == outcome(here, step), step.told
    for step in life.steps(20):
        assert outcome(there, step) == outcome(here, step), step.told
    asked = 0
    for question in life.questions(here):
        assert outcome(there, question) == outcome(here, question), question.told
        asked += 1
    assert asked > 150
