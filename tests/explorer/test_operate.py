"""Operating in the browser: keys, toolsets and what the service says of itself."""

import re
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from playwright.sync_api import expect

from tests.browser import Visit
from tests.explorer.test_login import log_in
from tests.service import Served, agent, ingest, served
from waygraph.registry.model.settings import Settings


@pytest.fixture
def explored(tmp_path: Path) -> Iterator[Served]:
    settings = Settings(login_key="A" * 43 + "=", rate_burst=777)
    with served(tmp_path / "r.grafeo", auth=True, folder=tmp_path, settings=settings) as service:
        ingest(service.admin(), "s", agent("harbour", "look"), agent("bilge", "pump", visible_to=["crew"]))
        yield service


@pytest.fixture
def visit(visit: Visit, explored: Served) -> Visit:
    log_in(visit, explored.key(everything=True), "/explore/operate")
    return visit


def test_a_key_is_made_used_and_revoked(visit: Visit, explored: Served) -> None:
    """Its text is shown once; it sees what its group sees, until it is revoked."""
    page = visit.open("/explore/operate/keys")
    page.get_by_text("Make a key").click()
    page.get_by_label("Who will hold it").fill("Deck bot")
    page.get_by_label("Groups, with commas").fill("crew, deck")
    page.get_by_label("It ends after so many days").fill("30")
    page.get_by_role("button", name="Make the key").click()
    dialog = page.get_by_role("dialog", name="Keep the key now")
    found = re.search(r"wg_\w{12}_[\w-]{43}", dialog.inner_text())
    assert found
    key = found[0]
    expect(dialog).to_contain_text(f"curl -H 'Authorization: Bearer {key}' {explored.url}/v1/agents")
    shown = httpx2.get(f"{explored.url}/v1/agents", headers={"Authorization": f"Bearer {key}"})
    assert [each["id"] for each in shown.json()["agents"]] == ["bilge", "harbour"]
    page.get_by_role("button", name="I have kept it").click()
    expect(page.get_by_text(key)).to_have_count(0)
    assert key not in page.content()
    row = page.get_by_role("row").filter(has_text="Deck bot")
    expect(row).to_contain_text("what is public, crew, deck")
    expect(row).to_contain_text("in 30 days")
    row.get_by_role("button", name="Revoke").click()
    page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    expect(row).to_contain_text("revoked")
    assert httpx2.get(f"{explored.url}/v1/agents", headers={"Authorization": f"Bearer {key}"}).status_code == 401
    assert [line for line in explored.log.splitlines() if key in line] == []


def test_a_toolset_is_made_edited_and_removed(visit: Visit, explored: Served) -> None:
    page = visit.open("/explore/operate/toolsets")
    page.get_by_role("button", name="Make a toolset").click()
    page.get_by_label("Name", exact=True).fill("deck")
    page.get_by_label("Agents, with all their tools").fill("harbour\nbilge")
    page.get_by_role("button", name="Set it").click()
    expect(page.get_by_role("row").filter(has_text="/deck/mcp")).to_contain_text("2 tools")
    page.get_by_role("button", name="Edit deck").click()
    page.get_by_label("Agents, with all their tools").fill("harbour")
    page.get_by_role("button", name="Set it").click()
    expect(page.get_by_role("row").filter(has_text="/deck/mcp")).to_contain_text("1 tools")
    assert explored.registry.toolset("deck").agents == ("harbour",)
    page.get_by_role("button", name="Remove deck").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    expect(page.get_by_text("There is no toolset.")).to_be_visible()


def test_what_the_service_says_holds_no_secret(visit: Visit) -> None:
    page = visit.open("/explore/operate")
    expect(page.get_by_role("row").filter(has_text="WAYGRAPH_RATE_BURST")).to_contain_text("777")
    expect(page.get_by_role("row").filter(has_text="WAYGRAPH_LOGIN_KEY")).to_contain_text("it is a secret")
    assert "A" * 20 not in page.content()
    expect(page.get_by_text("2 agents, 2 tools, 1 sources")).to_be_visible()
