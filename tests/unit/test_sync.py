"""What a sync plans and writes: who claims what, who speaks for whom, what is embedded. On a graph without an index."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.sync_graph import Graph, claims, entry, manifest, new_graph
from waygraph.cypher import Statement, load
from waygraph.ingest.manifest.records import Manifest
from waygraph.ingest.sync.apply import refuse_mass_removal
from waygraph.ingest.sync.identity import part_of
from waygraph.ingest.sync.plan import plan
from waygraph.registry.graph import grafeo
from waygraph.registry.graph.engine import Rows
from waygraph.registry.model.changes import AgentEntry, OperatorSettings, Policy, Rejected, Written
from waygraph.registry.model.errors import MassRemoval, UnknownName
from waygraph.registry.model.identity import sealed_tool
from waygraph.registry.model.nouns import Principal, canonical_json
from waygraph.registry.operators.approval import approve, changed_setting, put_setting
from waygraph.registry.operators.sources import forget_source, put_statuses


@pytest.fixture
def graph() -> Iterator[Graph]:
    made = new_graph()
    yield made
    made.engine.close()


def test_the_first_sync_creates_everything(graph: Graph) -> None:
    changes, written = graph.sync(manifest("a", entry("x", tools=["one", "two"]), entry("y", tools=[])))
    assert changes.created_agents == ("x", "y")
    assert changes.created_tools == ("x/one", "x/two")
    assert written == Written(revision=1, texts_embedded=8)
    assert set(graph.agents()) == {"x", "y"}
    assert claims(graph) == {("a", "x", "x"), ("a", "y", "y")}


def test_an_unchanged_sync_changes_nothing(graph: Graph) -> None:
    stated = manifest("a", entry("x"), entry("y"))
    graph.sync(stated)
    before = graph.session.read_graph_view()
    embedded = graph.embedder.embedded
    changes, written = graph.sync(stated)
    assert changes.is_empty
    assert written == Written(revision=1)
    assert (changes.unchanged_agents, changes.unchanged_tools) == (2, 2)
    assert graph.embedder.embedded == embedded
    after = graph.session.read_graph_view()
    assert after.claims == before.claims
    assert after.sources["a"].seen_at > before.sources["a"].seen_at


def test_only_what_changed_is_embedded(graph: Graph) -> None:
    graph.sync(manifest("a", entry("x", tools=["one", "two"])))
    graph.embedder.texts.clear()
    changed = entry("x", tools=["one", "two"])
    tool = sealed_tool(replace(changed.tools[0], description="something else"))
    changes, written = graph.sync(manifest("a", replace(changed, tools=(tool, changed.tools[1]))))
    assert [update.id for update in changes.updated_tools] == ["x/one"]
    assert changes.updated_tools[0].fields == ("description",)
    assert changes.updated_agents == ()
    assert graph.embedder.texts == ["x | one: something else", "one: something else", "something else"]
    assert written.texts_embedded == 3


def test_what_is_not_listed_any_more_goes(graph: Graph) -> None:
    graph.sync(manifest("a", entry("x", tools=["one", "two"]), entry("y"), entry("z")))
    changes, _ = graph.sync(manifest("a", entry("x", tools=["two"]), entry("z")))
    assert changes.removed_agents == ("y",)
    assert set(changes.removed_tools) == {"x/one", "y/run"}
    assert set(graph.tools()) == {"x/two", "z/run"}
    assert graph.engine.run(load("check/orphans")) == []


def test_changed_behaviour_is_told(graph: Graph) -> None:
    graph.sync(manifest("a", entry("x", "old", tools=["one"]), entry("y", tools=["two"])))
    tagged = entry("y", tools=["two", "three"])
    with_tag = replace(tagged, tools=(sealed_tool(replace(tagged.tools[0], tags=("new",))), tagged.tools[1]))
    changes, _ = graph.sync(manifest("a", entry("x", "new", tools=["one"], schema='{"type":"object"}'), with_tag))
    assert [(u.id, u.fields) for u in changes.changed_behaviour] == [("x/one", ("description", "input_schema"))]
    assert {u.id for u in changes.updated_tools} == {"x/one", "y/two"}


def with_tool(**said: Any) -> AgentEntry:
    """An agent whose one tool says this."""
    made = entry("x")
    return replace(made, tools=(sealed_tool(replace(made.tools[0], **said)),))


@pytest.mark.parametrize(
    ("before", "after", "fields"),
    [
        ({"description": "now"}, {"description": "won"}, ("description",)),
        ({"description": "old", "tags": ("a", "b")}, {"description": "new", "tags": ("b", "a")}, ("description",)),
        ({"questions": ("a?", "b?")}, {"questions": ("b?", "a?")}, ("questions",)),
    ],
)
def test_the_order_of_letters_and_questions_is_a_change_and_that_of_tags_is_none(
    graph: Graph, before: dict[str, Any], after: dict[str, Any], fields: tuple[str, ...]
) -> None:
    graph.sync(manifest("a", with_tool(**before)))
    changes, _ = graph.sync(manifest("a", with_tool(**after)))
    assert [update.fields for update in changes.updated_tools] == [fields]


@pytest.mark.parametrize(("stated", "kept"), [("known", "online"), ("failing: 500", "failing: 500")])
def test_a_changed_tool_keeps_its_status_unless_its_source_states_one(graph: Graph, stated: str, kept: str) -> None:
    graph.sync(manifest("a", with_tool(status="online")))
    graph.sync(manifest("a", with_tool(status=stated, description="new")))
    assert graph.tools()["x/run"].status == kept


def test_an_unreadable_record_keeps_what_was_held(graph: Graph) -> None:
    graph.sync(manifest("a", entry("x"), entry("y")))
    rejected = Rejected(where="a#/1", reason="no name", key="y")
    changes, _ = graph.sync(manifest("a", entry("x"), rejected=(rejected,)))
    assert changes.released == ()
    assert changes.rejected == (rejected,)
    assert set(graph.agents()) == {"x", "y"}


def test_a_source_read_in_part_loses_nothing(graph: Graph) -> None:
    """Where a file could not be read nobody knows what it listed: what is missing stays, what is new is taken."""
    graph.sync(manifest("a", entry("x"), entry("y"), entry("z")))
    changes, _ = graph.sync(replace(manifest("a", entry("x", "new"), entry("v")), partial=True))
    assert changes.released == ()
    assert set(graph.agents()) == {"x", "y", "z", "v"}
    assert graph.agents()["x"].description == "new"
    changes, _ = graph.sync(manifest("a", entry("x", "new"), entry("v"), entry("z")))
    assert changes.removed_agents == ("y",)


def test_a_key_listed_twice_counts_once(graph: Graph) -> None:
    changes, _ = graph.sync(manifest("a", entry("x", "first"), entry("x", "second"), entry("y")))
    assert graph.agents()["x"].description == "first"
    assert [(r.key, r.reason) for r in changes.rejected] == [
        ("x", "this source lists agent 'x' twice; the first one is kept")
    ]


def test_keys_that_make_the_same_id_are_kept_apart(graph: Graph) -> None:
    """`a/b` and `a.b` of one source are two agents, whichever comes first and whatever they say."""
    graph.sync(manifest("s", entry("a.b", transport="T")))
    both = (entry("a/b", transport="T"), entry("a.b", transport="T"))
    graph.sync(manifest("s", *both))
    first = claims(graph)
    assert len({agent for *_, agent in first}) == 2
    assert ("s", "a.b", "a.b") in first
    changes, _ = graph.sync(manifest("s", *reversed(both)))
    assert changes.is_empty
    assert claims(graph) == first


@pytest.mark.parametrize(("kept", "refused"), [(4, False), (2, False), (1, True), (0, True)])
def test_a_sync_that_loses_more_than_half_is_refused(graph: Graph, kept: int, refused: bool) -> None:
    """Of four agents two may go at once; more are probably a broken source. The error names the numbers."""
    entries = [entry(f"x{n}") for n in range(4)]
    graph.sync(manifest("a", *entries))
    graph.sync(manifest("b", *(entry(f"other{n}") for n in range(10))))
    held = graph.session.read_graph_view()
    changes = plan(held, manifest("a", *entries[:kept]))
    if not refused:
        refuse_mass_removal(held, changes)
        return
    with pytest.raises(MassRemoval, match="allow_mass_removal") as caught:
        refuse_mass_removal(held, changes)
    assert (caught.value.source, caught.value.removed, caught.value.held) == ("a", 4 - kept, 4)


def test_agents_that_another_source_claims_are_not_lost(graph: Graph) -> None:
    """They may all leave a source at once: each stays with the other one, which is then held to the rule."""
    entries = [entry(f"x{n}", transport=f"npx x{n}") for n in range(4)]
    graph.sync(manifest("a", *entries))
    graph.sync(manifest("b", *entries))
    held = graph.session.read_graph_view()
    refuse_mass_removal(held, plan(held, manifest("a")))
    graph.sync(manifest("a"))
    held = graph.session.read_graph_view()
    assert {claim.source for claim in held.claims} == {"b"}
    with pytest.raises(MassRemoval):
        refuse_mass_removal(held, plan(held, manifest("b")))


def test_one_launch_is_one_agent(graph: Graph) -> None:
    graph.sync(manifest("a", entry("x", "said by a", transport="npx x")))
    changes, _ = graph.sync(manifest("b", entry("x", "said by b", transport="npx x")))
    assert changes.written == ()
    assert claims(graph) == {("a", "x", "x"), ("b", "x", "x")}
    assert graph.agents()["x"].description == "said by a"
    forget_source(graph.session, "a")
    assert set(graph.agents()) == {"x"}
    forget_source(graph.session, "b")
    assert graph.agents() == {}
    assert graph.tools() == {}


def test_one_launch_is_one_agent_under_different_keys(graph: Graph) -> None:
    graph.sync(manifest("a", entry("github", transport="npx github")))
    changes, _ = graph.sync(manifest("b", entry("gh", transport="npx github"), entry("y")))
    assert changes.renamed == (("gh", "github"),)
    assert set(graph.agents()) == {"github", "y"}
    assert graph.sync(manifest("b", entry("gh", transport="npx github"), entry("y")))[0].is_empty


def test_a_launch_that_many_share_names_no_agent(graph: Graph) -> None:
    graph.sync(manifest("a", entry("x", transport="url"), entry("y", transport="url")))
    graph.sync(manifest("b", entry("z", transport="url")))
    graph.sync(manifest("c", entry("v", transport="url"), entry("w", transport="url")))
    assert set(graph.agents()) == {"x", "y", "z", "v", "w"}


def test_a_key_that_changes_keeps_its_agent(graph: Graph) -> None:
    graph.sync(manifest("a", entry("old", transport="T"), entry("y")))
    graph.sync(manifest("a", entry("new", transport="T"), entry("y")))
    assert claims(graph) == {("a", "new", "old"), ("a", "y", "y")}
    graph.sync(manifest("a", entry("new", transport="T"), entry("old", transport="U"), entry("y")))
    launched = {name: agent.transport for name, agent in graph.agents().items() if agent.transport}
    assert launched["old"] == canonical_json({"command": "T"})
    assert ("a", "new", "old") in claims(graph)
    assert len(launched) == 2


def test_different_agents_of_one_id_are_kept_apart(graph: Graph) -> None:
    """The later one becomes `<namespace>.<id>`, is reported, and stays so in any order of later syncs."""
    graph.sync(manifest("a", entry("x", "one thing", transport="T")))
    changes, _ = graph.sync(manifest("b", entry("x", "another thing", transport="U")))
    assert changes.renamed == (("x", "ns-b.x"),)
    assert set(graph.agents()) == {"x", "ns-b.x"}
    assert set(graph.tools()) == {"x/run", "ns-b.x/run"}
    forget_source(graph.session, "a")
    changes, _ = graph.sync(manifest("b", entry("x", "another thing", transport="U")))
    assert changes.is_empty
    graph.sync(manifest("a", entry("x", "one thing", transport="T")))
    assert claims(graph) == {("a", "x", "x"), ("b", "x", "ns-b.x")}


def test_of_two_live_sources_that_asked_last_speaks(graph: Graph) -> None:
    """They tell of one server: what it says now is true, also where the source that came first is asked no more."""
    first, second = (entry("x", said, transport="T") for said in ("as it was", "as it is"))
    graph.sync(manifest("config", first, rank=1))
    changes, _ = graph.sync(manifest("other config", second, rank=1))
    assert [update.id for update in changes.updated_agents] == ["x"]
    assert graph.agents()["x"].description == "as it is"


@pytest.mark.parametrize("own", [None, "accept", "hold"])
def test_another_source_of_a_shared_server_does_not_let_in_what_one_holds_back(
    graph: Graph, own: Policy | None
) -> None:
    """The strictest policy of the live sources counts, also in the first sync of the one that comes later."""
    harmless, other = (entry("x", said, ["run"], transport="T") for said in ("as it was", "as it is"))
    graph.sync(replace(manifest("config", harmless, rank=1), policy="hold"))
    graph.sync(replace(manifest("other config", other, rank=1), policy=own))
    assert graph.tools()["x/run"].pending


def test_what_one_source_says_is_not_approved_with_what_another_said(graph: Graph) -> None:
    """Of two live sources of one server that one is named whose words are held."""
    first, second = (entry("x", said, transport="T") for said in ("as it was", "as it is"))
    graph.sync(replace(manifest("config", first, rank=1), policy="hold"))
    graph.sync(manifest("other config", second, rank=1))
    assert approve(graph.session, "source:config").tools == ()
    assert approve(graph.session, "source:other config").tools == ("x/run",)


def test_a_live_source_speaks_before_a_catalogue(graph: Graph) -> None:
    """What a running server says of itself replaces what a catalogue said, and the catalogue does not take it back."""
    listed = manifest("catalogue", entry("x", "as listed", transport="T"))
    live = manifest("live", entry("x", "as it is", tools=["real"], transport="T"), rank=1)
    graph.sync(listed)
    changes, _ = graph.sync(live)
    assert [update.id for update in changes.updated_agents] == ["x"]
    assert graph.agents()["x"].description == "as it is"
    assert set(graph.tools()) == {"x/real"}
    assert graph.sync(listed)[0].is_empty
    assert graph.agents()["x"].description == "as it is"


def test_tools_of_which_another_source_speaks_are_not_counted(graph: Graph) -> None:
    """They may be none of the agent's. Those of a source that says the same word for word are its tools."""
    said = entry("x", tools=["one", "two"], transport="T")
    graph.sync(manifest("a", said))
    shadowed, _ = graph.sync(manifest("b", entry("x", tools=["three"], transport="T"), entry("y")))
    assert (shadowed.unchanged_agents, shadowed.unchanged_tools) == (1, 0)
    assert shadowed.created_tools == ("y/run",)
    assert graph.sync(manifest("c", said))[0].unchanged_tools == 2


