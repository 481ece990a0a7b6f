"""The map: the whole, what stands around a node, for whom, and the file that is exported."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from playwright.sync_api import Browser, Page, expect

from tests.browser import Visit, visited
from tests.contract.test_skill_links import skill
from tests.contract.test_toolsets import feed
from tests.gateway_catalog import by_hand
from tests.service import Served, agent, ingest, served, until
from waygraph.registry.model.transitions import count_transitions
from waygraph.registry.operators.transition_counts import learn_transitions
from waygraph.registry.storage.export.formats import export
from waygraph.registry.storage.export.map import NAME_CHOICES, lay_out_map, read_map

HOSTILE = "<img src=x onerror=alert(1)>\u202e</script>"


def shown(page: Page) -> set[str]:
    """The nodes of the live view, by what a screen reader says of them."""
    labels = page.locator("svg [role=button]").evaluate_all("all => all.map(each => each.getAttribute('aria-label'))")
    return {label.partition(",")[0] for label in labels}


def test_the_whole_is_drawn_and_each_agent_is_found(visit: Visit) -> None:
    """By words, by a click on the canvas, and in the table; what is chosen is in the address."""
    page = visit.open("/explore/map")
    expect(page.get_by_text("36 agents and")).to_be_visible()
    page.get_by_label("Find on the map").fill("trencher")
    page.get_by_role("button", name="Trencher Tables").first.click()
    expect(page.get_by_role("heading", name="Trencher Tables")).to_be_visible()
    assert "at=trencher-tables" in page.url
    box = page.locator("canvas").bounding_box()
    assert box is not None
    page.get_by_role("button", name="Close").click()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)  # where the chosen one was brought
    expect(page.get_by_role("heading", name="Trencher Tables")).to_be_visible()
    page.get_by_text("As a table", exact=True).click()
    expect(page.get_by_role("region", name="Regions of the map").get_by_role("row")).not_to_have_count(1)


def pixels(page: Page) -> str:
    return str(page.evaluate("document.querySelector('.graph canvas').toDataURL()"))


def test_it_moves_by_keys_and_a_pointer(visit: Visit) -> None:
    """While it moves a bitmap is moved; at rest it is drawn anew, as if nothing had moved when it comes back."""
    page = visit.open("/explore/map")
    page.wait_for_timeout(300)
    first = pixels(page)
    page.locator("canvas").focus()
    page.keyboard.press("ArrowLeft")
    page.wait_for_timeout(400)
    second = pixels(page)
    assert second != first
    page.keyboard.press("ArrowRight")
    page.wait_for_timeout(400)
    assert pixels(page) == first
    page.mouse.move(300, 400)
    page.mouse.wheel(0, -400)
    page.wait_for_timeout(400)
    assert pixels(page) not in (first, second)
    page.get_by_role("button", name="Show everything").click()
    page.wait_for_timeout(400)
    assert pixels(page) == first


def test_an_agent_its_neighbours_and_theirs(visit: Visit) -> None:
    """From its place on the map to its neighbours; one of these is opened, and all is in the address."""
    page = visit.open("/explore/map?at=trencher-tables")
    page.get_by_role("link", name="Its neighbours").click()
    until(lambda: {"agent Trencher Tables", "tool reserve"} <= shown(page), "its neighbours")
    first = shown(page)
    page.locator("svg [role=button][aria-label^='source']").focus()
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Show its neighbours").click()
    until(lambda: first < shown(page), "those of its source")
    second = shown(page)
    assert "agent Harbor Git" in second
    address = page.url
    assert address.count("around=") == 2
    page.go_back()
    until(lambda: shown(page) == first, "what was shown before")
    page.go_forward()
    page.goto("about:blank")
    visit.open(address.removeprefix(visit.url))
    assert shown(page) == second
    page.get_by_label("claims").uncheck()
    assert "agent Harbor Git" not in shown(page)
    assert "hide=claims" in page.url
    page.get_by_text("As tables").click()
    assert page.get_by_role("region", name="Edges").get_by_role("row").count() == 1 + 5


def test_the_page_of_an_agent_leads_to_its_neighbours(visit: Visit) -> None:
    page = visit.open("/explore/agents/trencher-tables")
    page.get_by_role("link", name="its neighbours on the map").click()
    expect(page.locator("svg [role=button][aria-label^='agent Trencher Tables']")).to_have_count(1)


def test_what_fits_a_request_and_stands_around_it(visit: Visit) -> None:
    page = visit.open("/explore/map")
    page.get_by_label("What fits").fill("book a table for dinner")
    page.keyboard.press("Enter")
    expect(page.locator("svg [role=button][aria-label^='agent Trencher Tables']")).to_be_visible()
    twin = page.get_by_role("link", name="JSON").get_attribute("href")
    assert twin is not None
    answer = json.loads(page.request.get(visit.url + twin).text())
    assert {node["id"] for node in answer["nodes"] if node["centre"]} >= {"agent:trencher-tables"}


def test_what_is_not_there_is_said(visit: Visit) -> None:
    page = visit.open("/explore/map?around=agent:nobody")
    expect(page.get_by_role("alert")).to_contain_text("nobody")


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Every text attacks, and one name is huge."""
    with served(tmp_path_factory.mktemp("hostile") / "r.grafeo") as service:
        attack = {"name": HOSTILE, "description": HOSTILE, "tags": [HOSTILE[:60]]}
        huge = agent("huge") | {"name": "x" * 128, "description": "y" * 50_000}
        ingest(service.admin(), "s", {**agent("evil", "look"), **attack}, huge)
        service.registry.build_taxonomy(by_hand({"<img src=x onerror=alert(2)>": ("evil", "huge")}), private=True)
        yield service


