"""Which tool use_tool means: one, or none; never a guess."""

from collections.abc import Iterator

import pytest

from tests.gateway_catalog import BOARD, PUBLIC, READS, SECRET, agent, fill, put, tool
from waygraph.registry.catalog.find import FindAsked, find, judging
from waygraph.registry.catalog.resolve import CANDIDATES, is_exact_name, tool_meant
from waygraph.registry.model.errors import AmbiguousTool, UnknownName
from waygraph.registry.model.nouns import Agent
from waygraph.registry.storage.local_registry import LocalRegistry


@pytest.fixture(scope="module")
def registry() -> Iterator[LocalRegistry]:
    """Searched by meaning and words."""
    with LocalRegistry.open(":memory:") as opened:
        fill(opened)
        yield opened


@pytest.fixture(scope="module")
def wordy() -> Iterator[LocalRegistry]:
    """Searched by words only."""
    with LocalRegistry.open(":memory:", embedder="none") as opened:
        fill(opened)
        yield opened


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("github__create_issue", "github/create_issue"),
        ("github/create_issue", "github/create_issue"),
        ("GITHUB__create_issue", "github/create_issue"),
        ("delete_repo", "github/delete_repo"),
        ("SEARCHTICKETS", "tracker/searchTickets"),
        ("newcomer__translate_text", "newcomer/translate_text"),
        ("poet__write_verse", "poet/write_verse"),
    ],
)
def test_a_name_means_one_tool(wordy: LocalRegistry, name: str, meant: str) -> None:
    """By id or call name, or bare where only one tool bears it; whatever may be done with it is another question."""
    assert tool_meant(wordy, name=name).id == meant


ODD = (
    "b",
    "b.",
    "b!",
    "'b'",
    "t u",
    "t.u",
    "été",
    "取得",
    "x" * 120,
    "GO",
    "go",
    "a/b",
    "b__c",
    "_b",
    "ſearch",
    "search",
)


def test_odd_names_mean_their_own_tools() -> None:
    """With signs that a sentence might have around them, and with those of names and of ids in them."""
    tools = [tool(owner, name) for owner in ("a", "a b", "a__b") for name in ODD]
    with LocalRegistry.open(":memory:", embedder="none") as odd:
        put(
            odd,
            "odd",
            [agent(owner, *(each for each in tools if each.agent_id == owner)) for owner in ("a", "a b", "a__b")],
        )
        for each in tools:
            for name in (each.id, each.call_name):
                assert tool_meant(odd, name=name).id == each.id
                assert is_exact_name(each, name)


def test_a_bare_name_of_several_tools_means_none(registry: LocalRegistry) -> None:
    with pytest.raises(AmbiguousTool) as caught:
        tool_meant(registry, name="create_issue", principal=PUBLIC)
    assert set(caught.value.candidates) == {"github__create_issue", "tracker__create_issue"}
    with pytest.raises(AmbiguousTool) as caught:
        tool_meant(registry, name="create_issue", principal=BOARD)
    assert f"{SECRET}__create_issue" in caught.value.candidates


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("github__creat_issue", "github__create_issue"),
        ("github/create_isue", "github__create_issue"),
        ("delete_repos", "github__delete_repo"),
        ("search_tickets_of_desk", "tracker__searchTickets"),
    ],
)
def test_an_unknown_name_is_told_with_the_nearest(registry: LocalRegistry, name: str, near: str) -> None:
    with pytest.raises(UnknownName) as caught:
        tool_meant(registry, name=name)
    assert caught.value.nearest[0] == near
    assert near in str(caught.value)


def test_a_clear_request_means_one_tool(registry: LocalRegistry) -> None:
    assert tool_meant(registry, query="delete a repository for good").id == "github/delete_repo"
    assert tool_meant(registry, query="list the issues of a repository").id == "github/list_issues"
    assert tool_meant(registry, query="github__create_issue").id == "github/create_issue"


