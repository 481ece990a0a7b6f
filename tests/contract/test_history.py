"""Routing with the turns before a request, in every place: votes, failures, what is hidden, words, bounds."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.shelf import Edition, Shelf, filled
from waygraph import RECIPES, Filters, Principal, Query
from waygraph.ingest.manifest.records import Manifest
from waygraph.ingest.sync.apply import sync
from waygraph.registry.model import validation
from waygraph.registry.model.changes import AgentEntry
from waygraph.registry.model.errors import InvalidQuery, InvalidSetting
from waygraph.registry.model.identity import sealed_agent, sealed_tool
from waygraph.registry.model.nouns import Agent, Route, Tool, ToolRoute, Turn, TurnRole
from waygraph.registry.model.settings import Settings
from waygraph.registry.model.validation import check_query, read_history
from waygraph.registry.registry import Registry
from waygraph.registry.routing.recipes import LEXICAL, HistoryShares
from waygraph.registry.storage.local_registry import LocalRegistry

WORDLESS = Edition(embedder="none")
SEND = "deliver a parcel"
AGENTS = 6


def call(tool: str, *, failed: bool = False) -> Turn:
    return Turn(role="call", tool=tool, outcome="failed" if failed else "ok", result="ERROR" if failed else "done")


def said(role: TurnRole, text: str) -> Turn:
    return Turn(role=role, text=text)


@pytest.fixture(scope="module")
def registry(shelf: Shelf) -> Registry:
    return shelf.catalogue(Edition())


@pytest.fixture
def alike(shelf: Shelf) -> Any:
    """Six agents that say the same, with two tools each; agent-5 is one group's, agent-4 hidden from everybody."""
    entries = []
    for number in range(AGENTS):
        wall = ("crew",) if number == AGENTS - 1 else ()
        agent = sealed_agent(Agent(id=f"agent-{number}", name=f"Agent {number}", visible_to=wall))
        tools = tuple(
            sealed_tool(Tool(id=f"{agent.id}/{name}", agent_id=agent.id, name=name, description=f"{SEND} by {name}"))
            for name in ("cart", "drone")
        )
        entries.append(AgentEntry(key=agent.id, agent=agent, tools=tools))
    with filled(shelf.empty(), WORDLESS) as registry:
        registry.operator.forget(registry.sources()[0].name)
        sync(registry, Manifest(source="alike", entries=tuple(entries)))
        registry.operator.set("agent-4", hidden=True)
        yield registry


def ids(route: Route | ToolRoute) -> list[str]:
    return [m.tool.id if hasattr(m, "tool") else m.agent.id for m in cast("Sequence[Any]", route.matches)]


def comparable(route: Route | ToolRoute) -> Any:
    return replace(route, elapsed_ms=0.0, notices=())


REQUESTS = ("send a direct message in the team chat", "convert 100 euros", "what will the weather be", "zzz qqq")


@settings(deadline=None)
@given(
    text=st.sampled_from(REQUESTS),
    recipe=st.sampled_from(sorted(name for name in RECIPES if RECIPES[name].texts != "plain")),
    limit=st.integers(1, 8),
)
def test_without_a_history_nothing_differs(registry: Registry, text: str, recipe: str, limit: int) -> None:
    """The answer is that of a recipe that takes no history at all."""
    deaf = replace(RECIPES[recipe], history=None)
    query = Query(text=text, limit=limit, history=())
    assert comparable(registry.route(query, recipe=recipe)) == comparable(registry.route(query, recipe=deaf))
    if deaf.ranks_tools:
        found = registry.find_tools(query, recipe=recipe)
        assert comparable(found) == comparable(registry.find_tools(query, recipe=deaf))


@pytest.mark.parametrize("recipe", [name for name, each in sorted(RECIPES.items()) if each.history and not each.walk])
def test_the_votes_of_a_history_add_up_to_the_score(registry: Registry, recipe: str) -> None:
    first = registry.route(REQUESTS[0], recipe=recipe, limit=3)
    used, failed = (match.agent.id for match in first.matches[1:3])
    tools = {agent_id: registry.tools(agent_id)[0].id for agent_id in (used, failed)}
    history = (call(tools[used]), call(tools[failed], failed=True))
    query = Query(text=REQUESTS[0], limit=20, history=history)
    route, found = registry.route(query, recipe=recipe), registry.find_tools(query, recipe=recipe)
    for score, votes in [(m.score, m.votes) for m in route.matches] + [(m.score, m.votes) for m in found.matches]:
        assert score == pytest.approx(sum(vote.contribution for vote in votes))
    legs = {match.agent.id: {v.leg: v.contribution for v in match.votes} for match in route.matches}
    assert legs[used]["used"] > 0
    assert not {"used", "failed"} & (legs[ids(first)[0]].keys() | legs[failed].keys())
    assert (route.query.history, route.notice()) == ((), "")
    assert [m.score for m in found.matches] == sorted((m.score for m in found.matches), reverse=True)


