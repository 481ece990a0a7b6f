"""Agents and tools in the explorer: found, looked at, set, and tried at a real local MCP server."""

import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, unquote

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser import Visit, visited
from tests.explorer.hostile import ATTACKS, SHELL, assert_harmless
from tests.gateway.hosts import Place, toolbox_place
from tests.service import Served, served, until
from tests.service import ingest as ingest_at
from waygraph.ingest import ingest
from waygraph.registry.model.settings import Settings


@pytest.fixture(scope="module")
def place(catalog: Path, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """The server `box` and the example catalogue, in one registry."""
    return toolbox_place(tmp_path_factory.mktemp("box"))


@pytest.fixture(scope="module")
def explored(place: Place, catalog: Path) -> Iterator[Served]:
    """A service over them whose operator lets people run tools."""
    with served(place.registry, settings=Settings(explorer_calls=True)) as service:
        ingest(service.registry, str(catalog))
        yield service


def result_of(page: Page) -> str:
    return page.get_by_role("region", name="Result").inner_text()


def test_an_agent_is_found_opened_and_hidden_from_answers(visit: Visit, explored: Served) -> None:
    def found() -> list[str]:
        return [
            match.agent.id for match in explored.registry.route("compares products and prices of many shops").matches
        ]

    assert "bazaar-lane" in found()
    page = visit.open("/explore/agents")
    page.get_by_role("searchbox").press_sequentially("compares product")
    expect(page.get_by_role("region", name="Agents").get_by_role("row")).to_have_count(2)
    assert "text=compares+product" in page.url
    page.get_by_role("link", name="bazaar-lane").first.click()
    expect(page.locator("h1")).to_have_text("Bazaar Lane")
    assert page.url.endswith("/explore/agents/bazaar-lane")

    page.get_by_text("Settings of operators").click()
    page.get_by_role("button", name="Hide", exact=True).click()
    expect(page.get_by_role("button", name="Show", exact=True)).to_be_visible()
    assert "bazaar-lane" not in found()
    visit.open("/explore/agents?state=hidden")
    expect(page.get_by_role("row")).to_have_count(2)


def test_a_list_is_shared_by_its_address(visit: Visit) -> None:
    page = visit.open("/explore/agents?state=runs")
    listed = page.locator("tbody a").all_inner_texts()
    assert "box" in listed
    assert "bazaar-lane" not in listed, "it is known from a catalogue only"
    expect(page.get_by_label("State")).to_have_value("runs")
    page.get_by_label("State").select_option("any")
    page.get_by_label("Kind").select_option("a2a_agent")
    visit.settle()
    assert page.url.endswith("?kind=a2a_agent")
    assert page.get_by_role("row").count() > 1


def test_what_operators_set_of_an_agent_is_told_apart(visit: Visit, explored: Served) -> None:
    page = visit.open("/explore/agents/bureau-fx")
    page.get_by_text("Settings of operators").click()
    page.get_by_label("Tags beside").fill("money, rates")
    page.get_by_role("button", name="Save").first.click()
    expect(page.locator("dd").filter(has_text="money (operators)")).to_contain_text("rates (operators)")
    page.get_by_label("Only these groups").fill("desk")
    page.get_by_role("button", name="Save").last.click()
    expect(page.get_by_text("only the groups desk, as operators set it")).to_be_visible()
    assert explored.registry.agent("bureau-fx").visible_to == ("desk",)


def test_removing_an_agent_asks_first(visit: Visit, explored: Served) -> None:
    page = visit.open("/explore/agents/cubby-files")
    page.get_by_text("Settings of operators").click()
    page.get_by_role("button", name="Remove …").click()
    page.get_by_role("button", name="Keep").click()
    assert explored.registry.agent("cubby-files")
    page.get_by_role("button", name="Remove …").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    page.wait_for_url("**/explore/agents")
    assert "cubby-files" not in [agent.id for agent in explored.registry.agents()]


def test_a_tool_is_tried_by_its_form(visit: Visit) -> None:
    page = visit.open("/explore/tools/box/add")
    page.get_by_label("a required").fill("2")
    page.get_by_label("b required").fill("40")
    expect(page.get_by_label("Arguments as JSON")).to_have_value(json.dumps({"a": 2, "b": 40}, indent=2))
    page.get_by_role("button", name="Run").click()
    expect(page.get_by_role("region", name="Result", exact=True)).to_contain_text("42")


PARCEL = {
    "type": "object",
    "required": ["to"],
    "properties": {
        "to": {
            "type": "object",
            "required": ["city"],
            "properties": {
                "city": {"type": "string", "minLength": 2},
                "floor": {"anyOf": [{"type": "integer", "maximum": 90}, {"type": "null"}]},
            },
        },
        "items": {"type": "array", "items": {"type": "string"}},
        "speed": {"enum": ["slow", "fast"], "default": "slow"},
        "fragile": {"type": "boolean"},
        "weight": {"$ref": "#/$defs/Weight"},
        "rest": {"type": "array", "items": {"type": "object"}},
    },
    "$defs": {"Weight": {"type": "number", "exclusiveMinimum": 0}},
}


def test_a_schema_of_many_forms_is_filled_in(visit: Visit, explored: Served) -> None:
    """Nested objects, lists, choices and references; what a form cannot hold is JSON, and JSON fills the form."""
    tool = {"name": "send", "description": "Sends a parcel.", "inputSchema": PARCEL}
    ingest_at(explored.client(), "parcels", {"id": "parcels", "name": "Parcels", "description": "x", "tools": [tool]})
    page = visit.open("/explore/tools/parcels/send")
    form, text = page.get_by_role("form", name="Arguments"), page.get_by_label("Arguments as JSON")
    expect(form).to_contain_text("number, above 0.")
    expect(form).to_contain_text('one of these, else "slow".')
    form.get_by_text("2 fields").click()
    form.get_by_label("city required").fill("Oslo")
    form.get_by_label("floor").fill("3")
    form.get_by_label("items").fill("a\nb")
    form.get_by_label("speed").select_option("fast")
    form.get_by_label("fragile").select_option("false")
    form.get_by_label("weight").fill("1.5")
    form.get_by_label("rest").fill('[{"a": 1}]')
    arguments = {
        "to": {"city": "Oslo", "floor": 3},
        "items": ["a", "b"],
        "speed": "fast",
        "fragile": False,
        "weight": 1.5,
        "rest": [{"a": 1}],
    }
    expect(text).to_have_value(json.dumps(arguments, indent=2))
    text.fill('{"to": {"city": "Bergen"}, "speed": "slow"}')
    expect(form.get_by_label("city required")).to_have_value("Bergen")
    expect(form.get_by_label("items")).to_have_value("")
    form.get_by_label("city required").fill("")
    expect(text).to_have_value(json.dumps({"speed": "slow"}, indent=2))


def test_arguments_that_do_not_fit_are_shown_at_their_fields(visit: Visit) -> None:
    page = visit.open("/explore/tools/box/add")
    page.get_by_label("a required").fill("two")
    page.get_by_role("button", name="Run").click()
    expect(page.get_by_label("a required")).to_be_focused()
    assert page.get_by_role("region", name="Result", exact=True).count() == 0
    page.get_by_label("Arguments as JSON").fill('{"a": 2.5, "b": 1}')
    page.get_by_role("button", name="Run").click()
    expect(page.get_by_role("region", name="Result", exact=True)).to_contain_text("nothing was sent")
    expect(page.locator(".field").filter(has=page.get_by_label("a required"))).to_contain_text(
        "expected integer, not number"
    )
    visit.faults.clear()  # the browser logs an answer of 422


def test_a_failure_is_shown_again_from_its_link(visit: Visit, browser: Browser) -> None:
    page = visit.open("/explore/tools/box/fail")
    page.get_by_label("Arguments as JSON").fill('{"words": "no key fits", "api_key": "hunter2-hunter2"}')
    page.get_by_role("button", name="Run").click()
    expect(page.get_by_role("region", name="Result", exact=True)).to_contain_text("The tool reported an error")
    page.get_by_role("list").get_by_role("link").first.click()
    assert "?call=" in page.url
    with visited(browser, visit.url) as other:
        shared = other.open(page.url.removeprefix(visit.url))
        call = shared.get_by_role("region", name="Call", exact=True)
        expect(call).to_contain_text("the tool reported an error")
        expect(call).to_contain_text("no key fits")
        assert "hunter2" not in shared.content()


def test_a_destructive_tool_asks_first(visit: Visit, place: Place) -> None:
    page = visit.open("/explore/tools/box/erase")
    page.get_by_role("button", name="Run").click()
    page.get_by_role("button", name="Do not run it").click()
    assert "erased" not in place.notes
    page.get_by_role("button", name="Run").click()
    page.get_by_role("dialog").get_by_role("button", name="Run it", exact=True).click()
    expect(page.get_by_role("region", name="Result", exact=True)).to_contain_text("gone")
    assert place.notes.count("erased") == 1


def test_what_policy_asks_a_person_runs_once_one_agrees(browser: Browser, place: Place, tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    rules = (("box/add", "ask"), ("box/fail", "deny"))
    policy.write_text("".join(f'[[rules]]\nmatch = "{tool}"\nverdict = "{verdict}"\n' for tool, verdict in rules))
    with (
        served(place.registry, settings=Settings(explorer_calls=True, policy_file=str(policy))) as service,
        visited(browser, service.url) as visit,
    ):
        page = visit.open("/explore/tools/box/add")
        page.get_by_label("Arguments as JSON").fill('{"a": 1, "b": 2}')
        page.get_by_role("button", name="Run").click()
        page.get_by_role("dialog").get_by_role("button", name="Run it", exact=True).click()
        expect(page.get_by_role("region", name="Result", exact=True)).to_contain_text("3")
        page = visit.open("/explore/tools/box/fail")
        page.get_by_role("button", name="Run").click()
        expect(page.get_by_role("region", name="Result", exact=True)).to_contain_text("policy denies it")
        visit.faults.clear()  # the browser logs each answer of 403


def test_who_may_not_call_is_offered_no_try(browser: Browser, place: Place) -> None:
    with served(place.registry) as service, visited(browser, service.url) as visit:
        page = visit.open("/explore/tools/box/add")
        expect(page.get_by_text("WAYGRAPH_EXPLORER_CALLS")).to_be_visible()
        assert page.get_by_role("button", name="Run").count() == 0
        assert page.get_by_role("heading", name="Last calls").count() == 0


def test_a_key_without_use_is_offered_no_try(browser: Browser, place: Place, tmp_path: Path) -> None:
    """Nor what it may not set; what it may read is there."""
    settings = Settings(explorer_calls=True)
    with (
        served(place.registry, auth=True, folder=tmp_path, settings=settings) as service,
        visited(browser, service.url) as visit,
    ):
        visit.context.set_extra_http_headers({"X-API-Key": service.key("read")})
        page = visit.open("/explore/tools/box/add")
        expect(page.get_by_label("a required")).to_be_visible()
        assert page.get_by_role("button", name="Run").count() == 0
        assert page.get_by_text("Settings of operators").count() == 0
        assert page.get_by_role("heading", name="Last calls").count() == 0


def test_what_operators_set_of_a_tool_is_told_apart(visit: Visit) -> None:
    page = visit.open("/explore/tools/trencher-tables/reserve")
    page.get_by_text("Settings of operators").click()
    page.get_by_label("Name for hosts").fill("other_name")
    page.get_by_role("button", name="Save").first.click()
    expect(page.get_by_role("heading", name="Changed by operators")).to_be_visible()
    expect(page.locator("h1")).to_have_text("other_name")


def test_a_copied_command_runs_nothing_that_a_name_holds(browser: Browser, hostile_service: Served) -> None:
    with visited(browser, hostile_service.url) as visit:
        visit.context.grant_permissions(["clipboard-read", "clipboard-write"])
        page = visit.open(f"/explore/tools/attacker-0/{quote(SHELL, safe='')}")
        page.get_by_role("button", name="Copy curl").click()
        program, silent, address, *_ = shlex.split(page.evaluate("navigator.clipboard.readText()"))
        assert (program, silent) == ("curl", "-s")
        assert unquote(address).endswith(f"/v1/tools/attacker-0/{SHELL}/call")


def test_an_answer_of_parts_without_end_is_shown_in_part(visit: Visit) -> None:
    """As a server may send one: its first parts, and the rest as JSON."""
    content = [{"type": "text", "text": f"part {number}"} for number in range(10_000)]
    odd = {"type": {"toString": 1}, "mimeType": {"toString": 1}, "data": "AAAA"}
    page = visit.open("/explore/tools/box/add")
    page.route("**/v1/tools/box/add/call", lambda route: route.fulfill(json={"content": [odd, *content]}))
    page.get_by_role("button", name="Run").click()
    result = page.get_by_role("region", name="Result", exact=True)
    expect(result).to_contain_text("part 48")
    expect(result.get_by_role("region", name="9951 more parts")).to_contain_text("part 50")
    assert_harmless(visit)


def test_a_result_that_a_server_gives_twice_is_shown_once(visit: Visit) -> None:
    """As structure, and as the same JSON in a text for hosts that read no structure; other texts stay."""
    texts = ['{"tide": {"high": [1, 2]}}', '{"tide": 3}', "low"]
    answer = {
        "content": [{"type": "text", "text": text} for text in texts],
        "structuredContent": {"tide": {"high": [1, 2]}},
    }
    page = visit.open("/explore/tools/box/add")
    page.route("**/v1/tools/box/add/call", lambda route: route.fulfill(json=answer))
    page.get_by_role("button", name="Run").click()
    result = page.get_by_role("region", name="Result", exact=True)
    expect(result.locator(".result")).to_have_text(texts[1:])
    expect(result.get_by_role("region", name="Structured content")).to_contain_text('"high"')


def test_what_makes_a_sign_a_picture_is_usual(visit: Visit, explored: Served) -> None:
    """One selector behind a pictograph; two, or one behind a letter, are unseen characters."""
    scales = "\N{SCALES}\N{VARIATION SELECTOR-16}"
    description = f"Weighs {scales}, {scales}\N{VARIATION SELECTOR-16} and a\N{VARIATION SELECTOR-16}."
    ingest_at(explored.client(), "scales", {"id": "scales", "name": "Scales", "description": description})
    page = visit.open("/explore/agents/scales")
    expect(page.locator("main p mark.unseen")).to_have_text(["U+FE0F ×2", "U+FE0F"])


def test_who_waits_for_a_tool_sees_that_it_runs_and_can_stop(visit: Visit) -> None:
    page = visit.open("/explore/tools/box/wait")
    page.get_by_role("button", name="Run", exact=True).click()
    page.get_by_role("button", name="Stop waiting").click()
    expect(page.get_by_role("region", name="Result")).to_contain_text("You stopped waiting")
    expect(page.get_by_role("button", name="Stop waiting")).to_have_count(0)
    until(lambda: page.request.get(f"{visit.url}/v1/calls?tool=box/wait").json()["calls"], "its end is known")
    page.reload()
    expect(page.get_by_text("cancelled").first).to_be_visible()


def test_a_schema_without_end_is_a_form_of_some_fields(browser: Browser, hostile_service: Served) -> None:
    """Objects within are drawn when they are opened, as fields while the form has few, then as JSON."""
    with visited(browser, hostile_service.url) as visit:
        page = visit.open("/explore/tools/endless/endless")
        form = page.get_by_role("form", name="Arguments")
        groups = form.locator(":scope > fieldset > details > summary")
        for place, count in enumerate((100, 200, 300)):
            expect(form.locator("fieldset")).to_have_count(count)
            groups.nth(place).click()
        form.get_by_label("so as JSON").fill('{"a": 1}')
        expect(page.get_by_label("Arguments as JSON")).to_have_value(json.dumps({"p02": {"a": 1}}, indent=2))
        expect(form.locator("fieldset")).to_have_count(300)
        assert_harmless(visit)


def test_unseen_characters_without_end_are_words(browser: Browser, hostile_service: Served) -> None:
    """Also where a text is shown whole, and in a schema."""
    with visited(browser, hostile_service.url) as visit:
        page = visit.open("/explore/tools/unseen/unseen")
        page.get_by_text("Of its result").click()
        schema = page.get_by_role("region", name="Schema of the result")
        expect(schema).to_contain_text("[U+200B]")
        page.locator(".code").filter(has=schema).get_by_role("button", name="characters").click()
        page.get_by_role("button", name="characters").first.click()
        expect(page.get_by_role("button", name="less").first).to_be_visible()
        expect(page.locator("mark.unseen").first).to_have_text("U+200B")
        assert_harmless(visit)


PAGES = [
    "/explore/agents",
    "/explore/agents?text=window.attacked",
    "/explore/tools",
    "/explore/tools?text=window+attacked",
    *(f"/explore/agents/attacker-{number}" for number in range(len(ATTACKS))),
    *(f"/explore/tools/attacker-{number}/look_{number}" for number in (0, 1, 6, 9)),
    "/explore/agents/huge",
    "/explore/tools/huge/huge",
    "/explore/agents/unseen",
    "/explore/tools/unseen/unseen",
    "/explore/agents/endless",
    "/explore/tools/endless/endless",
    "/explore/agents/%3Cscript%3Ewindow.attacked=1%3C%2Fscript%3E",
    "/explore/tools/x/%3Cimg%20src=x%20onerror=alert(1)%3E?call=%3Cscript%3E",
]


def test_a_hostile_registry_does_nothing(browser: Browser, hostile_service: Served) -> None:
    with visited(browser, hostile_service.url) as visit:
        for path in PAGES:
            page = visit.open(path)
            closed = page.locator("details:not([open]) > summary")
            for _ in range(12):
                if closed.count():
                    closed.first.click()
            more = page.get_by_role("button", name="characters")
            for _ in range(min(3, more.count())):
                more.first.click()
            visit.faults[:] = [fault for fault in visit.faults if "404" not in fault]  # what is not there
            assert_harmless(visit)
        page = visit.open("/explore/agents/attacker-9")
        for hidden in ("U+202E", "U+2069", "U+200B", "U+E0041"):
            expect(page.locator("h1")).to_contain_text(hidden)
