"""What is asked of a person over a host: a form, a yes, who is asked, and what waits for the answer."""

import json
from collections.abc import Awaitable, Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import MCPError
from mcp.types import INVALID_PARAMS, ClientCapabilities, ElicitationCapability, ElicitRequestFormParams, ElicitResult

from tests.gateway.hosts import Era, Open, Place, error_of, on_stdio, opened_by
from tests.gateway.test_answers import ENVELOPE, MODERN
from tests.service import Served, served, until
from waygraph.api.mcp import pending_calls
from waygraph.api.mcp.pending_calls import InputRequest, Parking
from waygraph.api.mcp.sessions import Asker, Session
from waygraph.ingest.upstream.connection import Deaf, Host, MayHaveRun
from waygraph.registry.access.visibility import LOCAL
from waygraph.registry.model.settings import Settings

POLICY = """
[[rules]]
match = "box/erase"
verdict = "ask"
reason = "files are dear"
"""


@pytest.fixture(scope="module")
def policy(toolbox: Place) -> Path:
    """Deleting needs a person's yes."""
    path = toolbox.folder / "policy.toml"
    path.write_text(POLICY)
    return path


@pytest.fixture
def careful(toolbox: Place, policy: Path) -> Iterator[Served]:
    with served(toolbox.registry, settings=Settings(policy_file=str(policy))) as service:
        yield service


@pytest.fixture(params=["stdio", "http"])
def open_host(request: pytest.FixtureRequest, toolbox: Place, policy: Path, careful: Served) -> Open:
    return opened_by(request.param, f"{careful.url}/mcp", on_stdio(toolbox, WAYGRAPH_POLICY_FILE=str(policy)))


def person(action: Any, content: Any, heard: list[str]) -> Any:
    """Answers every form so."""

    async def answer(_: Any, params: Any) -> ElicitResult:
        assert isinstance(params, ElicitRequestFormParams)
        heard.append(params.message)
        return ElicitResult(action=action, content=content)

    return answer


async def test_a_server_asks_the_hosts_person(open_host: Open, era: Era) -> None:
    heard: list[str] = []
    async with open_host(era, elicitation_callback=person("accept", {"colour": "red"}, heard)) as host:
        result = await host.call_tool("box__ask", {})
    assert json.loads(result.content[0].text) == {"action": "accept", "content": {"colour": "red"}}
    assert heard == ["Agent box asks: Which colour?"]


ANSWERS: list[tuple[Any, Any, bool]] = [
    ("accept", {"run": True}, True),
    ("accept", {"run": False}, False),
    ("accept", {}, False),
    ("decline", None, False),
    ("cancel", None, False),
]
"""What a person says to a form, and whether it is a yes."""


async def test_a_tool_that_needs_a_persons_yes_runs_for_a_yes_alone(open_host: Open, toolbox: Place, era: Era) -> None:
    heard: list[str] = []
    turns = iter(ANSWERS)

    async def answer(context: Any, params: Any) -> ElicitResult:
        action, content, _ = next(turns)
        said: ElicitResult = await person(action, content, heard)(context, params)
        return said

    async with open_host(era, elicitation_callback=answer) as host:
        for *_, runs in ANSWERS:
            heard.clear()
            before = toolbox.notes.count("erased")
            result = await host.call_tool("box__erase", {"path": "/tide.txt"})
            assert len(heard) == 1
            assert "box/erase" in heard[0]
            assert "/tide.txt" in heard[0]
            assert "files are dear" in heard[0]
            assert toolbox.notes.count("erased") == before + runs
            if runs:
                assert result.content[0].text == "gone"
            else:
                assert error_of(result)["code"] == "not-callable"
                assert "files are dear" in error_of(result)["message"]
    assert next(turns, None) is None


async def test_what_a_person_cannot_be_shown_whole_does_not_run(open_host: Open, toolbox: Place, *, era: Era) -> None:
    heard: list[str] = []
    before = toolbox.notes.count("erased")
    async with open_host(era, elicitation_callback=person("accept", {"run": True}, heard)) as host:
        result = await host.call_tool("box__erase", {"about": "harmless " * 300, "path": "/tide.txt"})
    assert (heard, toolbox.notes.count("erased")) == ([], before)
    assert "2,000 characters" in error_of(result)["message"]


