"""Calls of one host side by side at a server: what the server asks reaches the host, and no other one."""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, cast

import anyio
import pytest
from mcp.types import ElicitResult

from tests.gateway.hosts import Era, Open, Place, on_stdio, opened_by, over_http
from tests.service import served
from waygraph.api.mcp.sessions import Asker, Context, OnBehalf, Session, SessionHost
from waygraph.ingest.upstream import inflight
from waygraph.ingest.upstream.connection import Deaf, Host
from waygraph.registry.access.authenticator import RateLimit
from waygraph.registry.access.visibility import LOCAL
from waygraph.registry.model.nouns import Agent

PATIENCE_S = 60.0
BOX, CHEST = Agent(id="box", name="Box"), Agent(id="chest", name="Chest")
CTX = cast("Context", None)


@pytest.fixture(params=["stdio", "http"])
def door(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def open_host(door: str, toolbox: Place) -> Iterator[Open]:
    with served(toolbox.registry) as service:
        yield opened_by(door, f"{service.url}/mcp", on_stdio(toolbox))


async def blue(*_: Any) -> ElicitResult:
    return ElicitResult(action="accept", content={"colour": "blue"})


async def asked(host: Any) -> Any:
    """What the server learns when it asks the host's person."""
    return json.loads((await host.call_tool("box__ask", {})).content[0].text)


async def until_more(place: Place, note: str, before: int) -> None:
    with anyio.fail_after(PATIENCE_S):
        while place.notes.count(note) == before:
            await anyio.sleep(0.02)


async def test_a_host_is_asked_beside_another_call_of_its_own(
    open_host: Open, toolbox: Place, door: str, era: Era
) -> None:
    """And right after it gave that one up. Of modern requests over HTTP nobody can tell whether one host sent both."""
    is_known = (door, era) != ("http", "auto")
    answers: list[Any] = []
    waiting, cancelled = toolbox.notes.count("waits"), toolbox.notes.count("cancelled")
    async with open_host(era, elicitation_callback=blue) as host, anyio.create_task_group() as tasks:
        tasks.start_soon(partial(host.call_tool, "box__wait", {}))
        await until_more(toolbox, "waits", waiting)
        answers.append(await asked(host))
        tasks.cancel_scope.cancel()
        with anyio.CancelScope(shield=True):
            await until_more(toolbox, "cancelled", cancelled)
            answers.append(await asked(host))
    assert [answer.get("content") for answer in answers] == [{"colour": "blue"} if is_known else None] * 2


async def test_what_may_be_of_another_s_answered_call_is_asked_of_nobody(
    toolbox: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, era: Era
) -> None:
    """While the server may still speak of that one. Who comes again is no other."""
    monkeypatch.setattr(inflight, "ANSWERED_S", PATIENCE_S)
    with served(toolbox.registry, auth=True, folder=tmp_path) as service:
        keys = service.key("use", everything=True), service.key("use", everything=True)
        url = f"{service.url}/mcp"
        mine, other = (over_http(url, era, key=key, elicitation_callback=blue) for key in keys)
        async with mine as host, other as stranger:
            for _ in range(2):
                assert (await asked(host))["content"] == {"colour": "blue"}
            assert "of several hosts" in (await asked(stranger))["message"]


def test_hosts_are_one_only_if_their_session_and_the_agent_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SessionHost, "log_level", "")
    mine, other = Session(), Session()
    assert mine == other

    def host(session: Session) -> SessionHost:
        return SessionHost(CTX, Asker(caller=LOCAL, session=session))

    def asks(reached: Host, agent: Agent) -> OnBehalf:
        return OnBehalf(reached, agent, LOCAL, RateLimit(60, 1))

    one, same = asks(host(mine), BOX), asks(host(mine), BOX)
    assert one == same
    assert hash(one) == hash(same)
    strangers = [asks(host(other), BOX), asks(host(mine), CHEST), asks(Deaf(), BOX), host(mine)]
    assert all(one != stranger for stranger in strangers)
    assert asks(Deaf(), BOX) != asks(Deaf(), BOX)