@pytest.mark.parametrize("path", ["map", "map?at=evil", "map?around=agent:evil&around=agent:huge", "taxonomy"])
def test_texts_that_attack_are_only_drawn(browser: Browser, hostile: Served, path: str) -> None:
    with visited(browser, hostile.url) as visit:
        page = visit.open(f"/explore/{path}")
        page.wait_for_timeout(200)
        assert page.locator("img").count() == 0
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_the_exported_map_works_without_a_service(browser: Browser, explored: Served, tmp_path: Path) -> None:
    """From a file: it finds and shows, draws by the same code, and asks nothing of the network."""
    path = tmp_path / "map.html"
    path.write_text(export(explored.registry, "html"), encoding="utf-8")
    with visited(browser, "file://") as visit:
        page = visit.open(str(path))
        page.get_by_label("Search agents and tools").fill("trencher")
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name="Trencher Tables")).to_be_visible()
        expect(page.get_by_text("How it is reached")).to_be_visible()
        assert page.url.endswith("#trencher-tables")
        page.wait_for_timeout(300)
        one = page.evaluate("document.querySelector('#map').toDataURL()")
        page.get_by_role("button", name="Zoom in").click()
        page.wait_for_timeout(400)
        assert page.evaluate("document.querySelector('#map').toDataURL()") != one


def test_the_exported_map_opens_at_what_its_address_names(browser: Browser, hostile: Served, tmp_path: Path) -> None:
    """Texts that attack are texts."""
    path = tmp_path / "map.html"
    path.write_text(export(hostile.registry, "html"), encoding="utf-8")
    with visited(browser, "file://") as visit:
        page = visit.open(f"{path}#evil%2Flook")
        expect(page.get_by_role("heading", name="look")).to_be_visible()
        expect(page.locator("#about .owner")).to_have_text(HOSTILE)
        expect(page.locator("#counts")).to_have_text("2 agents, 1 tool")


