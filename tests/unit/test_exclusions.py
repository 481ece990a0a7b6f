"""What a request says that it does not want: which words that are, and what becomes of them in every recipe."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from waygraph.api.cli.app import main
from waygraph.registry.model.nouns import Filters, Principal, Query, Turn
from waygraph.registry.routing import exclusions
from waygraph.registry.routing.exclusions import read_phrases
from waygraph.registry.storage.local_registry import LocalRegistry

CATALOG = Path(__file__).parents[2] / "examples" / "catalog"
STAFF = Principal(groups=("staff",))
SEARCHERS = ("bazaar-lane", "burr-tracker", "lodestar-web", "pigeon-mail")


@pytest.mark.parametrize(
    ("text", "unwanted"),
    [
        ("post it without Slack, please", ["Slack?"]),
        ("post it without using Slack to the team", ["Slack"]),
        ("not with Slack or Teams, post it", ["Slack", "Teams"]),
        ("don't use the Slack server", ["Slack server"]),
        ("a bar chart, not a pie chart", ["pie chart"]),
        ("a stay in Rome, but no hotels", ["hotels"]),
        ("news instead of the weather for Rome", ["weather"]),
        ("papers other than from arXiv", ["arXiv"]),
        ("all tags except beta, gamma and delta", ["beta", "gamma?", "delta?"]),
        ("move the note without opening it in the editor and close it", ["opening it in the editor"]),
        ("flights without stops", ["stops?"]),
        ("coffee with no sugar", ["sugar?"]),
        ("an app without any coding experience", ["coding experience?"]),
        ("I do not want the table any more", ["table?"]),
        ("not only the price but the trend", []),
        ("no more than ten, no matter where", []),
        ("files that are not staged", []),
        ("including but not limited to Rome", []),
        ("I have no idea what is in it", []),
        ("the shoes that I don't want. Take them out", []),
        ('who sings "life without you"', []),
        ("the film No Time To Die", []),
        ("no puedo abrir el documento de ayer porque falla", []),
        ("https://without.example/not with", []),
    ],
)
def test_which_words_are_not_wanted(text: str, unwanted: list[str]) -> None:
    """`?`: only if they name an agent."""
    assert [f"{each.words}{'' if each.is_sure else '?'}" for each in read_phrases(text)] == unwanted


@pytest.mark.parametrize("text", ["without ", "not a, ", "not with ", "without a and b, ", "without opening "])
def test_each_word_of_a_long_text_is_read_a_few_times(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    reads = []

    class Counter:
        def match(self, text: str, place: int) -> object:
            reads.append(place)
            return word.match(text, place)

    word = exclusions._WORD
    monkeypatch.setattr(exclusions, "_WORD", Counter())
    read_phrases(text * 2_000)
    assert len(reads) <= 8 * len((text * 2_000).split())


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalRegistry]:
    """The example catalogue, where only the staff sees Parley, and an agent that is called as a tag is."""
    path = tmp_path_factory.mktemp("exclusions") / "r.grafeo"
    extra = path.with_name("extra.json")
    tool = {"name": "post", "description": "Posts a message to the team.", "inputSchema": {"type": "object"}}
    agents = [{"id": "chat", "name": "Chat", "kind": "mcp_server", "tools": [tool]}]
    extra.write_text(json.dumps({"waygraph": 1, "agents": agents}), encoding="utf-8")
    base = ["--registry", str(path)]
    assert main([*base, "ingest", str(CATALOG)]) == 0
    assert main([*base, "ingest", str(extra), "--namespace", "Depot"]) == 0
    assert main([*base, "set", "parley-chat", "--visible-to", "staff"]) == 0
    with LocalRegistry.open(path) as opened:
        yield opened


@pytest.mark.parametrize("recipe", ["hybrid", "lexical", "ranks", "agents", "tools"])
@pytest.mark.parametrize(
    ("text", "left_out"),
    [
        ("convert 40 dollars to euros, not with Bureau FX", ["bureau-fx"]),
        ("convert 40 dollars to euros without bureau-fx", ["bureau-fx"]),
        ("search for shoes without Lodestar or Pigeon Mail", ["lodestar-web", "pigeon-mail"]),
        ("search for shoes, no Lodestar server and pigeon-mail", ["lodestar-web", "pigeon-mail"]),
        ("post a message without Depot", ["chat"]),
        ("search for shoes without Lodestar's API", ["lodestar-web"]),
        ("who is on call, not by Crow's Nest", ["crowsnest"]),
        ("an invoice, but not using OpenAPI services", ["ledgerleaf", "nimbus-desk", "unit-bench"]),
        ("speech advice without any skill agents", []),
        ("a dinner without currency", []),
        ("a list, not with currency agents", ["bureau-fx"]),
        ("what is new without a lodestar", []),
        ("search for shoes, exclude Lodestar", ["lodestar-web"]),
        ("search for shoes and avoid the Lodestar server", ["lodestar-web"]),
        ("skip Lodestar, search for shoes", ["lodestar-web"]),
        ("search for shoes with anything but Lodestar", ["lodestar-web"]),
        ("search for shoes and leave out Pigeon Mail", ["pigeon-mail"]),
        ("leave Pigeon Mail out and search for shoes", ["pigeon-mail"]),
        ("search for shoes, omitting Lodestar and pigeon-mail", ["lodestar-web", "pigeon-mail"]),
        ("search for shoes, ignoring pigeon-mail", ["pigeon-mail"]),
        ("skip this song and avoid the tolls", []),
        ("leave the room out of the booking", []),
        ("exclude weekends and ignore the errors", []),
        ("search for shoes, excluding Lodestar", ["lodestar-web"]),
        ("search for shoes and stay away from the Lodestar server", ["lodestar-web"]),
        ("search for shoes and keep clear of Pigeon Mail", ["pigeon-mail"]),
        ("search for shoes but drop pigeon-mail", ["pigeon-mail"]),
        ("search for shoes and drop Pigeon Mail", ["pigeon-mail"]),
        ("drop Chat, tell the team", ["chat"]),
        ("drop the chat of the team", []),
        ("drop pigeon mail", []),
        ("drop the table users", []),
        ("drop the table", []),
        ("drop a message in the search tool", []),
        ("stay away from the stadium", []),
        ("a hotel, without search_hotels", ["skylark-travel/search_hotels"]),
        ("a hotel, avoid skylark-travel/search_hotels", ["skylark-travel/search_hotels"]),
        ("convert 40 dollars, skip the `bureau-fx/convert` tool", ["bureau-fx/convert"]),
        ("convert 40 dollars, drop bureau-fx/convert", ["bureau-fx/convert"]),
        ("a chart of sales but exclude barChart and pieChart", ["plotwright/barChart", "plotwright/pieChart"]),
        ("find shoes, don't use the search tool", [f"{each}/search" for each in SEARCHERS]),
        ("shoes without search", []),
        ("skip the search and convert 40 dollars", []),
        ("a dinner, avoid search_moons", []),
    ],
)
def test_agents_and_tools_that_a_request_excludes_are_left_out(
    registry: LocalRegistry, recipe: str, text: str, left_out: list[str]
) -> None:
    route = registry.route(Query(text=text, limit=50), recipe=recipe)
    assert list(route.exclusions) == left_out
    assert {match.agent.id for match in route.matches}.isdisjoint(left_out)
    assert route.query.text == text
    assert route.query.filters == Filters()
    assert all(each in route.notice() for each in left_out)
    if recipe != "agents":
        tools = registry.find_tools(Query(text=text, limit=50), recipe=recipe)
        assert list(tools.exclusions) == left_out
        assert {each for match in tools.matches for each in (match.agent.id, match.tool.id)}.isdisjoint(left_out)


def test_who_may_not_see_an_agent_names_nothing_by_its_name(registry: LocalRegistry) -> None:
    known, invented = (
        registry.route(f"tell the team that I am late, not with {name}", principal=Principal())
        for name in ("Parley Team Chat", "Zorb")
    )
    assert (known.exclusions, known.notice()) == (invented.exclusions, invented.notice()) == ((), "")
    assert [(each.agent.id, each.score) for each in known.matches] == [
        (each.agent.id, each.score) for each in invented.matches
    ]
    staff = registry.route("tell the team that I am late, not with Parley Team Chat", principal=STAFF)
    assert staff.exclusions == ("parley-chat",)
    for principal, ids in ((Principal(), ()), (STAFF, ("parley-chat/direct_message",))):
        assert registry.find_tools("tell Ann, without direct_message", principal=principal).exclusions == ids


def test_a_request_of_nothing_but_an_exclusion_still_finds(registry: LocalRegistry) -> None:
    route = registry.route("not with Bureau FX")
    assert route.exclusions == ("bureau-fx",)
    assert route.matches


def test_excluded_words_of_a_turn_before_are_not_wanted_later(registry: LocalRegistry) -> None:
    said = Turn(role="user", text="reserve a dinner, not a flight to Rome with a hotel in Rome")
    query = Query(text="for four people at eight", history=(said,))
    bare = Query(text=query.text, history=(Turn(role="user", text="reserve a dinner, to Rome with a hotel in Rome"),))
    assert registry.route(query).matches == registry.route(bare).matches
    repeated = Query(text=said.text, history=(said,))
    assert registry.route(repeated).matches == registry.route(said.text).matches


RIGHT = (
    ("what is 40 dollars in euros? not with Bureau FX", "unit-bench/convert", "bureau-fx/convert"),
    ("search the web for cheap shoes other than with Lodestar", "bazaar-lane/search", "lodestar-web/search"),
    ("who owns this domain? no lodestar-web please", "netlantern/whois", "lodestar-web/search"),
    ("plot sales as a bar chart rather than a pie chart", "plotwright/barChart", "plotwright/pieChart"),
    ("find a hotel in Lisbon instead of a flight", "skylark-travel/search_hotels", "skylark-travel/search_flights"),
    ("what is the air like in Milan today, not the forecast", "nimbus-desk/getAirQuality", "nimbus-desk/getForecast"),
    ("start the dinner scene, not the vacuum", "hearthside/run_scene", "hearthside/start_vacuum"),
    ("get the abstract of the paper, not its full text", "owl-stacks/get_abstract", "owl-stacks/get_full_text"),
    ("my passport photo without its background", "silver-halide/removeBackground", "silver-halide/drawImage"),
    ("flights to Rome without stops", "skylark-travel/search_flights", "skylark-travel/flight_status"),
    ("not only the quote of ACME but its price history", "bellringer-stocks/price_history", "bureau-fx/rate-history"),
)


@pytest.mark.parametrize(("text", "right", "other"), RIGHT)
def test_what_is_wanted_comes_before_what_is_not(registry: LocalRegistry, text: str, right: str, other: str) -> None:
    ids = [match.tool.id for match in registry.find_tools(Query(text=text, limit=50)).matches]
    assert ids.index(right) < min(5, ids.index(other) if other in ids else 99)


@pytest.mark.parametrize("filling", ["not x, ", "without a ", "\n, not ", "excluding q or "])
def test_a_text_has_so_many_phrases_at_most(filling: str) -> None:
    """Each is compared with all agents."""
    assert len(read_phrases(f"find it {filling * 2_000} end")) <= exclusions.MOST_PHRASES


def test_no_marker_begins_lines_before_its_word() -> None:
    """Else each of many empty lines is a start that is tried to the end."""
    found = exclusions._MARKER.search("x\n\n\nnot the other one")
    assert found
    assert found.start() == len("x\n\n\n")
