"""The page Ask, as a person uses it: ask, see why, ask for the other one, compare, go on from a conversation."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser import Visit, visited
from tests.service import Served, agent, manifest, served
from waygraph.ingest import ingest
from waygraph.registry.storage.local_registry import LocalRegistry

DINNER = "book a table for four"
ATTACK = "<img src=x onerror=alert(1)><script>alert(2)</script>{{7*7}} \u202eevil\u200b `$(id)` '"
HOSTILE = "hostile-words"


@pytest.fixture(scope="module")
def explored(catalog: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """With vectors, and one agent whose every text attacks."""
    with served(tmp_path_factory.mktemp("asked") / "r.grafeo", embedder="") as service:
        ingest(service.registry, str(catalog))
        hostile = agent(HOSTILE, "quuxify", name=ATTACK, description=f"{ATTACK} quuxification of zebras")
        assert service.client().post("/v1/manifests", json=manifest("strangers", hostile)).status_code == 200
        yield service


def ask(visit: Visit, path: str = "", text: str = "") -> Page:
    """The page with its answer drawn."""
    page = visit.open(f"/explore?q={quote(text)}{path}" if text else f"/explore{path}")
    if text:
        expect(page.locator(".answer").first).to_contain_text("revision")
    return page


def names(page: Page, column: int = 0) -> list[str]:
    return page.locator(".answer").nth(column).locator(":scope > div > .matches > li h3").all_inner_texts()


def test_the_answer_follows_what_is_typed(visit: Visit, explored: Served) -> None:
    page = ask(visit)
    expect(page.get_by_text("This registry holds")).to_contain_text("37 agents")
    field = page.get_by_label("What is to be done?")
    field.press_sequentially("book a ta", delay=5)
    field.press_sequentially("ble for four", delay=5)
    expect(page.locator(".matches h3").first).to_have_text("trencher-tables")
    expect(page).to_have_url(re.compile(r"\?q=book\+a\+table\+for\+four$"))
    visit.settle()
    matches = explored.registry.route(DINNER).matches
    assert names(page) == [match.agent.id for match in matches]
    page.reload()
    expect(page.get_by_label("What is to be done?")).to_have_value(DINNER)
    expect(page.locator(".matches h3").first).to_have_text("trencher-tables")


def test_letters_typed_while_an_answer_comes_are_kept(visit: Visit) -> None:
    """A former request is ended, and no answer to it is drawn over that of the last."""
    page = ask(visit)
    held: list[object] = []
    page.route("**/v1/route", lambda route: held.append(route) if len(held) < 2 else route.continue_())
    field = page.get_by_label("What is to be done?")
    for text in ("weather", "weather in", DINNER):
        field.fill(text)
        page.wait_for_timeout(400)
    expect(page.locator(".matches h3").first).to_have_text("trencher-tables")
    expect(field).to_have_value(DINNER)
    assert len(held) == 2


def test_why_an_agent_came_second(visit: Visit, explored: Served) -> None:
    """What it is behind by, and the votes that its score is made of."""
    first, second = explored.registry.route(DINNER).matches[:2]
    page = ask(visit, text=DINNER)
    card = page.locator(".matches > li").nth(1)
    expect(card.locator("h3")).to_have_text(second.agent.id)
    expect(card.locator(".behind")).to_contain_text(f"{first.score - second.score:.2f} behind the one above, most by “")
    card.get_by_text("what the score is made of").click()
    rows = card.get_by_role("row")
    expect(rows).to_have_count(len(second.votes) + 2)
    expect(rows.last).to_contain_text(f"{second.score:.2f}")
    expect(rows.nth(1)).to_contain_text(second.votes[0].entity_id)
    legend = page.get_by_role("list", name="What the colours mean").first
    expect(legend).to_contain_text("meaning of the agent")


@pytest.mark.parametrize(
    ("name", "path", "sentence"),
    [
        ("skylark-travel/book_flight", "", "of the tools, and 5 are shown: it lacks most"),
        ("ledgerleaf", "&limit=2", "of the agents, and 2 are shown"),
        (
            "trencher-tables",
            "&kind=openapi",
            "It is left out by the filter kinds (openapi); without that it would be number 1",
        ),
        ("no-such-one", "", "'no-such-one' is not known"),
    ],
)
def test_why_another_one_did_not_come(visit: Visit, name: str, path: str, sentence: str) -> None:
    page = ask(visit, path, DINNER)
    page.get_by_text("Why not the other one?").click()
    field = page.get_by_label("An agent, or a tool")
    field.fill(name)
    field.press("Enter")
    expect(page.locator(".why")).to_contain_text(sentence)
    expect(page).to_have_url(re.compile(f"why={quote(name, safe='')}"))


def test_a_hidden_one_says_so(visit: Visit, explored: Served) -> None:
    explored.registry.operator.set("trencher-tables", hidden=True)
    try:
        page = ask(visit, "&why=trencher-tables", DINNER)
        expect(page.get_by_text("It is hidden by an operator.")).to_be_visible()
        assert "trencher-tables" not in names(page)
    finally:
        explored.registry.operator.set("trencher-tables", hidden=False)


def test_no_word_in_common(visit: Visit) -> None:
    page = ask(visit, "&recipe=lexical&why=quarry-sql", "moonlit walrus")
    expect(page.get_by_text("its texts hold none of the words moonlit, walrus")).to_be_visible()
    expect(page.locator("[data-code=nothing]")).to_have_text(re.compile("nothing in this registry fits", re.IGNORECASE))


def test_the_notices_of_an_answer_are_drawn(visit: Visit, explored: Served) -> None:
    for text in ("moonlit walrus", f"{DINNER}, exclude bureau-fx"):
        page = ask(visit, "&recipe=lexical", text)
        notices = explored.registry.route(text, recipe="lexical").notices
        drawn = page.locator(".answer").first.locator("[data-code]")
        expect(drawn).to_have_count(len(notices))
        assert notices
        assert [each.get_attribute("data-code") for each in drawn.all()] == [each.code for each in notices]


def test_two_recipes_side_by_side(visit: Visit, explored: Served) -> None:
    page = ask(visit, text=DINNER)
    page.get_by_text("Compare", exact=True).click()
    page.get_by_label("lexical").check()
    expect(page.locator(".answer")).to_have_count(2)
    expect(page).to_have_url(re.compile("recipe=hybrid&recipe=lexical"))
    expect(page.locator(".answer").nth(1).locator("h3").first).to_be_visible()
    for column, recipe in enumerate(("hybrid", "lexical")):
        assert names(page, column) == [m.agent.id for m in explored.registry.route(DINNER, recipe=recipe).matches]
    page.get_by_label("ranks").check()
    expect(page.get_by_label("taxonomy")).to_be_disabled()


def test_a_conversation_goes_on(visit: Visit, explored: Served) -> None:
    """Plain lines and OpenAI's messages are read alike: the last words are the request, what was before counts."""
    said = ("user: What is the weather in Oslo?", "call: nimbus-desk/getCurrent ok", "assistant: Two degrees.")
    lines = "\n".join([*said, "user: and for tomorrow?"])
    calls = [{"id": "1", "type": "function", "function": {"name": "nimbus-desk__getCurrent", "arguments": "{}"}}]
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "What is the weather in Oslo?"}]},
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_call_id": "1", "content": "2 degrees"},
        {"role": "assistant", "content": "Two degrees."},
        {"role": "user", "content": "and for tomorrow?"},
    ]
    for text in (lines, json.dumps(messages)):
        page = ask(visit)
        with page.expect_request("**/v1/route") as sent:
            page.get_by_label("What is to be done?").fill(text)
        body: Any = sent.value.post_data_json
        assert body["text"] == "and for tomorrow?"
        assert [(turn["role"], turn.get("text")) for turn in body["history"]] == [
            ("user", "What is the weather in Oslo?"),
            ("call", None),
            ("assistant", "Two degrees."),
        ]
        assert body["history"][1]["outcome"] == "ok"
        expect(page.get_by_text("3 turns before the request")).to_be_visible()
        expect(page.locator(".matches h3").first).to_have_text("nimbus-desk")
    assert explored.registry.route("and for tomorrow?").matches[0].agent.id != "nimbus-desk"


