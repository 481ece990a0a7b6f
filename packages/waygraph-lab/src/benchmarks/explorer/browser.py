"""Chromium, driven by Playwright.

Debian has it as `chromium`, others by other names; WAYGRAPH_TEST_BROWSER names one.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser

NAMES = ("chromium", "chromium-browser", "google-chrome")
# As root there is no sandbox; and nothing is asked of the browser's maker.
ARGUMENTS = (
    "--no-sandbox",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--force-color-profile=srgb",
)


def browser_path() -> str:
    """Empty: there is none."""
    names = (os.environ.get("WAYGRAPH_TEST_BROWSER", ""), *NAMES)
    return next((path for name in names if name and (path := shutil.which(name))), "")


def browser_need() -> str:
    """What has to be installed, in one line; empty: nothing."""
    if find_spec("playwright") is None:
        return "Playwright is not installed: pip install playwright"
    return "" if browser_path() else "no Chromium is installed: apt-get install chromium"


@contextmanager
def started_browser() -> "Iterator[Browser]":
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=browser_path(), args=list(ARGUMENTS))
        try:
            yield browser
        finally:
            browser.close()