@pytest.fixture(scope="module")
def linked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Two groups with the same tags, needs, calls that were counted, a skill, and an agent that only the board sees."""
    tags = {"tags": ["travel", "unit"]}
    members = {"flights": ("airline", "airport", "aircraft", "jet"), "rooms": ("hotel", "hostel", "bedroom", "suite")}
    trips = [agent(each, f"{each}_{of}", **tags) for of, names in members.items() for each in names]
    close = {"name": "close_task", "inputSchema": {"properties": {"task_id": {}}, "required": ["task_id"]}}
    tasks = agent("tasks") | {"tools": [{"name": "list_tasks"}, close]}
    folder = tmp_path_factory.mktemp("linked")
    with served(folder / "r.grafeo", auth=True, folder=folder, embedder="") as service:
        ingest(service.admin(), "trips", *trips, tasks)
        ingest(service.admin(), "corp", agent("zanzibar", "audit", visible_to=["board"], **tags))
        feed(service.registry, skill("guide", "tasks/list_tasks", "zanzibar/audit"), source="skills")
        calls = [["airport/airport_flights", "zanzibar/audit"], ["airport/airport_flights", "hotel/hotel_rooms"]] * 3
        learnt = count_transitions(calls, "2026-01-01T00:00:00+00:00")
        service.registry.change(lambda session: learn_transitions(session, learnt))
        service.registry.operator.set_toolset("all", agents=["tasks", "zanzibar"])
        tree = by_hand({"things": ("tasks", "hotel"), "zanzibars": ("zanzibar",)})
        service.registry.build_taxonomy(tree, private=True, shown_to_all=True)
        yield service


@pytest.mark.parametrize(("group", "counts"), [("staff", (2, 1, 1)), ("board", (3, 2, 2))])
def test_a_caller_sees_nothing_of_what_is_hidden(
    browser: Browser, linked: Served, group: str, counts: tuple[int, ...]
) -> None:
    """On the map, around nodes and in the tree: no node, no edge of any kind, no name. The map is one request."""
    around = "map?around=agent:guide&around=tool:airport/airport_flights&around=agent:tasks&around=toolset:all"
    kinds = [f"{kind} ({count})" for kind, count in zip(("needs", "teaches", "together"), counts, strict=True)]
    with visited(browser, linked.url) as visit:
        key = linked.key("read", "route", groups=(group,))
        visit.context.set_extra_http_headers({"Authorization": f"Bearer {key}"})
        requests: list[str] = []
        visit.page.on("request", lambda request: requests.append(request.url))
        page = visit.open("/explore/map")
        assert sum("/v1/map" in url or "/v1/graph" in url for url in requests) == 1
        assert len(page.request.get(f"{linked.url}/v1/map").body()) < 400 * 25, "bytes of an agent or a tool"
        legend = page.get_by_role("group", name="Edges", exact=True)
        assert legend.inner_text().split("\n")[1:] == kinds
        page.wait_for_timeout(300)
        before = pixels(page)
        legend.get_by_label("teaches").uncheck()
        page.wait_for_timeout(300)
        assert pixels(page) != before
        for path in ("map", "map?find=zanzibar", around, "map?q=audit", "taxonomy"):
            visit.open(f"/explore/{path}")
            page.locator("details").evaluate_all("all => all.forEach(each => (each.open = true))")
            visit.settle()
            assert path != around or {*kinds, f"follows ({counts[2]})"} <= {*legend.inner_text().split("\n")}
            texts = page.locator("main").inner_text()
            assert ("zanzibar" in texts or "corp" in page.content()) == (group == "board"), path
        assert page.get_by_role("link", name="Cypher").count() == 0


def test_no_two_regions_share_a_word(linked: Served) -> None:
    """The embedder chooses the names; how many texts it is given depends on the regions alone."""
    texts: list[str] = []

    def count_texts(some: Sequence[str]) -> NDArray[np.float32]:
        texts.extend(some)
        embed = linked.registry.name_embedder(is_local=True)
        assert embed is not None
        return embed(some)

    drawn = lay_out_map(linked.registry.look(lambda index: read_map(index, None)), count_texts)
    words = [word for region in drawn.regions for word in region.name.split()]
    assert {"flights", "rooms"} <= {region.name for region in drawn.regions}
    assert len(set(words)) == len(words)
    assert len(texts) <= 2 * NAME_CHOICES * len(drawn.regions)
