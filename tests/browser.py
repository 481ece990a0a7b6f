"""Chromium on the pages of a service, driven by Playwright: what it said, asked for and opened is looked at too.

Debian has it as `chromium`, others by other names; WAYGRAPH_TEST_BROWSER names one. Without it the tests of pages skip
with one line, or fail where WAYGRAPH_REQUIRE_BROWSER is set.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Dialog, Page, Request, expect

from benchmarks.explorer import browser as chromium

TIMEOUT_MS = 20_000


def find_browser() -> str:
    """Its path. Skips, or fails where it is required."""
    if found := chromium.browser_path():
        return found
    if os.environ.get("WAYGRAPH_REQUIRE_BROWSER"):
        pytest.fail("no Chromium is installed: apt-get install chromium")
    pytest.skip("no Chromium is installed: apt-get install chromium")


@contextmanager
def started_browser() -> Iterator[Browser]:
    find_browser()
    with chromium.started_browser() as browser:
        yield browser


@dataclass
class Visit:
    """A window that looks at one service. `faults`: errors of scripts, dialogs, and requests that left the service."""

    url: str
    context: BrowserContext
    page: Page
    faults: list[str] = field(default_factory=list)

    def open(self, path: str) -> Page:
        """The page at this path, once nothing on it loads any more."""
        self.page.goto(self.url + path)
        self.settle()
        return self.page

    def settle(self) -> None:
        self.page.wait_for_load_state("networkidle")
        # By a locator: what evaluates a text, as `wait_for_function` does, the pages' policy forbids.
        expect(self.page.locator("[aria-busy=true]")).to_have_count(0, timeout=TIMEOUT_MS)


@contextmanager
def visited(
    browser: Browser, url: str, *, scheme: str = "light", width: int = 1200, height: int = 900
) -> Iterator[Visit]:
    """A new person's window. Fails at its end where `Visit.faults` has any."""
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)  # type: ignore[arg-type]
    context.set_default_timeout(TIMEOUT_MS)
    visit = Visit(url, context, context.new_page())
    _watch(visit)
    try:
        yield visit
        assert visit.faults == []
    finally:
        context.close()


def _watch(visit: Visit) -> None:
    here, page = urlsplit(visit.url).netloc, visit.page

    def dismiss(dialog: Dialog) -> None:
        visit.faults.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def hear(said: ConsoleMessage) -> None:
        # An answer such as 404 is for the page to show; the browser alone calls it an error.
        is_refusal = said.text.startswith("Failed to load resource: the server responded with a status of 4")
        if said.type == "error" and not is_refusal:
            visit.faults.append(f"console: {said.text}")

    def look(request: Request) -> None:
        if urlsplit(request.url).netloc not in (here, ""):
            visit.faults.append(f"left: {request.url}")

    page.on("dialog", dismiss)
    page.on("pageerror", lambda error: visit.faults.append(f"script: {error}"))
    page.on("console", hear)
    visit.context.on("request", look)
