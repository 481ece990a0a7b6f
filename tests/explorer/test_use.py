"""Use over time in the browser: calls by tool and caller, requests that found nothing."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser import Visit
from tests.service import Served, agent, ingest, served
from waygraph.registry.model.settings import Settings
from waygraph.registry.storage.usage_file import UsageCounter

PRIVATE_TEXT = "zorbulate the submarine of Ann"


@pytest.fixture(params=[False, True], ids=["without texts", "with texts"])
def explored(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Served]:
    settings = Settings(data_dir=str(tmp_path / "data"), usage_requests=request.param)
    with served(tmp_path / "r.grafeo", settings=settings) as service:
        client = service.client()
        ingest(client, "s", agent("harbour", "look"))
        counter = UsageCounter(service.registry.store, settings)
        counter.note("harbour/look", "ok", 0.2, "key:ann", "mcp")
        for outcome in ("ok", "tool_error", "refused"):
            counter.note("harbour/look", outcome, 0.2, "key:ann", "rest")
        counter.write()
        client.post("/v1/route", json={"text": "look at the harbour"})
        client.post("/v1/tools/search", json={"text": PRIVATE_TEXT, "filters": {"tags": ["none"]}})
        assert service.service.usage
        service.service.usage.write()
        yesterday = (datetime.now(UTC) - timedelta(days=1)).isoformat()
        counter = UsageCounter(service.registry.store, settings, lambda: yesterday)
        counter.note_request("submarine", "key:ann", 0.1, is_answered=True)
        counter.write()
        yield service


def test_use_is_shown_by_day_tool_and_caller(visit: Visit, explored: Served) -> None:
    page = visit.open("/explore/use?days=7")
    expect(page.get_by_role("img", name="Calls a day: 4 in 7 days, of which 1 failed.")).to_be_visible()
    expect(page.get_by_role("img", name="Requests a day: 3 in 7 days, of which 1 found nothing.")).to_be_visible()
    tools = page.get_by_role("region", name="Calls by tool").get_by_role("row").filter(has_text="harbour/look")
    rows = [row.get_by_role("cell").all_inner_texts()[1:5] for row in tools.all()]
    assert rows == [["REST", "3", "1", "1"], ["MCP gateway", "1", "0", "0"]]
    expect(page.get_by_role("region", name="Calls by caller")).to_contain_text("key:ann")
    if explored.service.settings.usage_requests:
        expect(page.get_by_role("region", name="Requests that found nothing")).to_contain_text(PRIVATE_TEXT)
    else:
        expect(page.get_by_text("WAYGRAPH_USAGE_REQUESTS=true")).to_be_visible()
        assert PRIVATE_TEXT not in page.content()
        for path in Path(explored.service.settings.data_dir).glob("usage.sqlite*"):
            assert PRIVATE_TEXT.encode() not in path.read_bytes()
            assert path.stat().st_mode & 0o777 == 0o600


def test_one_tool_has_an_address_of_its_own(visit: Visit) -> None:
    page = visit.open("/explore/use")
    page.get_by_role("link", name="Over time: harbour/look").first.click()
    visit.settle()
    assert page.url.endswith("/explore/use?of=tool&name=harbour%2Flook")
    page.reload()
    expect(page.get_by_role("img", name="Calls a day: 4 in 30 days, of which 1 failed.")).to_be_visible()
    for path in ("agents/harbour", "tools/harbour/look"):
        expect(visit.open(f"/explore/{path}").get_by_role("region", name="Calls by tool")).to_contain_text(
            "MCP gateway"
        )


def test_what_is_asked_in_the_pages_is_not_counted(visit: Visit, explored: Served) -> None:
    page = visit.open("/explore/use")
    asked = (
        "fetch('/v1/route', {method: 'POST', headers: {'Content-Type': 'application/json'}, body: '{\"text\": \"x\"}'})"
    )
    assert page.evaluate(f"{asked}.then((answer) => answer.status)") == 200
    assert explored.service.usage
    explored.service.usage.write()
    assert sum(part.calls for part in explored.registry.operator.usage_days(of="request")) == 3