async def test_where_nobody_can_be_asked_the_error_says_what_an_operator_can_do(
    open_host: Open, toolbox: Place, era: Era
) -> None:
    before = toolbox.notes.count("erased")
    async with open_host(era) as host:
        error = error_of(await host.call_tool("box__erase", {}))
    assert error["code"] == "needs-consent"
    assert "files are dear" in error["message"]
    assert "WAYGRAPH_POLICY_FILE" in error["message"]
    assert toolbox.notes.count("erased") == before


CAN_ASK = {**ENVELOPE, "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}}}


def ask(service: Served, key: str = "", **params: Any) -> dict[str, Any]:
    """One request of a modern host that takes forms."""
    asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"_meta": CAN_ASK, **params}}
    headers = {
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": MODERN,
        "Mcp-Method": "tools/call",
        "Mcp-Name": params["name"],
    }
    answer = service.client(key, **headers).post("/mcp", json=asked).json()
    result: dict[str, Any] = answer.get("result") or answer
    return result


def is_refused(answer: dict[str, Any]) -> bool:
    """By an error of the protocol, not of a tool: nothing was called."""
    return bool(answer["error"]["code"] == INVALID_PARAMS and "no call waits" in answer["error"]["message"])


def answered(first: dict[str, Any], **content: Any) -> dict[str, Any]:
    """What the next request brings."""
    (asked,) = first["inputRequests"]
    return {"requestState": first["requestState"], "inputResponses": {asked: {"action": "accept", "content": content}}}


def test_a_call_waits_and_goes_on_with_the_answer(service: Served) -> None:
    """Its host's first request ends with the question; the second carries the answer, and ends with the result."""
    first = ask(service, name="box__ask", arguments={})
    assert first["resultType"] == "input_required"
    (request,) = first["inputRequests"].values()
    assert request["method"] == "elicitation/create"
    again = ask(service, name="box__ask", arguments={}, requestState=first["requestState"])
    assert again["inputRequests"] == first["inputRequests"], "asked again, as long as nothing is answered"
    last = ask(service, name="box__ask", arguments={}, **answered(first, colour="blue"))
    assert last["resultType"] == "complete"
    assert "blue" in last["content"][0]["text"]


def test_what_waits_is_gone_on_with_once(service: Served) -> None:
    first = ask(service, name="box__ask", arguments={})
    answers = answered(first, colour="blue")
    assert ask(service, name="box__ask", arguments={}, **answers)["resultType"] == "complete"
    assert is_refused(ask(service, name="box__ask", arguments={}, **answers))
    assert is_refused(ask(service, name="box__ask", arguments={}, requestState="guess"))


def test_another_caller_cannot_go_on_with_a_call(guarded: Served) -> None:
    mine, other = guarded.key("use", everything=True), guarded.key("use", everything=True)
    first = ask(guarded, mine, name="box__ask", arguments={})
    assert is_refused(ask(guarded, other, name="box__ask", arguments={}, **answered(first, colour="red")))
    last = ask(guarded, mine, name="box__ask", arguments={}, **answered(first, colour="blue"))
    assert "blue" in last["content"][0]["text"]


