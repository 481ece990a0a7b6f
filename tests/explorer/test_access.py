"""No page keeps anybody out, is wider than the window, breaks a word or is refused something: in each look."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from playwright.sync_api import Browser

from tests.axe import axe_source, find_barriers
from tests.browser import Visit, visited
from tests.service import Served

PAGES = (
    *(
        "",
        "?q=book a table for four&why=trencher-tables/view-menu&recipe=hybrid&recipe=lexical",
        "/agents",
        "/agents/trencher-tables",
        "/tools",
        "/map?around=agent:trencher-tables",
    ),
    *("/tools/trencher-tables/reserve", "/changes", "/sources", "/map", "/taxonomy", "/cypher", "/use", "/operate"),
    *("/operate/keys", "/operate/toolsets", "/operate/logins", "/evaluate", "/login", "/nowhere"),
)

BROKEN_WORDS = r"""() => {
  const broken = [], walker = document.createTreeWalker(document.querySelector("#app"), NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    for (const {0: word, index} of node.data.matchAll(/\p{Script=Latin}{2,14}/gu)) {
      const range = document.createRange();
      range.setStart(node, index);
      range.setEnd(node, index + word.length);
      if (new Set([...range.getClientRects()].map((each) => Math.round(each.top))).size > 1) broken.push(word);
    }
  }
  return broken;
}"""
"""Words of up to 14 Latin letters that stand in two lines; other scripts may break anywhere."""


@dataclass(frozen=True)
class Look:
    scheme: str
    width: int


LOOKS = {f"{scheme} {width}": Look(scheme, width) for scheme in ("light", "dark") for width in (1280, 360)}


@pytest.fixture(scope="module", params=LOOKS)
def looked(request: pytest.FixtureRequest, browser: Browser, explored: Served) -> Iterator[Visit]:
    axe_source()
    look = LOOKS[request.param]
    explored.registry.operator.set_toolset("dinner", agents=["trencher-tables"])
    with visited(browser, explored.url, scheme=look.scheme, width=look.width) as visit:
        visit.page.on("response", lambda each: visit.faults.extend([each.url] * (each.status >= 400)))
        yield visit


@pytest.mark.parametrize("path", PAGES)
def test_a_page_keeps_nobody_out(looked: Visit, path: str) -> None:
    page = looked.open(f"/explore{path}")
    page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    looked.settle()
    assert find_barriers(page) == []
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    assert page.evaluate(BROKEN_WORDS) == []
    assert looked.faults == []


def test_a_dialog_keeps_nobody_out(looked: Visit) -> None:
    page = looked.open("/explore/operate/toolsets")
    page.get_by_role("button", name="Make a toolset").click()
    assert find_barriers(page) == []
