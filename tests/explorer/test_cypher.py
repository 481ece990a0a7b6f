"""Cypher in the browser: typed with completion, shared by its address, shown as table and graph, saved as a file."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser import Visit, visited
from tests.cypher_page import PAGE
from tests.service import Served, agent, ingest, served

ASK = "MATCH (a:Agent {id: $id})-[owns:OWNS]->(t:Tool)\nRETURN a, owns, t ORDER BY t.id"


def address(statement: str, params: str = "") -> str:
    return f"/explore/cypher?statement={quote(statement)}&params={quote(params)}"


def test_a_question_is_shared_by_its_address(visit: Visit) -> None:
    """Statement and parameters are in it; who opens it sees the same rows, as table and as graph."""
    page = visit.open("/explore/cypher")
    page.get_by_label("Statement").fill(ASK)
    page.get_by_text("Parameters", exact=True).click()
    page.get_by_label("As JSON").fill('{"id": "trencher-tables"}')
    page.get_by_label("Statement").press("Control+Enter")
    expect(page.get_by_text("5 rows")).to_be_visible()
    shared = page.url
    page.goto("about:blank")
    visit.open(shared.removeprefix(visit.url))
    expect(page.get_by_label("Statement")).to_have_value(ASK)
    rows = page.get_by_role("region", name="Rows", exact=True)
    expect(rows.get_by_role("row")).to_have_count(6)
    assert (
        rows.get_by_role("link", name="Trencher Tables").first.get_attribute("href")
        == "/explore/agents/trencher-tables"
    )
    expect(page.locator("svg [role=button]")).to_have_count(6)
    expect(page.locator("svg line")).to_have_count(5)
    page.get_by_label("Statement").fill("RETURN 1 AS one")
    page.get_by_role("button", name="Run").click()
    expect(page.get_by_text("1 row,")).to_be_visible()
    page.go_back()
    expect(page.get_by_label("Statement")).to_have_value(ASK)
    expect(page.get_by_text("5 rows")).to_be_visible()


def test_names_of_the_registry_complete(visit: Visit) -> None:
    """Labels behind a colon, types in brackets, keys behind a dot; arrows, Tab and Enter take, Escape closes."""
    page = visit.open("/explore/cypher")
    editor = page.get_by_label("Statement")
    editor.fill("")
    editor.press_sequentially("MATCH (a:Ag")
    expect(page.get_by_role("option", selected=True)).to_have_text("Agentnode")
    page.keyboard.press("Tab")
    editor.press_sequentially(")-[o:O")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    editor.press_sequentially("]->(t) RETURN a.na")
    expect(page.get_by_role("option", selected=True)).to_have_text("nameAgent")
    page.keyboard.press("Escape")
    expect(page.get_by_role("listbox")).to_have_count(0)
    expect(editor).to_have_value("MATCH (a:Agent)-[o:OWNS]->(t) RETURN a.na")
    page.keyboard.press("Tab")
    expect(editor).not_to_be_focused()


def test_a_link_from_elsewhere_runs_nothing(browser: Browser, explored: Served) -> None:
    """What it asks is shown, and done once a person runs it; then also after a reload and on the way back."""
    with visited(browser, explored.url) as visit:
        asked: list[str] = []
        visit.page.on("request", lambda request: asked.append(request.url) if "/v1/cypher" in request.url else None)
        page = visit.open(address("RETURN 1 AS one"))
        expect(page.get_by_text("A link brought this statement")).to_be_visible()
        expect(page.get_by_label("Statement")).to_have_value("RETURN 1 AS one")
        assert asked == []
        page.get_by_role("button", name="Run").click()
        expect(page.get_by_text("1 row,")).to_be_visible()
        page.reload()
        expect(page.get_by_text("1 row,")).to_be_visible()
        page.get_by_role("link", name="Sources").click()
        page.go_back()
        expect(page.get_by_text("1 row,")).to_be_visible()
        assert page.get_by_text("A link brought").count() == 0


def run(visit: Visit, statement: str) -> Page:
    """The page that a link with it leads to, once it has run."""
    page = visit.open(address(statement))
    page.get_by_role("button", name="Run").click()
    visit.settle()
    return page


def test_a_mistake_is_shown_with_its_place(visit: Visit) -> None:
    page = run(visit, "MATCH (a:Agent)\nRETURN a.id ORDER a")
    expect(page.get_by_role("alert")).to_be_visible()
    page.get_by_role("button", name="Go to line 2").click()
    expect(page.get_by_label("Statement")).to_be_focused()
    assert page.evaluate("document.activeElement.selectionStart") > 16
    page.get_by_label("Statement").fill("MATCH (a) DELETE a")
    page.get_by_role("button", name="Run").click()
    expect(page.get_by_role("alert")).to_contain_text("DELETE is refused")


def test_the_examples_are_those_of_the_page_and_run(visit: Visit) -> None:
    page = visit.open("/explore/cypher")
    examples = page.locator("section[aria-labelledby=examples] button")
    for name in examples.all_inner_texts():
        examples.filter(has_text=name).click()
        expect(page.get_by_role("status").filter(has_text="row")).to_be_visible()
        visit.settle()
        assert page.get_by_label("Statement").input_value() in PAGE.read_text("utf-8"), name
        assert page.get_by_role("alert").count() == 0, name


def test_a_question_is_kept(visit: Visit) -> None:
    """In this browser, over a reload, until it is forgotten."""
    page = visit.open(address("RETURN 1 AS one"))
    page.get_by_label("Name").fill("mine")
    page.get_by_role("button", name="Keep it").click()
    visit.open("/explore/cypher")
    page.get_by_role("button", name="mine", exact=True).click()
    expect(page.get_by_label("Statement")).to_have_value("RETURN 1 AS one")
    page.get_by_role("button", name="Forget mine").click()
    page.reload()
    expect(page.get_by_text("Nothing yet.")).to_be_visible()


@pytest.fixture(scope="module")
def formulas(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("formulas") / "r.grafeo") as service:
        texts = ("=1+1", "+1", "-1", "@SUM(A1)", "\t=1", 'plain, "quoted"', "<img src=x onerror=alert(1)>")
        agents = [agent(f"a{number}") | {"description": text} for number, text in enumerate(texts)]
        ingest(service.admin(), "s", *agents)
        yield service


def test_a_file_runs_no_formula(browser: Browser, formulas: Served, tmp_path: Path) -> None:
    with visited(browser, formulas.url) as visit:
        page = run(visit, "MATCH (a:Agent) RETURN a.description AS text, -1 AS number ORDER BY a.id")
        expect(page.get_by_role("region", name="Rows", exact=True)).to_contain_text("<img src=x")
        with page.expect_download() as download:
            page.get_by_role("button", name="Save as CSV").click()
        download.value.save_as(tmp_path / "rows.csv")
        lines = (tmp_path / "rows.csv").read_bytes().decode("utf-8-sig").split("\r\n")
    assert lines[0] == "text,number"
    assert lines[1:5] == ["'=1+1,-1", "'+1,-1", "'-1,-1", "'@SUM(A1),-1"]
    assert '"plain, ""quoted""",-1' in lines


