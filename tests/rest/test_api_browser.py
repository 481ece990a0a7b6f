"""The API browser at `/docs`: every file comes from the service, and a real browser shows every operation."""

import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.service import Served
from waygraph.api.rest.application import PATHS, document

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --enable-logging=stderr --virtual-time-budget=20000 --dump-dom"
).split()


class Links(HTMLParser):
    """What a page loads."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002
        self.found += [value or "" for name, value in attrs if name in ("src", "href")]


def test_the_page_loads_files_of_the_service_alone(guarded: Served) -> None:
    """Without a key: it holds nothing of the registry. Its policy allows no other origin and no script in the page."""
    page = guarded.client().get("/docs")
    links = Links()
    links.feed(page.text)
    assert {f"/{link}" for link in links.found if link != "data:,"} == PATHS.keys() - {"/docs"}
    for path in PATHS:
        response = guarded.client().get(path)
        assert response.status_code == 200
        [policy] = response.headers.get_list("content-security-policy")
        assert "default-src 'none'; script-src 'self';" in policy
        assert not re.search(r"https?:|\*|script-src[^;]*unsafe", policy)
        assert response.headers["x-frame-options"] == "DENY"
        again = guarded.client().get(path, headers={"If-None-Match": response.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium to open the page with")
def test_a_browser_shows_every_operation(blank: Served, tmp_path: Path) -> None:
    assert CHROMIUM is not None
    command = [CHROMIUM, *FLAGS, f"--user-data-dir={tmp_path}", f"{blank.url}/docs"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=True)
    shown = re.findall(r'class="opblock-summary-path" data-path="([^"]+)"', done.stdout)
    assert sorted(shown) == sorted(path for path, methods in document()["paths"].items() for _ in methods)
    assert "CONSOLE" not in done.stderr