def test_a_host_that_does_not_come_back_is_not_waited_for(
    careful: Served, toolbox: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The call ends as if nobody could be asked, and nothing of it is kept."""
    monkeypatch.setattr(pending_calls, "PARKED_S", 0.2)
    before = len(toolbox.notes)
    first = ask(careful, name="box__erase", arguments={})
    until(lambda: "NeedsConsent" in careful.log, "the call has ended")
    late = ask(careful, name="box__erase", arguments={}, **answered(first, run=True))
    assert late["structuredContent"]["error"]["code"] == "needs-consent"
    assert is_refused(ask(careful, name="box__erase", arguments={}, **answered(first, run=True))), "told once"
    assert len(toolbox.notes) == before


def test_calls_that_wait_are_bounded_for_each_caller(
    toolbox: Place, policy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pending_calls, "PARKED_OF_ONE", 2)
    settings = Settings(policy_file=str(policy))
    with served(toolbox.registry, auth=True, folder=tmp_path, settings=settings) as service:
        greedy, other = service.key("use", everything=True), service.key("use", everything=True)
        waiting = [ask(service, greedy, name="box__erase", arguments={}) for _ in range(2)]
        third = ask(service, greedy, name="box__erase", arguments={})
        assert third["structuredContent"]["error"]["code"] == "needs-consent"
        assert "too many calls wait" in third["structuredContent"]["error"]["message"]
        assert ask(service, other, name="box__erase", arguments={})["resultType"] == "input_required"
        ask(service, greedy, name="box__erase", arguments={}, **answered(waiting[0], run=False))
        assert ask(service, greedy, name="box__erase", arguments={})["resultType"] == "input_required"


ASKER = Asker(caller=LOCAL, session=Session())
ASKED = ClientCapabilities(elicitation=ElicitationCapability())
PATIENCE_S = 60.0
FORM = {"mode": "form", "message": "Sure?", "requestedSchema": {"type": "object", "properties": {}}}
GoOn = Callable[[], Awaitable[Any]]


def with_answered(act: Callable[[GoOn, anyio.Event], Awaitable[None]]) -> None:
    """Runs `act` with what answers the question of a call, which goes on to its end when the event is set."""

    async def run() -> None:
        parking, may_end = Parking(), anyio.Event()

        async def ask(host: Host) -> dict[str, Any]:
            answer = await host.ask("elicitation/create", FORM)
            await may_end.wait()
            return {"content": [], "answer": answer}

        async with parking.open():
            wanted = await parking.begin(ASKER, ASKED, Deaf(), ask)
            assert isinstance(wanted, InputRequest)
            answers = {key: {"action": "accept"} for key in wanted.requests}
            with anyio.fail_after(PATIENCE_S):
                await act(lambda: parking.go_on(wanted.ticket, LOCAL.id, answers, Deaf()), may_end)

    anyio.run(run)


def test_a_request_that_is_sent_again_is_answered_both_times() -> None:
    async def act(go_on: GoOn, may_end: anyio.Event) -> None:
        results: list[Any] = []

        async def once() -> None:
            results.append(await go_on())

        async with anyio.create_task_group() as tasks:
            for _ in range(2):
                tasks.start_soon(once)
                await anyio.wait_all_tasks_blocked()
            may_end.set()
        assert results == [{"content": [], "answer": {"action": "accept"}}] * 2

    with_answered(act)


@pytest.mark.parametrize("came_to", ["a result", "an error"])
async def test_what_a_call_came_to_without_its_hosts_answer_waits_for_the_host(came_to: str) -> None:
    """Its question was taken back while the host's person thought: it is run once, and the host hears of it once."""
    parking, ran, ended = Parking(), list[str](), anyio.Event()

    async def pay(host: Host) -> dict[str, Any]:
        ran.append("paid")
        with anyio.move_on_after(0.01):
            await host.ask("elicitation/create", FORM)
        ended.set()
        if came_to == "an error":
            raise MayHaveRun("the connection broke")
        return {"content": [], "receipt": 4711}

    async with parking.open():
        wanted = await parking.begin(ASKER, ASKED, Deaf(), pay)
        assert isinstance(wanted, InputRequest)
        await ended.wait()
        await anyio.wait_all_tasks_blocked()
        answers = {key: {"action": "accept"} for key in wanted.requests}
        with anyio.fail_after(PATIENCE_S):
            with nullcontext() if came_to == "a result" else pytest.raises(MayHaveRun, match="the connection broke"):
                assert await parking.go_on(wanted.ticket, LOCAL.id, answers, Deaf()) == {"content": [], "receipt": 4711}
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(MCPError, match="no call waits for these answers"):
            await parking.go_on(wanted.ticket, LOCAL.id, answers, Deaf())
    assert ran == ["paid"]