def test_a_shadowed_source_takes_over_when_the_first_is_forgotten(graph: Graph) -> None:
    """What it says counts with its next sync, once nobody before it claims the agent, and who forgets is told so."""
    first, second = entry("x", "first", transport="T"), entry("x", "second", transport="T")
    graph.sync(manifest("a", first))
    graph.sync(manifest("b", second))
    assert forget_source(graph.session, "a").ingest_again == ("b",)
    assert graph.agents()["x"].description == "first"
    changes, _ = graph.sync(manifest("b", second))
    assert graph.agents()["x"].description == "second"
    assert not changes.is_empty
    assert graph.sync(manifest("b", second))[0].is_empty


def test_who_says_what_is_held_need_not_be_ingested_again(graph: Graph) -> None:
    """Of a shared agent the source that speaks is left, or one that says the same; a third was never heard."""
    same, other = entry("x", "same", transport="T"), entry("x", "other", transport="T")
    for source, said in (("a", same), ("b", same), ("c", other)):
        graph.sync(manifest(source, said))
    assert forget_source(graph.session, "c").ingest_again == ()
    graph.sync(manifest("c", other))
    assert forget_source(graph.session, "a").ingest_again == ()
    assert forget_source(graph.session, "b").ingest_again == ("c",)


def test_what_a_shadowed_source_said_last_counts(graph: Graph) -> None:
    graph.sync(manifest("a", entry("x", "same", transport="T")))
    graph.sync(manifest("b", entry("x", "same", transport="T")))
    graph.sync(manifest("b", entry("x", "other", transport="T")))
    assert graph.sync(manifest("b", entry("x", "other", transport="T")))[0].is_empty
    assert forget_source(graph.session, "a").ingest_again == ("b",)


