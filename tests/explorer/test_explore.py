"""`waygraph explore`: the pages over a file, for the person who started it alone."""

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest
from playwright.sync_api import Browser, expect

from tests.browser import visited
from tests.service import PROGRAM, TIMEOUT_S, until
from waygraph.api.cli.app import main
from waygraph.api.cli.commands.serve import LEADING_PAGE
from waygraph.ingest import ingest
from waygraph.registry.registry import Registry

ADDRESS = re.compile(r"(http://127\.0\.0\.1:\d+)(/explore#[\w-]{43})\s")


@contextmanager
def exploring(registry: Path, folder: Path, *options: str) -> Iterator[tuple[str, str, subprocess.Popen[bytes]]]:
    """Where it is, the path that opens it, and the process."""
    told = folder / "explore.txt"
    command = [*PROGRAM, "--registry", str(registry), "--embedder", "none", "explore", "--no-browser", *options]
    with told.open("wb") as stream:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=stream)
    try:
        found = until(lambda: process.poll() is not None or ADDRESS.search(told.read_text()), "it says where it is")
        assert isinstance(found, re.Match), told.read_text()
        yield found[1], found[2], process
    finally:
        process.kill()
        process.wait(TIMEOUT_S)


def test_a_file_is_explored_by_one_person(browser: Browser, catalog: Path, tmp_path: Path) -> None:
    """The address opens it in one browser, also again; another one sees nothing, and Ctrl-C ends it."""
    with Registry.open(tmp_path / "r.grafeo", embedder="none") as registry:
        ingest(registry, str(catalog))
    with exploring(tmp_path / "r.grafeo", tmp_path) as (url, path, process):
        with visited(browser, url) as visit:
            page = visit.open(path)
            page.get_by_text("More", exact=True).click()
            expect(page.get_by_role("link", name="Operate")).to_be_visible()
            assert page.url == f"{url}/explore", "what opened it is not in the history"
            expect(page.get_by_role("button", name="Log out")).to_have_count(0)
            page.get_by_role("link", name="Operate").click()
            expect(page.get_by_text("36 agents, 186 tools, 1 sources")).to_be_visible()
            page.reload()
            expect(page.get_by_role("link", name="Ask")).to_be_visible()
            page.goto("about:blank")
            visit.open(path)
            expect(page.get_by_role("link", name="Ask")).to_be_visible()
        assert httpx2.get(f"{url}/v1/agents").status_code == 401
        assert httpx2.get(f"{url}/v1/agents", headers={"Host": "elsewhere.example"}).status_code == 421
        process.send_signal(signal.SIGINT)
        assert process.wait(TIMEOUT_S) == 0


def test_who_shows_the_address_after_another_ends_the_session(browser: Browser, tmp_path: Path) -> None:
    """Somebody else has it then: nobody goes on, and the terminal says so."""
    with exploring(tmp_path / "r.grafeo", tmp_path) as (url, path, _), httpx2.Client(base_url=url) as thief:
        thief.post("/explore/session", json={"secret": path.partition("#")[2]}).raise_for_status()
        assert thief.get("/v1/agents").status_code == 404
        with visited(browser, url) as visit:
            page = visit.open(path)
            expect(page.get_by_label("API key or token")).to_be_visible()
            visit.faults.clear()
        assert thief.get("/v1/agents").status_code == 401
        assert "a second browser showed the address" in (tmp_path / "explore.txt").read_text()


def test_where_nothing_is_yet_it_opens_too(tmp_path: Path) -> None:
    with exploring(tmp_path / "none.grafeo", tmp_path) as (url, path, _):
        secret = path.partition("#")[2]
        with httpx2.Client(base_url=url) as browser:
            told = browser.post("/explore/session", json={"secret": secret}).json()
            assert (told["known"], told["asks"], told["local"], told["sees_all"]) == (True, True, True, True)
            assert browser.get("/v1/agents").status_code == 404
        assert httpx2.post(f"{url}/explore/session", json={"secret": secret}).status_code == 401
    assert not (tmp_path / "none.grafeo").exists()


def test_of_a_service_its_own_pages_are_opened(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    assert main(["--registry", "https://waygraph.example/", "explore"]) == 0
    assert opened == ["https://waygraph.example/explore"]
    assert opened[0] in capsys.readouterr().err


def test_the_browser_is_opened_at_the_address_that_opens_it(tmp_path: Path) -> None:
    """By a program that BROWSER names, as the module `webbrowser` of Python has it. Everybody on a machine can read its
    arguments: they name a page that its owner alone can read, and that is gone once it has led there.
    """
    written = tmp_path / "opened.txt"
    script = tmp_path / "browser"
    script.write_text(f"#!{sys.executable}\nimport sys\nopen({str(written)!r}, 'w').write(sys.argv[1])\n")
    script.chmod(0o700)
    command = [*PROGRAM, "--registry", str(tmp_path / "r.grafeo"), "explore"]
    environ = {"BROWSER": str(script), "HOME": str(tmp_path), "TMPDIR": str(tmp_path)}
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, env=environ)
    try:
        until(lambda: written.exists() and written.read_text(), "the browser is started")
        page = Path(urlsplit(written.read_text()).path)
        assert written.read_text() == page.as_uri()
        assert (page.stat().st_mode & 0o777, page.parent.stat().st_mode & 0o777) == (0o600, 0o700)
        found = re.search(r'url=(http://127\.0\.0\.1:\d+)/explore#([\w-]{43})"', page.read_text())
        assert found
        httpx2.post(f"{found[1]}/explore/session", json={"secret": found[2]}).raise_for_status()
        assert not page.exists()
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(TIMEOUT_S) == 0
    assert not page.parent.exists()


def test_the_page_that_is_opened_leads_to_the_explorer(browser: Browser, tmp_path: Path) -> None:
    with exploring(tmp_path / "r.grafeo", tmp_path) as (url, path, _), visited(browser, url) as visit:
        leading = tmp_path / "explore.html"
        leading.write_text(LEADING_PAGE.format(address=f"{url}{path}"))
        visit.page.goto(leading.as_uri())
        expect(visit.page.get_by_role("link", name="Ask")).to_be_visible()
        visit.settle()
