"""The frame of the explorer: where a browser is led, what it may load, and how one moves."""

import pytest
from playwright.sync_api import expect

from tests.browser import Visit
from tests.service import Served


def test_a_browser_is_led_to_the_pages(visit: Visit) -> None:
    """And a program that asks for the root finds nothing, as ever."""
    page = visit.open("/")
    assert page.url == f"{visit.url}/explore"
    pages = page.get_by_role("navigation", name="Pages").get_by_role("link")
    assert pages.all_inner_texts() == ["Ask", "Tools", "Changes", "Sources", "Map"]


def test_a_program_finds_nothing_at_the_root(explored: Served) -> None:
    answer = explored.client().get("/", headers={"Accept": "application/json"})
    assert answer.status_code == 404


def test_each_link_leads_to_a_page_of_its_name(visit: Visit) -> None:
    page = visit.open("/explore")
    navigation = page.get_by_role("navigation", name="Pages")
    navigation.get_by_text("More", exact=True).click()
    names = navigation.get_by_role("link").all_inner_texts()
    assert len(names) == 11
    for name in names:
        link = navigation.get_by_role("link", name=name, exact=True)
        if not link.is_visible():
            navigation.locator("summary").click()
        link.click()
        expect(navigation.locator("a[aria-current=page]")).to_have_text(name)
        expect(page).to_have_title(f"{name} · Waygraph")
        expect(page.locator("main h1")).to_have_count(1)


@pytest.mark.parametrize(
    "path", ["__init__.py", "..%2Frest/service.py", "%2e%2e%2frest%2fservice.py", "vendor", "none.js"]
)
def test_only_files_of_the_pages_are_served(explored: Served, path: str) -> None:
    assert explored.client().get(f"/explore/files/{path}").status_code == 404