def test_the_agent_called_last_comes_first_among_equals(alike: Registry) -> None:
    """Decay: the later call weighs more; a call whose request was answered weighs less."""
    plain = ids(alike.route(SEND))
    later = (call("agent-2/cart"), call("agent-3__cart"))
    assert ids(alike.route(Query(text=SEND, history=later)))[:2] == ["agent-3", "agent-2"]
    assert ids(alike.route(Query(text=SEND, history=(call("agent-3"),))))[:2] == ["agent-3", plain[0]]
    answered = replace(Query(text=SEND, limit=AGENTS), history=(*later, said("assistant", "Sent.")))
    given = [_given_by_use(alike.route(query)) for query in (answered, replace(answered, history=later))]
    assert [set(each) for each in given] == [{"agent-2", "agent-3"}] * 2
    assert given[1]["agent-3"] > given[0]["agent-3"] > given[0]["agent-2"] > 0


def test_what_is_done_is_seldom_done_again(alike: Registry) -> None:
    """A tool called for the request under way gets less than its neighbour, and does not speak for its agent. Of calls
    alone nobody knows whether it was."""
    first = ids(alike.find_tools(SEND))[0]
    agent_id, neighbour = first.partition("/")[0], alike.tools(first.partition("/")[0])[1].id
    alone = Query(text=SEND, limit=20, history=(call(first),))
    assert ids(alike.find_tools(alone))[0] == first
    done = replace(alone, history=(said("user", SEND), call(first)))
    found = ids(alike.find_tools(done))
    assert found.index(neighbour) < found.index(first)
    (votes,) = (match.votes for match in alike.route(done).matches if match.agent.id == agent_id)
    assert first not in {vote.entity_id for vote in votes}
    answered = replace(done, history=(*done.history, said("assistant", "Sent.")))
    assert ids(alike.find_tools(answered))[0] == first
    (votes,) = (match.votes for match in alike.route(answered).matches if match.agent.id == agent_id)
    assert first in {vote.entity_id for vote in votes}


def _given_by_use(route: Route) -> dict[str, float]:
    return {m.agent.id: v.contribution for m in route.matches for v in m.votes if v.leg == "used"}


def test_a_rival_that_fits_as_well_comes_before_a_tool_that_failed(alike: Registry) -> None:
    """Only one of another agent, whose score says that it stands in; and the less, the more calls were made since."""
    first = ids(alike.find_tools(SEND))[0]
    agent_id = first.partition("/")[0]
    broken = Query(text=SEND, limit=20, history=(call(first, failed=True),))
    found = alike.find_tools(broken).matches
    assert found[0].tool.agent_id != agent_id
    assert [vote.contribution > 0 for vote in found[0].votes if vote.leg == "failed"] == [True]
    assert first in {match.tool.id for match in found}
    assert alike.route(broken).matches[0].agent.id != agent_id
    mended = replace(broken, history=(*broken.history, call(first)))
    assert ids(alike.find_tools(mended))[0] == first
    only = replace(broken, filters=Filters(agent_ids=(agent_id,)))
    assert ids(alike.find_tools(only)) == ids(alike.find_tools(replace(only, history=())))
    every = tuple(call(tool.id, failed=True) for tool in alike.tools())
    assert len(alike.find_tools(replace(broken, history=every)).matches) > 0


def test_a_tool_that_failed_stays_first_where_no_other_fits(registry: Registry) -> None:
    best = registry.find_tools(REQUESTS[1]).matches[0]
    again = registry.find_tools(Query(text=REQUESTS[1], history=(call(best.tool.id, failed=True),))).matches
    rival = next(match for match in again if match.tool.agent_id != best.tool.agent_id)
    assert rival.score < best.score * 0.8
    assert again[0].tool.id == best.tool.id