def test_a_tool_that_nothing_runs_stands_against_none_that_runs() -> None:
    """Of two that are alike, each by turns: by a request, by a bare name, and in the order of find_tools."""
    with LocalRegistry.open(":memory:") as twins:
        tools = {owner: tool(owner, "send_parcel", "Send a parcel to an address.") for owner in ("north", "south")}
        other = tool("north", "count_sheep", "Count the sheep of a meadow.")
        put(twins, "twins", [agent("north", tools["north"], other), agent("south", tools["south"])])
        for idle, runs in (("north", "south"), ("south", "north")):

            def why_not(each: Agent, idle: str = idle) -> str:
                return "nothing runs it" if each.id == idle else ""

            for query, name in (("send a parcel", ""), ("", "send_parcel")):
                assert tool_meant(twins, query=query, name=name, why_not=why_not).agent_id == runs
                with pytest.raises(AmbiguousTool):
                    tool_meant(twins, query=query, name=name)
            first, second, *_ = find(twins, FindAsked(query="send a parcel"), why_not=why_not)["tools"]
            assert (first["name"], second["cannot_run"]) == (f"{runs}__send_parcel", "nothing runs it")
            [best, *_] = find(twins, FindAsked(query="count the sheep of the meadow"), why_not=why_not)["tools"]
            assert best["name"] == "north__count_sheep"


def test_a_request_that_fits_several_means_none(registry: LocalRegistry) -> None:
    with pytest.raises(AmbiguousTool) as caught:
        tool_meant(registry, query="create an issue")
    assert 2 <= len(caught.value.candidates) <= CANDIDATES


def test_the_hint_says_where_everything_fits_as_well(registry: LocalRegistry) -> None:
    """How sure an answer of find_tools is comes before its tools."""
    doubtful, clear = (
        find(registry, FindAsked(query=text))
        for text in ("entropy of quantum hamsters", "delete a repository for good")
    )
    assert list(doubtful)[:4] == ["confidence", "notices", "hint", "tools"]
    assert "unlikely" in [each["code"] for each in doubtful["notices"]]
    assert doubtful["hint"].startswith("run one with use_tool")
    assert "notices" not in clear
    assert clear["hint"].startswith("run one with use_tool")
    assert clear["confidence"] > doubtful["confidence"]


def test_a_request_that_nothing_fits_is_unknown(registry: LocalRegistry) -> None:
    with pytest.raises(UnknownName) as caught:
        tool_meant(registry, query="entropy of quantum hamsters")
    assert caught.value.nearest


def test_what_destroys_does_not_run_for_a_request(registry: LocalRegistry) -> None:
    """However clear it is: only by its exact name, which no bare or otherwise written one is."""
    judges = judging(registry, None, None)
    owner, meant = registry.agent("github"), tool_meant(registry, query="delete a repository for good")
    for asked in ("delete a repository for good", "delete_repo", "GitHub__delete_repo"):
        assert not is_exact_name(meant, asked)
    for asked in ("github__delete_repo", "github/delete_repo", " `github__delete_repo` "):
        assert is_exact_name(meant, asked)
    assert judges.judge(owner, meant, by_name=False).verdict == "deny"
    assert judges.judge(owner, meant, by_name=True).verdict == "allow"


def test_a_hidden_agent_is_unknown_to_all() -> None:
    """An operator took it away: also who sees everything does not reach its tools through a gateway."""
    with LocalRegistry.open(":memory:", embedder="none") as registry:
        put(registry, "work", [agent("a", tool("a", "go", "Goes far.", annotations=READS)), agent("b")])
        registry.operator.set("a", hidden=True)
        for name in ("a__go", "a/go", "go"):
            with pytest.raises(UnknownName) as unknown:
                tool_meant(registry, name=name)
            assert list(unknown.value.nearest) == []
        for name in ("a__g", "a__goo", "a__go"):
            assert "nearest" not in find(registry, FindAsked(query=name))