def test_of_live_sources_one_that_asked_before_must_be_asked_again(graph: Graph) -> None:
    graph.sync(manifest("catalogue", entry("x", "as listed", transport="T")))
    graph.sync(manifest("before", entry("x", "as it was", transport="T"), rank=1))
    graph.sync(manifest("last", entry("x", "as it is", transport="T"), rank=1))
    assert forget_source(graph.session, "last").ingest_again == ("before",)


def test_a_source_removes_only_what_it_claims(graph: Graph) -> None:
    graph.sync(manifest("a", entry("x"), entry("y", transport="T")))
    graph.sync(manifest("b", entry("z"), entry("y", transport="T")))
    changes, _ = graph.sync(manifest("b"))
    assert changes.removed_agents == ("z",)
    assert set(changes.released) == {"y", "z"}
    assert set(graph.agents()) == {"x", "y"}


def test_what_an_operator_said_survives_everything(graph: Graph) -> None:
    both = manifest("a", entry("x"), entry("y"))
    graph.sync(both)
    graph.say("x", tags=("mine",), visible_to=("team",), pinned=True, hidden=True)

    def assert_kept() -> None:
        agent = graph.agents()["x"]
        assert (agent.tags, agent.visible_to, agent.pinned, agent.hidden) == (("mine",), ("team",), True, True)

    assert_kept()
    assert graph.sync(both)[0].is_empty
    graph.sync(manifest("a", entry("x", "changed"), entry("y")))
    assert_kept()
    graph.sync(manifest("a", entry("y")))
    assert set(graph.agents()) == {"y"}
    graph.sync(both)
    assert_kept()