def test_an_agent_that_only_the_history_names_comes_in_by_it(alike: Registry) -> None:
    """With its tool, within the same filters; of a request that nothing fits, it is the answer."""
    query = Query(text="zzz qqq", history=(call("agent-2/drone"),))
    assert alike.route("zzz qqq").matches == ()
    found = alike.route(query)
    assert (ids(found), [tool.id for tool in found.matches[0].tools]) == (["agent-2"], ["agent-2/drone"])
    assert alike.route(replace(query, filters=Filters(agent_ids=("agent-1",)))).matches == ()
    assert alike.route(replace(query, history=(call("agent-4/cart"),))).matches == ()


def test_a_hidden_tool_in_a_history_is_one_that_is_not_there(alike: Registry) -> None:
    """In text, score, notice and order."""
    nobody = Principal()
    answers = [
        (comparable(route), route.notice())
        for name in ("agent-9/cart", "agent-5/cart", "agent-5/none", "agent-5", "agent-4__cart", "agent-4/drone")
        for failed in (False, True)
        for ask in (alike.route, alike.find_tools)
        if (route := ask(Query(text=SEND, history=(call("agent-1/cart"), call(name, failed=failed))), principal=nobody))
    ]
    routes, tools = answers[::2], answers[1::2]
    assert routes == [routes[0]] * len(routes)
    assert tools == [tools[0]] * len(tools)
    assert "turns 2" in routes[0][1]
    assert "agent" not in routes[0][1].replace("no agent", "")
    crew = Principal(groups=("crew",))
    shown = alike.route(Query(text=SEND, history=(call("agent-5/cart"),)), principal=crew)
    assert (ids(shown)[0], shown.notice()) == ("agent-5", alike.route(SEND).notice())


def test_the_words_before_tell_what_a_short_answer_means(registry: Registry) -> None:
    """They count beside it; the request itself, if a host leaves it among its turns, changes nothing."""
    asked = (said("user", "what will the weather be in Oslo"), said("assistant", "Today, or the whole week?"))
    bare, spoken = "and now the same for Berlin", Query(text="and now the same for Berlin", history=asked)
    best = ids(registry.route(REQUESTS[2]))[0]
    assert ids(registry.route(bare))[0] != best
    answer = registry.route(spoken)
    assert ids(answer)[0] == best
    repeated = registry.route(replace(spoken, history=(*asked, said("user", f" {bare}\n"))))
    assert comparable(repeated) == comparable(answer)
    assert (answer.confidence or 0) > (registry.route(bare).confidence or 0)
    assert registry.route(replace(spoken, strict=True)).matches


def test_a_changed_subject_is_not_held_by_the_history(registry: Registry) -> None:
    weather, message = (registry.find_tools(text).matches[0].tool for text in (REQUESTS[2], REQUESTS[0]))
    history = (said("user", REQUESTS[2]), call(weather.id), said("assistant", "It rains in Oslo."))
    assert ids(registry.find_tools(Query(text=REQUESTS[0], history=history)))[0] == message.id
    assert ids(registry.route(Query(text=REQUESTS[0], history=history)))[0] == message.agent_id


def test_results_are_never_read(registry: Registry) -> None:
    history = (call(registry.tools()[0].id), said("assistant", "Done."))
    poisoned = (replace(history[0], result="send a direct message in the team chat"), history[1])
    answers = [comparable(registry.route(Query(text=REQUESTS[2], history=each))) for each in (history, poisoned)]
    assert answers[0] == answers[1]


def test_each_step_is_routed_with_the_history(alike: Registry) -> None:
    query = Query(steps=(SEND, f"{SEND} by drone"), limit=6, history=(call("agent-3/cart"), call("nowhere/none")))
    route = alike.route(query)
    assert [ids(step)[0] for step in route.steps] == ["agent-3", "agent-3"]
    assert [step.query.history for step in (route, *route.steps)] == [()] * 3
    assert "turns 2" in route.notice()


class Counted:
    """Transitions as a test says they are."""

    is_counted = True

    def __init__(self, chances: Mapping[str, float]) -> None:
        self.chances, self.asked = chances, list[tuple[Sequence[str], Principal | None]]()

    def follows(self, calls: Sequence[str], principal: Principal | None) -> Mapping[str, float]:
        self.asked.append((calls, principal))
        return self.chances


