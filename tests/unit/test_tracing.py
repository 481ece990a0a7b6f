"""Spans of the core: what a route is made of, in which order, and what no span ever tells."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

import pytest

from waygraph.ingest.sources.read import read_path
from waygraph.ingest.sync.apply import sync
from waygraph.registry import Registry
from waygraph.registry.model.errors import CypherRefused
from waygraph.registry.model.settings import Settings
from waygraph.registry.model.tracing import Attribute, set_tracer

QUERY = "convert 250 euros to yen"
PATH = ContextVar("PATH", default="")
"""Of the span that is open in this context."""


class Told:
    """A tracer that writes down the path of each span, and its attributes."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        self.attributes: list[Mapping[str, Attribute]] = []

    @contextmanager
    def span(self, name: str, attributes: Mapping[str, Attribute]) -> Iterator[None]:
        path = f"{PATH.get()}/{name}".removeprefix("/")
        self.paths.append(path)
        self.attributes.append(attributes)
        inside = PATH.set(path)
        try:
            yield
        finally:
            PATH.reset(inside)


@pytest.fixture
def told() -> Iterator[Told]:
    told = Told()
    set_tracer(told)
    yield told
    set_tracer(None)


@pytest.fixture(scope="module")
def registry(catalog: Path) -> Iterator[Registry]:
    with Registry.open(":memory:", environ={}) as registry:
        for manifest in read_path(str(catalog), Settings()):
            sync(registry, manifest)
        yield registry


def test_a_route_is_embed_legs_and_fusion(registry: Registry, told: Told) -> None:
    """One span each, inside that of the route; the legs of the embedded index by group.

    While the query is embedded, the legs that need no vector are searched; where its vector is at hand, all together.
    """
    words = ["route/legs ahead", "route/legs ahead/words", "route/legs ahead/names"]
    registry.route(QUERY)
    assert sorted(told.paths) == sorted(
        ["route", "route/embed", *words, "route/legs", "route/legs/vectors", "route/fusion"]
    )
    told.paths.clear()
    registry.route(QUERY)
    legs = ["route/legs", "route/legs/vectors", "route/legs/words", "route/legs/names"]
    assert told.paths == ["route", "route/embed", *legs, "route/fusion"]


def test_writes_and_statements_have_spans(catalog: Path, told: Told) -> None:
    """Also one that fails: its span ends with the error."""
    with Registry.open(":memory:", embedder="none", environ={}) as registry:
        for manifest in read_path(str(catalog), Settings()):
            sync(registry, manifest)
        registry.cypher("MATCH (a:Agent) RETURN count(a) AS n")
        with pytest.raises(CypherRefused):
            registry.cypher("CREATE (a:Agent)")
    assert told.paths[0] == "write"
    assert told.paths[-2:] == ["cypher", "cypher"]