def test_steps_have_an_answer_each(visit: Visit) -> None:
    page = ask(visit, "&as=steps", "find a restaurant\npay an invoice")
    expect(page.locator(".step")).to_have_count(2)
    expect(page.locator(".behind").filter(has_text="-")).to_have_count(
        0
    )  # steps take turns: a later one can score more
    page.locator(".step summary").first.click()
    expect(page.locator(".step").first.locator("h3").first).to_have_text("trencher-tables")


def test_tools_and_filters(visit: Visit, explored: Served) -> None:
    page = ask(visit, text=DINNER)
    page.get_by_text("Compare", exact=True).click()
    page.get_by_label("Find").select_option("tools")
    expect(page.locator(".matches h3").first).to_have_text("trencher-tables/reserve")
    page.get_by_text("Narrow", exact=True).click()
    page.get_by_label("OpenAPI service").check()
    expect(page).to_have_url(re.compile("kind=openapi"))
    visit.settle()
    shown = names(page)
    assert all(explored.registry.agent(name.split("/")[0]).kind == "openapi" for name in shown)
    page.get_by_role("button", name="Without filters").click()
    expect(page.locator(".matches h3").first).to_have_text("trencher-tables/reserve")


@pytest.mark.parametrize(
    "query", [ATTACK, 'it\'s "quoted" $HOME `id` \\ -- -x', "it's esc \x1b[2J ^C\x03 bell\x07 csi\u009b31m !! \\"]
)
def test_the_same_question_elsewhere(visit: Visit, explored: Served, query: str, tmp_path: Path) -> None:
    """What is copied runs, and asks the very same: whatever the request holds stays words."""
    page = ask(visit, "&kind=mcp_server&limit=3", query)
    texts = {}
    for name in ("curl", "Command line"):
        page.locator("details[name=elsewhere] summary", has_text=name).click()
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        page.locator("details[name=elsewhere][open]").get_by_role("button", name="Copy").click()
        texts[name] = page.evaluate("navigator.clipboard.readText()")
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", texts["curl"] + texts["Command line"])
    expected = names(page)
    assert len(expected) == 3
    answered = json.loads(run(tmp_path, "bash", "-c", texts["curl"]))
    assert answered["query"]["text"] == query
    assert [match["agent"]["id"] for match in answered["matches"]] == expected
    shell = texts["Command line"].replace("waygraph ", f"{sys.executable} -m waygraph.api.cli.app ", 1)
    assert all(name in run(tmp_path, "bash", "-c", shell) for name in expected)