def test_a_removed_agent_stays_away_until_it_is_let_back(graph: Graph) -> None:
    """Its source may list it as often as it likes: reported as withheld. Let back, it returns with the next sync."""
    stated = manifest("a", entry("x"), entry("y"))
    graph.sync(stated)
    graph.say("x", removed=True)
    assert set(graph.agents()) == {"y"}
    assert set(graph.tools()) == {"y/run"}
    changes, _ = graph.sync(stated)
    assert changes.withheld == ("x",)
    assert changes.is_empty
    graph.say("x", removed=False)
    assert graph.sync(stated)[0].created_agents == ("x",)


def test_a_word_that_was_taken_back_moves_no_agent(graph: Graph) -> None:
    """Of two agents of one id the first goes: the second stays under its own, also where the plain id was restored."""
    graph.sync(manifest("a", entry("k/2"), entry("k.2")))
    graph.say("ns-a.k.2", removed=True)
    graph.say("k.2", removed=False)
    graph.sync(manifest("a", entry("k.2")))
    again, _ = graph.sync(manifest("a", entry("k.2")))
    assert again.is_empty
    assert again.withheld == ("ns-a.k.2",)


def test_a_removed_agent_does_not_come_back_as_another(graph: Graph) -> None:
    graph.sync(manifest("b", entry("gone", transport="T"), entry("y")))
    graph.say("gone", removed=True)
    graph.sync(manifest("a", entry("x", transport="T")))
    changes, _ = graph.sync(manifest("b", entry("gone", transport="T"), entry("y")))
    assert changes.withheld == ("gone",)
    assert claims(graph) == {("a", "x", "x"), ("b", "y", "y")}