def test_it_is_copied_for_a_shell(visit: Visit, explored: Served) -> None:
    """What is copied asks the same, whatever quotes it has."""
    visit.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = visit.open(address("RETURN 'it''s' AS a, $b AS b".replace("''", "\\'"), '{"b": "x"}'))
    page.get_by_role("button", name="Copy as curl").click()
    command = page.evaluate("navigator.clipboard.readText()")
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True, timeout=60)  # noqa: S607
    assert '"rows":[["it\'s","x"]]' in done.stdout.replace(" ", "")
    page.get_by_role("button", name="Copy for the command line").click()
    assert page.evaluate("navigator.clipboard.readText()").startswith("waygraph cypher --param 'b=\"x\"' -- 'RETURN")
    assert explored.url in command


STRANGE = (
    "RETURN 'esc \x1b[2J ^C\x03\x15 tab\t bell\x07\x08 del\x7f csi\u009b31m \u202eevil\u2066"
    " it\\'s `id` $(id) !! $x \\' AS a\n// 'more' \u00e9\U0001f600\U000e0041"
)


def test_what_is_copied_acts_on_no_terminal(visit: Visit) -> None:
    """It holds no character that one would act on when it is pasted, and a shell still reads the very same words."""
    visit.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = visit.open(address(STRANGE, '{"b": "it\'s \u009b"}'))
    commands = {}
    for name in ("Copy for the command line", "Copy as curl"):
        page.get_by_role("button", name=name).click()
        commands[name] = page.evaluate("navigator.clipboard.readText()").replace(" \\\n  ", " ")
        assert not re.search("[\x00-\x1f\x7f-\x9f\u202e\u2066\U000e0041]", commands[name])
    typed, curled = map(words, commands.values())
    assert typed == ["cypher", "--param", 'b="it\'s \u009b"', "--", STRANGE]
    assert json.loads(curled[-1]) == {"statement": STRANGE, "params": {"b": "it's \u009b"}}


def words(command: str) -> list[str]:
    """What a shell gives the program of a command."""
    program = command.split(" ", 1)[0]
    line = f"{program}() {{ printf '%s\\0' \"$@\"; }}; {command}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, check=True, timeout=60)  # noqa: S607
    return done.stdout.decode().split("\0")[:-1]
