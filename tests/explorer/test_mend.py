"""A person misses a tool: they see why it did not come, mend it, and see the figure rise; at a desk and on a phone."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.axe import find_barriers
from tests.browser import Visit, visited
from tests.service import Served, served
from waygraph.ingest import ingest
from waygraph.registry.model.settings import Settings

CREW = "sort out dinner for the crew"
RESERVE, MENU = "trencher-tables/reserve", "trencher-tables/view-menu"
SIZES = {"desk": (1280, 800), "phone": (390, 844)}


@pytest.fixture(params=SIZES)
def visit(
    request: pytest.FixtureRequest, browser: Browser, catalog: Path, tmp_path: Path
) -> Iterator[tuple[Visit, Served]]:
    """A service of its own, since what is mended stays mended."""
    width, height = SIZES[request.param]
    with served(tmp_path / "r.grafeo", embedder="", settings=Settings(data_dir=str(tmp_path))) as service:
        ingest(service.registry, str(catalog))
        with visited(browser, service.url, width=width, height=height) as visit:
            yield visit, service


def ask(visit: Visit, text: str, path: str = "") -> Page:
    page = visit.open(f"/explore?q={quote(text)}{path}")
    expect(page.locator(".answer")).to_contain_text("revision")
    return page


def test_a_tool_that_was_missed_is_mended(visit: tuple[Visit, Served]) -> None:
    window, service = visit
    page = ask(window, CREW)
    sentence = page.locator(".answer > div > .sentence")
    expect(sentence).to_have_text("view-menu of Trencher Tables fits best, by what it means.")
    page.get_by_text("Why not the other one?").click()
    page.get_by_label("An agent, or a tool").fill("trencher reserve")
    option = page.locator(f"datalist option[value='{RESERVE}']")
    expect(option).to_have_count(1)
    page.get_by_label("An agent, or a tool").fill(RESERVE)
    page.keyboard.press("Enter")
    expect(page.locator(".why dd", has_text="place")).to_contain_text(" of ")
    page.get_by_role("button", name="This was right").wait_for()
    for text, right in ((CREW, RESERVE), ("what is on the menu tonight", MENU)):
        service.client().post("/explore/requests", json={"text": text, "right": [right]}).raise_for_status()
    page.get_by_text("Add this request to it").click()
    expect(page.get_by_role("region", name="command: Add the request")).to_have_text(
        f"waygraph set-tool {RESERVE} --question '{CREW}'"
    )
    assert find_barriers(page) == []
    page.get_by_role("button", name="Add the request").click()
    outcome = page.get_by_role("region", name="Before and after")
    expect(outcome.locator("ol").nth(0).locator("li").first).to_have_text(MENU)
    expect(outcome.locator("ol").nth(1).locator("li").first).to_have_text(RESERVE)
    expect(outcome).to_contain_text("1 of 2 kept requests changed their first answer")
    expect(outcome).to_contain_text("of your 2 were right before: 1, now: 2")
    expect(sentence).to_contain_text("reserve of Trencher Tables fits best")
    assert service.registry.tool(RESERVE).questions == (CREW,)
    page.goto(f"{window.url}/explore/evaluate")
    expect(page.get_by_text("2 of 2 are answered right now.")).to_be_visible()
    expect(page.get_by_role("img", name="then 2 of 2")).to_be_visible()


def test_a_mend_is_taken_back(visit: tuple[Visit, Served]) -> None:
    window, service = visit
    page = ask(window, CREW, f"&why={RESERVE}")
    page.get_by_text(f"Hide {MENU}").click()
    page.get_by_role("button", name="Hide it").click()
    outcome = page.get_by_role("region", name="Before and after")
    expect(outcome.locator("ol").nth(1)).not_to_contain_text(MENU)
    assert service.registry.tool(MENU).pending
    outcome.get_by_role("button", name="Undo").click()
    expect(outcome.locator("ol").nth(1).locator("li").first).to_have_text(MENU)
    assert not service.registry.tool(MENU).pending


def test_words_of_another_description_count(visit: tuple[Visit, Served]) -> None:
    window, service = visit
    page = ask(window, CREW, f"&why={RESERVE}")
    page.get_by_text("Rename it, or describe it").click()
    expect(page.get_by_role("button", name="Set them")).to_be_disabled()
    page.locator("details[name=mend] textarea").fill("Sort out dinner for a crew: reserve a table.")
    page.get_by_role("button", name="Set them").click()
    outcome = page.get_by_role("region", name="Before and after")
    expect(outcome.locator("ol").nth(1).locator("li").first).to_have_text(RESERVE)
    outcome.get_by_role("button", name="Undo").click()
    expect(outcome).to_contain_text("taken back")
    assert service.registry.tool(RESERVE).description.startswith("Reserve a table under a name")


def test_what_is_kept_is_measured_by_eval(visit: tuple[Visit, Served], tmp_path: Path) -> None:
    """Both verdicts, as a person gives them; then the installed command reads the folder."""
    window, service = visit
    page = ask(window, "book a table for four")
    page.get_by_role("button", name="This was right").click()
    expect(page.get_by_text("Of your 1 requests 1 are answered right")).to_be_visible()
    page = ask(window, "knit a scarf", "&for=tools")
    expect(page.get_by_role("button", name="None of these")).to_have_count(0)
    page = ask(window, "knit a scarf")
    page.get_by_role("button", name="None of these").click()
    expect(page.get_by_text("Of your 2 requests")).to_be_visible()
    page.get_by_role("link", name="Your requests").click()
    row = page.get_by_role("region", name="Your requests").get_by_role("row").filter(has_text="book a table")
    expect(row).to_contain_text(RESERVE)
    [folder] = (tmp_path / "requests").iterdir()
    assert (folder / "queries.jsonl").stat().st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o777 == 0o700
    command = [sys.executable, "-m", "waygraph.api.cli.app", "eval", str(folder), "--json"]
    [outcome] = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)["outcomes"]
    assert (outcome["judged"], outcome["tools"]["Recall@1"][0]) == (1, 1.0)
    page.get_by_role("button", name="Forget knit a scarf").click()
    expect(page.get_by_text("1 of 1 are answered right now.")).to_be_visible()
    service.registry.operator.set_tool(RESERVE, {"hidden": True})
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(ran.stdout)["outcomes"][0]["tools"]["Recall@1"][0] == 0
    (folder / "queries.jsonl").write_text('{"text": "table"}\n{}\n')
    answer = service.client().get("/explore/requests")
    assert "queries.jsonl:2: is no query" in answer.text, answer.text
    assert "1 queries name as right what is not there" in ran.stderr


def test_the_answer_is_on_the_first_screen_and_one_step_away(visit: tuple[Visit, Served]) -> None:
    window, _ = visit
    page = ask(window, "book a table for four")
    box = page.locator(".matches .bars").first.bounding_box()
    assert box
    height = page.viewport_size
    assert height
    assert box["y"] + box["height"] < height["height"]
    expect(page.get_by_label("What is to be done?")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.locator(".sentence a").first).to_be_focused()
    expect(page.locator("[role=status]").filter(has_text="fits best")).to_have_count(1)


def test_a_recipe_that_cannot_answer_says_what_enables_it(visit: tuple[Visit, Served]) -> None:
    window, _ = visit
    page = ask(window, "book a table for four", "")
    page.get_by_text("Compare", exact=True).click()
    for name, reason in (("paper", "waygraph reindex --texts plain"), ("taxonomy", "WAYGRAPH_WALK")):
        expect(page.get_by_label(name)).to_be_disabled()
        expect(page.get_by_text(reason)).to_be_visible()
    page = window.open("/explore?q=table&recipe=paper")
    expect(page.locator(".answer .notice")).to_contain_text("waygraph reindex --texts plain")
    expect(page.get_by_role("alert")).to_have_count(0)


def test_only_who_operates_keeps_requests(tmp_path: Path, catalog: Path) -> None:
    with served(tmp_path / "r.grafeo", auth=True, folder=tmp_path) as service:
        ingest(service.registry, str(catalog))
        for client in (service.caller("route", "read", "write"), service.caller("admin", groups=("hall",))):
            assert client.get("/explore/requests").status_code == 403
            assert client.post("/explore/requests", json={"text": CREW}).status_code == 403
        operator = service.caller("admin", everything=True)
        assert operator.post("/explore/requests", content=b"{}").status_code == 403, "as a form would send it"
        foreign = {"Sec-Fetch-Site": "cross-site"}
        assert operator.post("/explore/requests", json={"text": CREW}, headers=foreign).status_code == 403
        assert operator.post("/explore/requests", json={"text": CREW, "right": ["x" * 5000]}).status_code == 422