def test_nothing_can_be_said_of_an_unknown_agent(graph: Graph) -> None:
    graph.sync(manifest("a", entry("github")))
    with pytest.raises(UnknownName, match="Did you mean 'github'"):
        graph.say("githib", pinned=True)


def test_a_removed_agent_does_not_come_back_under_an_id_that_became_free(graph: Graph) -> None:
    """Its id was made since another entry of the source had the plain one; that entry goes, the removal stays."""
    graph.sync(manifest("a", entry("k.2", "another")))
    both = manifest("b", entry("k/2", "first"), entry("k.2", "second"))
    graph.sync(both)
    [unwanted] = [agent_id for source, key, agent_id in claims(graph) if (source, key) == ("b", "k.2")]
    graph.say(unwanted, removed=True)
    for _ in range(2):
        changes = plan(graph.session.read_graph_view(), manifest("b", entry("k.2", "second")))
        assert changes.withheld == (unwanted,)
        graph.session.commit(changes)
    assert set(graph.agents()) == {"k.2"}


def test_an_imported_removal_removes(graph: Graph) -> None:
    graph.sync(manifest("a", entry("x"), entry("y")))
    said = OperatorSettings(agent_id="x", removed=True)
    changes, _ = graph.sync(replace(manifest("b", entry("z")), operator=(said,)))
    assert changes.removed_agents == ("x",)
    assert set(graph.agents()) == {"y", "z"}
    assert graph.sync(replace(manifest("b", entry("z")), operator=(said,)))[0].is_empty