def test_transitions_speak_for_what_may_be_found(alike: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    index = cast("LocalRegistry", alike).store.index()
    history = (call("agent-0/cart"), call("agent-1/cart"))
    query = Query(text=SEND, limit=20, history=history)

    def answer(chances: Mapping[str, float]) -> tuple[Route, ToolRoute]:
        counted = Counted(chances)
        monkeypatch.setattr(type(index), "transitions", counted)
        route = alike.route(query, principal=Principal()), alike.find_tools(query, principal=Principal())
        assert counted.asked == [(["agent-0/cart", "agent-1/cart"], Principal())] * 2
        return route

    route, found = answer({"agent-2/drone": 0.9})
    assert (ids(route)[0], ids(found)[0]) == ("agent-2", "agent-2/drone")
    votes = [next(v for v in each.votes if v.leg == "follows" and v.kind == "tool") for each in found.matches[:1]]
    others = sum(match.score for match in found.matches) - votes[0].contribution
    share = LEXICAL.history.follows if LEXICAL.history else 0.0
    assert votes[0].contribution / (votes[0].contribution / 0.9 + others) == pytest.approx(0.9 * share)
    open_only = answer({"agent-2/drone": 0.5})
    walled = answer({"agent-2/drone": 0.5, "agent-5/cart": 0.25, "gone/tool": 0.25})
    assert [ids(each) for each in open_only] == [ids(each) for each in walled]
    in_parts = answer({"agent-2/drone": 0.25, "agent-2": 0.25})[0]
    assert in_parts.matches[0].score == pytest.approx(open_only[0].matches[0].score)


@pytest.mark.parametrize(
    ("history", "told"),
    [
        ("user: hello", "several turns"),
        ([call("a/b"), "text"], "turn 2 of the history"),
        (
            [Turn(role=cast("Any", "tool"), text="secret")],
            "turn 1 of the history: role is one of user, assistant, call",
        ),
        ([Turn(role="call", tool="a/b", outcome=cast("Any", "maybe"))], "outcome is one of ok, failed"),
        ([Turn(role="call")], "a call names its tool"),
        ([Turn(role="user", text="secret", tool="a/b")], "a call names its tool, and nothing else does"),
        ([Turn(role="user", text=cast("Any", 3))], "text takes a text"),
        ([call("a/b")] * 4, "at most 3 turns"),
        ([call("a/b"), said("user", "secret" * 5)], "turn 2 of the history"),
        ([said("user", "secret 78")] * 3, "at most 25 characters in all its turns"),
        ([call("a" * 600)], "at most 512 characters"),
    ],
)
def test_a_malformed_turn_is_told_by_its_number_and_not_quoted(
    history: Any, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, most in (("MAX_TURNS", 3), ("MAX_TURN_CHARS", 10), ("MAX_HISTORY_CHARS", 25)):
        monkeypatch.setattr(validation, name, most)
    with pytest.raises(InvalidQuery) as caught:
        check_query(Query(text="x", history=history), Settings())
    assert told in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("turn", "told"),
    [
        ("secret", "expected an object of role, text, tool, outcome, result"),
        ({"role": "user", "content": "secret"}, "holds an unknown field"),
        ({"text": "secret"}, "`role` is missing"),
        ({"role": "user", "text": ["secret"]}, "text takes a text"),
    ],
)
def test_a_turn_as_json_has_it(turn: object, told: str) -> None:
    with pytest.raises(InvalidQuery, match="turn 7 of the history") as caught:
        read_history([*[{"role": "user", "text": "x"}] * 6, turn])
    assert told in str(caught.value)
    assert "secret" not in str(caught.value)
    assert read_history([{"role": "call", "tool": "a/b"}]) == (replace(call("a/b"), result=""),)


def test_a_history_is_not_shown_by_a_query() -> None:
    assert "secret" not in repr(Query(text="x", history=(said("user", "secret"),)))


def test_an_operator_can_turn_histories_off(alike: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    query = Query(text=SEND, history=(call("agent-3/cart"),))
    monkeypatch.setattr(cast("LocalRegistry", alike), "_settings", replace(alike.settings, route_history=False))
    route = alike.route(query)
    assert comparable(route) == comparable(alike.route(SEND))
    assert "turns before the request do not count" in route.notice()


@pytest.mark.parametrize("shares", [{"used": -1}, {"decay": 1.5}, {"topic": "much"}, {"topic_turns": 0}])
def test_shares_out_of_range_are_refused(shares: dict[str, Any]) -> None:
    with pytest.raises(InvalidSetting, match=f"history {next(iter(shares))}"):
        HistoryShares(**{"used": 0.1, "under_way": 0.1, "done": 0.1, "failed": 0.1, "follows": 0.1, **shares})
