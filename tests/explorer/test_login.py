"""Logging in: what one sees is what the key may see, and a page of elsewhere does nothing with it."""

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser import Visit
from tests.http_doubles import Quiet, serving
from tests.service import Served, agent, ingest, served


@pytest.fixture
def explored(tmp_path: Path) -> Iterator[Served]:
    """Asks who calls; one of its agents is for the crew alone."""
    with served(tmp_path / "r.grafeo", auth=True, folder=tmp_path) as service:
        ingest(service.admin(), "s", agent("harbour", "look"), agent("bilge", "pump", visible_to=["crew"]))
        yield service


def log_in(visit: Visit, key: str, path: str = "/explore") -> Page:
    page = visit.open(path)
    page.get_by_label("API key or token").fill(key)
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("button", name="Log out")).to_be_visible()
    visit.settle()
    return page


def test_a_key_of_one_group_sees_its_agents_alone(visit: Visit, explored: Served) -> None:
    """Nothing of the others shows, nor is offered what the key may not do. The session outlives a reload."""
    page = log_in(visit, explored.key("route", "read", groups=("deck",)))
    shown = page.evaluate("fetch('/v1/agents').then((answer) => answer.text())")
    assert "harbour" in shown
    assert "bilge" not in shown
    pages = page.get_by_role("navigation", name="Pages")
    pages.get_by_text("More", exact=True).click()
    expect(pages.get_by_role("link", name="Agents")).to_be_visible()
    for name in ("Operate", "Use", "Cypher", "Evaluate"):
        expect(pages.get_by_role("link", name=name)).to_have_count(0)
    page.reload()
    expect(page.get_by_role("button", name="Log out")).to_be_visible()
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_label("API key or token")).to_be_visible()
    assert visit.context.cookies() == []


def test_a_key_that_is_not_known_is_told_so(visit: Visit) -> None:
    page = visit.open("/explore/agents")
    page.get_by_label("API key or token").fill("wg_nothing")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("alert")).to_contain_text("not known")
    visit.faults.clear()  # the browser itself reports a 401


def test_a_key_that_is_revoked_leads_back_to_the_login(visit: Visit, explored: Served) -> None:
    assert explored.keys
    key, text = explored.keys.create("one", ["route", "read"])
    page = log_in(visit, text)
    explored.keys.revoke(key.id)
    visit.open("/explore/tools")
    expect(page.get_by_label("API key or token")).to_be_visible()
    visit.faults.clear()


ATTACK = """<!doctype html><title>elsewhere</title>
<form id="form" method="post" enctype="text/plain" target="frame" action="{url}/v1/approvals">
<input name='{{"names": ["harbour"], "a": "' value='"}}'></form><iframe name="frame"></iframe>
<form id="out" method="post" target="frame" action="{url}/explore/session"></form>
<script>
const ask = (path, method, headers) => fetch("{url}" + path, {{method, headers, credentials: "include",
  mode: headers ? "cors" : "no-cors", body: '{{"pinned": true}}'}}).catch(() => {{}});
addEventListener("load", async () => {{
  document.getElementById("form").submit();
  await ask("/v1/agents/harbour", "POST");
  await ask("/v1/agents/harbour", "PATCH", {{"Content-Type": "application/json"}});
  await ask("/explore/session", "DELETE", {{"X-CSRF-Token": "0"}});
  document.title = "done";
}});
</script>"""


@pytest.fixture
def elsewhere(explored: Served) -> Iterator[str]:
    """The address of a page on another port of the same host: to a browser it is of the same site, and gets cookies."""

    class Attack(Quiet, BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(ATTACK.format(url=explored.url).encode())

    with serving(Attack) as url:
        yield url


def test_a_cross_site_form_changes_nothing(visit: Visit, explored: Served, elsewhere: str) -> None:
    """Sent by a page that the person opens in the browser in which they are logged in."""
    page = log_in(visit, explored.key(everything=True))
    before = explored.registry.stamp
    other = visit.context.new_page()
    other.goto(elsewhere)
    other.wait_for_function('document.title === "done"')
    other.wait_for_load_state("networkidle")
    assert visit.context.cookies(elsewhere), "the browser has sent it the cookie"
    other.close()
    visit.faults.clear()  # that it left the service is the point of it
    assert explored.registry.stamp == before
    page.reload()
    expect(page.get_by_role("button", name="Log out")).to_be_visible()


def test_a_link_of_elsewhere_locks_nobody_out(visit: Visit, explored: Served) -> None:
    """A mark is taken only by the tab that left for the issuer; and who has lost theirs can log in again."""
    page = log_in(visit, explored.key(everything=True))
    mark = page.evaluate("localStorage.getItem('csrf')")
    other = visit.context.new_page()
    other.goto(f"{visit.url}/explore/agents#mark=x")
    expect(other.get_by_role("button", name="Log out")).to_be_visible()
    assert other.url == f"{visit.url}/explore/agents"
    assert other.evaluate("localStorage.getItem('csrf')") == mark
    other.evaluate("localStorage.setItem('csrf', 'lost')")
    other.evaluate("sessionStorage.setItem('away', '1')")
    other.goto(f"{visit.url}/explore/tools#mark={mark}")
    expect(other.get_by_role("button", name="Log out")).to_be_visible()
    assert other.evaluate("sessionStorage.getItem('away')") is None
    other.evaluate("localStorage.setItem('csrf', 'lost')")
    other.close()
    log_in(visit, explored.key(everything=True), "/explore/tools")


def test_a_login_elsewhere_that_was_refused_is_told_where_it_began(visit: Visit) -> None:
    """To the tab that left, once; a link of anybody's puts no words here."""
    page = visit.open("/explore#refused=Call%20%3Cb%3Eme%3C/b%3E%20%25")
    expect(page.get_by_label("API key or token")).to_be_visible()
    expect(page.get_by_role("alert")).to_have_count(0)
    page.evaluate("sessionStorage.setItem('away', '1')")
    page.goto("about:blank")
    page.goto(f"{visit.url}/explore#refused=Call%20%3Cb%3Eme%3C/b%3E%20%25")
    expect(page.get_by_role("alert")).to_contain_text("Call <b>me</b> %")
    assert page.url == f"{visit.url}/explore"