WHOLE = {"read/agents", "read/claims", "read/settings", "read/tools", "read/transitions"}
ONE_CHANGE: dict[str, Callable[[Graph], object]] = {
    "a new agent": lambda graph: write_plan(graph, manifest("new", entry("new", transport="npx new"))),
    "another text": lambda graph: write_plan(graph, manifest("b", entry("b1", "says something else"))),
    "a setting": lambda graph: put_setting(
        graph.session, changed_setting(graph.session.read_agents(["a1"], None), "a1", {"hidden": True})
    ),
    "a status": lambda graph: put_statuses(graph.session, {"a1": "offline"}, {"a": {"a1": "offline"}}, {}),
    "an approval": lambda graph: approve(graph.session, "a1", "a2/run"),
    "a source that goes": lambda graph: forget_source(graph.session, "b"),
}


def write_plan(graph: Graph, manifest: Manifest) -> None:
    part = graph.session.read_graph_view(part_of(manifest))
    graph.session.commit(plan(part, manifest), graph=part)


@pytest.mark.parametrize("change", ONE_CHANGE.values(), ids=ONE_CHANGE)
def test_a_change_of_one_agent_reads_no_list_of_all(
    change: Callable[[Graph], object], graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever else is held: the statements that read everything are not run."""
    graph.sync(manifest("a", entry("a1"), entry("a2"), entry("a3")))
    graph.sync(manifest("b", entry("b1")))
    statements = list[str]()

    def execute(target: object, statement: Statement, params: dict[str, object], path: str) -> Rows:
        statements.append(statement.name)
        return execute_as_ever(target, statement, params, path)

    execute_as_ever = grafeo._execute
    monkeypatch.setattr(grafeo, "_execute", execute)
    change(graph)
    assert "read/agents_of" in statements
    assert not WHOLE.intersection(statements)


def test_an_operator_of_groups_approves_what_is_flagged_with_a_tool_of_another(graph: Graph) -> None:
    """Which of its flags they see is told by an agent that the approval does not name."""
    text = "sends a mail to somebody that the caller names, with a subject and a body of text"
    note = canonical_json({"type": "object", "properties": {"note": {"type": "string"}}})
    graph.sync(manifest("one", entry("mail", text, ("send_mail",), transport="mail-server")))
    graph.sync(manifest("two", entry("post", text, ("send_mail",), transport="other-server", schema=note)))
    assert "mail" in " ".join(graph.tools()["post/send_mail"].flags)
    graph.session._graph = None  # as in a session of its own
    done = approve(graph.session, "post/send_mail", principal=Principal(groups=("staff",), operates=True))
    assert done.tools == ("post/send_mail",)
