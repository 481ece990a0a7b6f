"""The taxonomy as a tree, and the walk of a route drawn on it."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser import Visit, visited
from tests.fake_openai import FakeOpenAI, fake_openai
from tests.gateway_catalog import by_hand
from tests.service import Served, agent, ingest, served, until
from waygraph import Settings

TREE = {"food": ("alpha", "beta"), "money": ("gamma",), "secrets": ("zanzibar",)}


def guide(request: Mapping[str, Any]) -> str:
    """Opens what is called food, and selects the first that is shown."""
    choices = json.loads(request["messages"][1]["content"])["choices"]
    food = [row["number"] for row in choices if row.get("name") == "food"]
    return json.dumps({"numbers": food or [choices[0]["number"]]})


@pytest.fixture(scope="module")
def model() -> Iterator[FakeOpenAI]:
    with fake_openai() as running:
        running.answer = guide
        yield running


@pytest.fixture(scope="module")
def sorted_service(model: FakeOpenAI, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    settings = Settings(embedder="none", walk="openai:guide", openai_retries=0, openai_timeout_s=5.0)
    with served(tmp_path_factory.mktemp("t") / "r.grafeo", settings=settings, environ=model.environ) as service:
        ingest(service.admin(), "s", *(agent(name, "look") for name in ("alpha", "beta", "gamma", "zanzibar")))
        service.registry.build_taxonomy(by_hand(TREE))
        service.registry.build_taxonomy(by_hand({"all": ("alpha", "beta")}), name="other", keep_current=True)
        yield service


@pytest.fixture
def tree(browser: Browser, sorted_service: Served) -> Iterator[Visit]:
    with visited(browser, sorted_service.url) as visit:
        yield visit


def branch(page: Page, name: str) -> Any:
    return page.locator("summary").filter(has_text=name)


def test_a_tree_opens_by_keys(tree: Visit) -> None:
    """Counts stand beside names; members are links; a category can be asked within, drawn and linked."""
    page = tree.open("/explore/taxonomy")
    expect(page.get_by_text("The tree main sorts 4 agents")).to_be_visible()
    food = branch(page, "food")
    expect(food).to_contain_text("2 agents")
    food.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("link", name="alpha", exact=True)).to_be_visible()
    assert page.get_by_role("link", name="Ask within").get_attribute("href") == "/explore?within=food"
    page.get_by_role("link", name="Link", exact=True).click()
    assert page.url.endswith("/explore/taxonomy?path=food")
    page.reload()
    expect(page.get_by_role("link", name="beta", exact=True)).to_be_visible()
    page.get_by_role("link", name="On the map").last.click()
    expect(page.locator("svg [role=button][aria-label^='category food']")).to_be_visible()


def test_a_walk_is_drawn_on_the_tree(tree: Visit) -> None:
    """What was looked into, opened, left out and selected, with counts and cost; also as a table."""
    page = tree.open("/explore/taxonomy")
    page.get_by_label("See a walk for").fill("look at something")
    page.get_by_role("button", name="Walk").click()
    expect(branch(page, "All")).to_contain_text("looked into")
    expect(branch(page, "food")).to_contain_text("opened")
    expect(branch(page, "food")).to_contain_text("1 of 2 selected")
    expect(branch(page, "money")).to_contain_text("left out")
    expect(page.locator("li").filter(has_text="alpha")).to_contain_text("selected")
    expect(page.get_by_label("The walk", exact=True)).to_contain_text("2 calls of the language model")
    assert "q=look+at+something" in page.url
    assert "recipe=taxonomy" in page.url
    page.get_by_text("The walk as a table").click()
    expect(page.get_by_role("region", name="Categories whose children were shown")).to_contain_text("money, secrets")


def test_a_walk_that_fails_is_said(tree: Visit, model: FakeOpenAI) -> None:
    model.overloads = 1
    page = tree.open("/explore/taxonomy?q=look&recipe=taxonomy")
    page.get_by_role("button", name="Run").click()
    expect(page.get_by_label("The walk", exact=True)).to_contain_text("ended it early")


@pytest.mark.parametrize(
    ("path", "runs"),
    [
        ("/explore/taxonomy?q=look%20here&recipe=taxonomy", 1),
        ("/explore?q=look%20there&recipe=taxonomy&recipe=hybrid&why=alpha", 2),
    ],
)
def test_a_link_from_elsewhere_calls_no_model(tree: Visit, model: FakeOpenAI, path: str, runs: int) -> None:
    """It does once a person wants it, and again after a reload."""
    before = len(model.requests)
    page = tree.open(path)
    run = page.get_by_role("button", name="Run", exact=True)
    expect(run).to_have_count(1)
    assert len(model.requests) == before
    for _ in range(runs):
        run.first.click()
        tree.settle()
    until(lambda: len(model.requests) > before, "a question to the model")
    tree.settle()
    page.reload()
    tree.settle()
    expect(run).to_have_count(0)


def test_another_tree_becomes_the_current_one(tree: Visit, sorted_service: Served) -> None:
    page = tree.open("/explore/taxonomy")
    expect(page.get_by_text("There are also: other")).to_be_visible()
    page.get_by_label("Name").fill("other")
    page.get_by_role("button", name="Use it").click()
    expect(page.get_by_text("The tree other sorts 2 agents")).to_be_visible()
    sorted_service.registry.operator.use_taxonomy("main")


def test_without_a_tree_it_is_said_how_to_make_one(visit: Visit) -> None:
    page = visit.open("/explore/taxonomy")
    expect(page.get_by_role("region", name="command that builds a tree")).to_contain_text("waygraph taxonomy build")
