"""Who may set what operators set, through the service: the table of docs/security.md."""

from collections.abc import Callable

import httpx2
import pytest

from tests.service import Served, agent, assert_good, assert_problem, content, manifest
from waygraph.registry.model.errors import NotAllowed

Call = Callable[[httpx2.Client], httpx2.Response]

WRITER, OPERATOR = ("read", "write"), ("read", "write", "admin")


def patched(name: str, **said: object) -> Call:
    return lambda client: client.patch(f"/v1/agents/{name}", json=said)


def ingested(source: str, *agents: object, **said: object) -> Call:
    return lambda client: client.post("/v1/manifests", json=manifest(source, *agents, **said))  # type: ignore[arg-type]


FOR_OPERATORS: dict[str, Call] = {
    "pin": patched("open", pinned=True),
    "unpin": patched("open", pinned=False),
    "hide": patched("open", hidden=True),
    "restrict": patched("open", visible_to=["crew"]),
    "tag": patched("open", tags=["ours"]),
    "take tags back": patched("open", tags=[]),
    "remove": lambda client: client.delete("/v1/agents/open"),
    "fix a value": lambda client: client.patch("/v1/tools/open/look", json={"parameters": {"note": {"pin": "theirs"}}}),
    "reset a tool": lambda client: client.patch("/v1/tools/open/look", json={"parameters": None}),
    "describe a tool of its own": lambda client: client.patch("/v1/tools/own/look", json={"description": "Mine."}),
    "approve": lambda client: client.post("/v1/approvals", json={"names": ["waits"]}),
    "approve its own": lambda client: client.post("/v1/approvals", json={"names": ["own"]}),
    "loosen a policy": ingested("held", agent("waits", "look"), policy="accept"),
    "forget a source that others see": lambda client: client.delete("/v1/sources/s"),
    "say something else of what it sees": ingested(
        "s", agent("open", "look", description="Another word"), partial=True
    ),
    "forget a policy": lambda client: client.delete("/v1/sources/held-own"),
    "pin its own": patched("own", pinned=True),
    "show to all what an operator restricted": patched("kept", visible_to=None),
    "show its own to others": patched("own", visible_to=["crew", "deck"]),
    "hide what another group sees too": patched("shared", hidden=True),
}
FOR_WRITERS: dict[str, Call] = {
    "hide its own": patched("own", hidden=True),
    "tag its own": patched("own", tags=["ours"]),
    "remove its own": lambda client: client.delete("/v1/agents/own"),
    "restrict its own": patched("own", visible_to=["crew"]),
    "forget its own source": lambda client: client.delete("/v1/sources/own"),
    "bring a source with a policy": ingested("new", agent("new", "look"), policy="strict"),
    "repeat a policy": ingested("held-own", agent("calm", "look", visible_to=["crew"]), policy="hold"),
}


@pytest.fixture
def filled(guarded: Served) -> Served:
    """An operator's words on public agents, and agents that only the crew sees."""
    admin, crew = guarded.admin(), {"visible_to": ["crew"]}
    note = {"type": "object", "properties": {"note": {"type": "string"}}}
    tool = {"name": "look", "description": "Looks", "inputSchema": note}
    public = [agent("open") | {"tools": [tool]}, agent("kept", "look"), agent("shared", visible_to=["crew", "deck"])]
    for call in (
        ingested("s", *public),
        ingested("own", agent("own", "look", **crew)),
        ingested("held-own", agent("calm", "look", **crew), policy="hold"),
        ingested("held", agent("first", "look"), policy="hold"),
        ingested("held", agent("first", "look"), agent("waits", "look")),
        patched("open", pinned=True, tags=["checked"]),
        patched("own", pinned=True, tags=["checked"]),
        patched("kept", visible_to=["crew"]),
    ):
        assert_good(call(admin))
    assert_good(admin.patch("/v1/tools/open/look", json={"parameters": {"note": {"pin": "operator"}}}))
    return guarded


@pytest.mark.parametrize("name", FOR_OPERATORS)
def test_what_operators_set_needs_an_operator(filled: Served, name: str) -> None:
    before = content(filled)
    writer = filled.client(filled.key(*WRITER, groups=("crew",)))
    problem = assert_problem(FOR_OPERATORS[name](writer), 403, NotAllowed)
    assert "admin" in problem["detail"]
    assert content(filled) == before
    assert_good(FOR_OPERATORS[name](filled.client(filled.key(*OPERATOR, groups=("crew",)))))


@pytest.mark.parametrize("name", FOR_OPERATORS)
def test_a_writer_who_sees_everything_is_an_operator(filled: Served, name: str) -> None:
    assert_good(FOR_OPERATORS[name](filled.client(filled.key(*WRITER, everything=True))))


@pytest.mark.parametrize("name", FOR_WRITERS)
def test_a_writer_changes_content_and_what_only_its_groups_see(filled: Served, name: str) -> None:
    assert_good(FOR_WRITERS[name](filled.client(filled.key(*WRITER, groups=("crew",)))))


@pytest.mark.parametrize("name", ["own", "never-there"])
def test_what_an_operator_may_not_see_is_unknown_to_it(filled: Served, name: str) -> None:
    stranger = filled.client(filled.key(*OPERATOR, groups=("deck",)))
    assert patched(name, hidden=True)(stranger).status_code == 404
    assert stranger.delete(f"/v1/agents/{name}").status_code == 404
    assert stranger.delete(f"/v1/sources/{name}").status_code == 404


@pytest.mark.parametrize("name", ["waits", "waits/look", "first/late"])
def test_words_of_a_text_that_waits_are_for_those_who_may_read(filled: Served, name: str) -> None:
    """Who may only ask for routes would learn by guesses what nobody has approved."""
    late = agent("first", "look", "late")
    assert_good(ingested("held", late, agent("waits", "look"))(filled.admin()))
    asked = {"id": name, "text": "waits late look zorbulate"}
    for scopes, knows in ((("route",), False), (("route", "read"), True)):
        for caller in (filled.caller(*scopes), filled.caller(*scopes, everything=True)):
            told = assert_good(caller.post("/v1/route/why", json=asked))
            assert "waits for approval" in told["sentence"]
            assert (bool(told["held_words"]), bool(told["missing_words"])) == (knows, knows)
    route_only = filled.caller("route").post("/v1/route/why", json={**asked, "id": "open"})
    assert assert_good(route_only)["held_words"] == ["look"]