def run(folder: Path, *command: str) -> str:
    environ = {"PATH": "/usr/bin:/bin", "WAYGRAPH_REMOTE_PLAIN_HTTP": "true", "HOME": str(folder)}
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd=folder, env=environ).stdout


def test_texts_of_strangers_are_only_texts(visit: Visit) -> None:
    """As a query, in an agent's texts, and as the name that is asked for. `Visit.faults` sees what would run."""
    page = ask(visit, f"&why={HOSTILE}", f"quuxification of zebras {ATTACK}")
    expect(page.locator(".matches h3").first).to_have_text(HOSTILE)
    expect(page.locator(".matches .words").first).to_contain_text("<img src=x onerror=alert(1)>")
    expect(page.locator("mark.unseen").first).to_be_visible()
    page.get_by_label("An agent, or a tool").fill(ATTACK)
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("is not known")
    assert page.locator("main img, main script").count() == 0


def test_a_caller_sees_its_part_only(browser: Browser, catalog: Path, tmp_path: Path) -> None:
    """An agent that a key may not see is to it as one that is not there."""
    with served(tmp_path / "r.grafeo", auth=True, folder=tmp_path) as service:
        ingest(service.registry, str(catalog))
        service.registry.operator.set("trencher-tables", visible_to=["kitchen"])
        client = service.caller("route", groups=("hall",))
        for name in ("trencher-tables", "trencher-tablex"):
            answer = client.post("/v1/route/why", json={"text": DINNER, "id": name})
            assert (answer.status_code, answer.json()["code"]) == (404, "unknown-name")
        with visited(browser, service.url) as visit:
            expect(visit.open("/explore").get_by_role("heading", name="Log in")).to_be_visible()


def test_the_command_line_says_the_same(explored: Served, tmp_path: Path) -> None:
    expected = explored.client().post("/v1/route/why", json={"text": DINNER, "id": "quarry-sql/run_query"}).json()
    command = [sys.executable, "-m", "waygraph.api.cli.app", "--registry", explored.url, "route", DINNER]
    command += ["--why", "quarry-sql/run_query"]
    assert json.loads(run(tmp_path, *command, "--json")) == expected
    printed = run(tmp_path, *command)
    assert expected["sentence"] in printed
    assert "capability_vector" in printed
    assert isinstance(explored.registry, LocalRegistry)
