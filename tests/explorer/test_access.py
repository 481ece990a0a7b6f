"""axe-core finds nothing on any page: in light, in dark, and at 200 %."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
from playwright.sync_api import Browser

from tests.axe import axe_source, find_barriers
from tests.browser import Visit, visited
from tests.service import Served

PAGES = (
    *("", "?q=book a table for four", "/agents", "/agents/trencher-tables", "/tools"),
    *("/tools/trencher-tables/reserve", "/changes", "/sources", "/map", "/taxonomy", "/cypher", "/use", "/operate"),
    *("/operate/keys", "/operate/toolsets", "/operate/logins", "/evaluate", "/login", "/nowhere"),
)


@dataclass(frozen=True)
class Look:
    """`scale`: device pixels of one of the page; at 200 % half as many of the page fit."""

    scheme: str
    width: int = 1200
    scale: int = 1


LOOKS = {"light": Look("light"), "dark": Look("dark"), "200 %": Look("light", 600, 2)}


@pytest.fixture(scope="module", params=LOOKS)
def looked(request: pytest.FixtureRequest, browser: Browser, explored: Served) -> Iterator[Visit]:
    axe_source()
    look = LOOKS[request.param]
    explored.registry.operator.set_toolset("dinner", agents=["trencher-tables"])
    with _visited(browser, explored.url, look) as visit:
        yield visit


@contextmanager
def _visited(browser: Browser, url: str, look: Look) -> Iterator[Visit]:
    with visited(browser, url, scheme=look.scheme, width=look.width) as visit:
        session = visit.context.new_cdp_session(visit.page)
        session.send(
            "Emulation.setDeviceMetricsOverride",
            {"width": look.width, "height": 900, "deviceScaleFactor": look.scale, "mobile": False},
        )
        yield visit


@pytest.mark.parametrize("path", PAGES)
def test_a_page_keeps_nobody_out(looked: Visit, path: str) -> None:
    page = looked.open(f"/explore{path}")
    page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    assert find_barriers(page) == []


def test_a_dialog_keeps_nobody_out(looked: Visit) -> None:
    page = looked.open("/explore/operate/toolsets")
    page.get_by_role("button", name="Make a toolset").click()
    assert find_barriers(page) == []
