"""Finding over a registry that a service keeps: the same answers as over the registry itself."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.gateway_catalog import GROUPS, by_hand, fill
from tests.service import served
from tests.sync_graph import entry, manifest
from waygraph import Filters, Query, Settings
from waygraph.ingest.pipeline import documents_of
from waygraph.registry.access.policy import CallPolicy, Rule
from waygraph.registry.catalog.find import FindAsked, capabilities, find
from waygraph.registry.catalog.resolve import tool_meant
from waygraph.registry.catalog.searchable import agents_of_namespace, open_view
from waygraph.registry.model.changes import AgentEntry
from waygraph.registry.model.errors import AmbiguousTool, UnknownName
from waygraph.registry.registry import Registry
from waygraph.registry.remote.remote_registry import RemoteRegistry

POLICY = CallPolicy(rules=(Rule(match="github/list_*", verdict="deny"), Rule(source="odd", verdict="ask")))


@pytest.fixture(scope="module")
def both() -> Iterator[tuple[Registry, Registry]]:
    """The registry, and the client of the service that keeps it."""
    with served(embedder="") as service, Registry.open(service.url, environ={}) as remote:
        fill(service.registry)
        service.registry.build_taxonomy(by_hand(GROUPS))
        yield service.registry, remote


@pytest.mark.parametrize(
    "asked",
    [
        {"query": "open an issue in a repository"},
        {"query": "list the issues", "detail": "schema", "limit": 2},
        {"query": "create_issue", "detail": "names"},
        {"query": "tracker/create_issue", "agent_ids": frozenset({"tracker"})},
        {"query": "newcomer__translate_text"},
        {"query": "write verse"},
        {"query": ""},
        {"query": "", "agent_ids": frozenset({"tracker"})},
        {"query": "", "browses": True},
        {"query": "", "browses": True, "within": "code"},
        {"query": "create an issue", "within": "code"},
    ],
    ids=str,
)
def test_a_service_answers_as_the_registry_does(both: tuple[Registry, Registry], asked: dict[str, Any]) -> None:
    here, there = (find(registry, FindAsked(**asked), policy=POLICY) for registry in both)
    assert here == there
    assert here.get("tools") or here.get("not_callable") or here.get("categories") or here["overview"]


def test_a_service_shows_its_categories(both: tuple[Registry, Registry]) -> None:
    for path in ("", "code"):
        here, there = (registry.browse(path, filters=Filters(kinds=("mcp_server",))) for registry in both)
        assert here == there
    for registry in both:
        with pytest.raises(UnknownName, match="holds: code, desk") as caught:
            registry.browse("cod")
        assert (caught.value.noun, caught.value.nearest) == ("category", ("code",))
        listed = [each.agent.id for each in registry.agents_page(filters=Filters(within="desk")).items]
        assert listed == sorted(registry.browse("desk").members)
        assert "tracker" in listed


def test_a_service_keeps_toolsets(both: tuple[Registry, Registry]) -> None:
    """Set by the client and shown by both alike; the same filter, view, errors."""
    here, there = both
    made = there.operator.set_toolset(
        "work", tools=["github/create_issue"], agents=["tracker", "none"], description="Daily."
    )
    assert made == here.toolset("work") == there.toolset("work")
    assert (made.members, made.missing) == (("github", "tracker"), ("none",))
    assert here.toolsets() == there.toolsets() == [made]
    query = Query(text="create an issue", filters=Filters(toolset="work"))
    for registry in both:
        found = [match.tool.id for match in registry.find_tools(query).matches]
        assert sorted(found) == sorted(made.includes)
        assert {match.agent.id for match in registry.route(query).matches} <= set(made.members)
        assert [each.agent.id for each in registry.agents_page(filters=Filters(toolset="work")).items] == [
            *made.members
        ]
        with pytest.raises(UnknownName) as caught:
            registry.find_tools(Query(text="x", filters=Filters(toolset="wor")))
        assert (caught.value.noun, caught.value.nearest) == ("toolset", ("work",))
        view = open_view(registry, "work").registry
        assert [tool.id for tool in view.tools()] == list(made.includes)
        assert view.lookup("tracker__create_issue") == registry.tool("tracker/create_issue")
        assert [tool.id for tool in view.about("github").tools] == ["github/create_issue"]
        assert (view.status().state.agents, view.status().state.tools) == (2, len(made.includes))
        first = view.tools(limit=1)
        assert view.tools(after=first.following, limit=9).items == tuple(view.tools()[1:])
        for name in ("github/delete_repo", "github__delete_repo", "nothing"):
            with pytest.raises(UnknownName) as unknown:
                view.lookup(name)
            assert "delete_repo" not in str(unknown.value).replace(name, "")
        for request in (view.tools, view.agent, view.about):  # what is outside is as what is not there
            for outside in ("desk", "nobody"):
                with pytest.raises(UnknownName) as unknown:
                    request(outside)
                assert set(unknown.value.nearest) <= {"github", "tracker"}
    there.operator.remove_toolset("work")
    assert here.toolsets() == there.toolsets() == []


def test_what_a_service_withholds_is_named_as_nearest(both: tuple[Registry, Registry]) -> None:
    answer = find(both[1], FindAsked(query="entropy of quantum hamsters"), policy=CallPolicy(strict=True))
    assert answer["reason"]
    assert len(answer["nearest"]) == 3


def test_names_mean_the_same_tools(both: tuple[Registry, Registry]) -> None:
    for registry in both:
        assert tool_meant(registry, name="delete_repo").id == "github/delete_repo"
        assert tool_meant(registry, query="delete a repository for good").id == "github/delete_repo"
        with pytest.raises(AmbiguousTool):
            tool_meant(registry, name="create_issue")
        with pytest.raises(UnknownName, match="github__create_issue"):
            tool_meant(registry, name="github__creat_isue")
        assert agents_of_namespace(registry, "team") == {"github", "tracker"}


def test_a_service_tells_what_it_finds_by(both: tuple[Registry, Registry]) -> None:
    assert [capabilities(registry)["backends"] for registry in both] == [["keyword", "embedding"]] * 2


@pytest.fixture
def there() -> Iterator[RemoteRegistry]:
    with served() as service, RemoteRegistry.open(service.url, settings=Settings(), environ={}) as there:
        yield there


def offer(there: RemoteRegistry, *entries: AgentEntry) -> None:
    assert there.ingest(list(documents_of(manifest("servers", *entries))), source="servers", namespace="ns-servers")


def test_tools_of_a_server_that_was_not_asked_stay(there: RemoteRegistry) -> None:
    """As they do here: only the server itself could say that they are gone."""
    git, clock = entry("git", tools=("commit", "push")), entry("clock", tools=("now",))
    offer(there, git, clock)
    offer(there, replace(git, tools=(), unasked=True), replace(clock, tools=()))
    assert [tool.id for tool in there.tools()] == ["git/commit", "git/push"]
