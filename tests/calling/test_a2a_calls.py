"""Skills of A2A agents, asked of an agent of the reference SDK over loopback, in both versions of the protocol."""

import json
import time
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import anyio
import pytest

from tests.calling.a2a_agent import PNG, Served, serving
from tests.calling.opened_here import Here
from tests.service import until
from tests.web_pages import web_pages
from waygraph.ingest.execution.call import ToolCall
from waygraph.ingest.execution.executor import open_executor
from waygraph.ingest.upstream.connection import Deaf, Result
from waygraph.registry.model.errors import CallTimedOut, NotCallable, UpstreamAnswered, UpstreamRefused

VERSIONS = ("1.0", "0.3")


class Listening(Deaf):
    """A host that hears of progress."""

    def __init__(self) -> None:
        self.heard: list[str | None] = []

    async def progress(self, amount: float, total: float | None, message: str | None) -> None:  # noqa: ARG002
        self.heard.append(message)


def call_of(here: Here, arguments: Mapping[str, Any], **how: Any) -> ToolCall:
    [agent] = [agent for agent in here.registry.agents() if agent.kind == "a2a_agent"]
    [tool] = here.registry.tools(agent.id)
    return ToolCall(agent=agent, tool=tool, arguments=arguments, **{"deadline_s": 20.0, **how})


def run(here: Here, *messages: str, services: str = "", **how: Any) -> Result:
    return said(here, *({"message": message} for message in messages), services=services, **how)


def said(here: Here, *arguments: Mapping[str, Any], services: str = "", **how: Any) -> Result:
    """The last answer."""

    async def main() -> Result:
        file = here.write("services.toml", services) if services else ""
        settings = replace(here.settings, services_file=file)
        async with open_executor(here.registry, settings, here.surroundings) as executor:
            for given in arguments[:-1]:
                await executor.call(call_of(here, given, **how))
            return await executor.call(call_of(here, arguments[-1], **how))

    return anyio.run(main)


def texts(result: Result) -> list[str]:
    return [item["text"] for item in result["content"] if item["type"] == "text"]


@pytest.fixture(params=VERSIONS)
def agent(request: pytest.FixtureRequest, here: Here) -> Any:
    """One whose card was ingested from its address."""
    with serving(request.param) as served:
        here.ingest(served.url)
        served.messages.clear()
        yield served


def test_a_message_is_answered_by_a_message(here: Here, agent: Served) -> None:
    assert texts(run(here, "hello"))[0] == "Hello yourself."
    [message] = agent.messages
    assert message.message_id
    assert message.metadata["skillId"] == "book"
    assert {headers["a2a-version"] for headers in agent.headers} == {agent.version}


def test_the_artifacts_of_a_task_are_the_result(here: Here, agent: Served) -> None:
    result = run(here, "report")
    assert "isError" not in result
    text, data, image, file, link = result["content"]
    assert text == {"type": "text", "text": "Three berths."}
    assert json.loads(data["text"]) == result["structuredContent"] == {"berths": 3}
    assert image == {"type": "image", "data": b64encode(PNG).decode(), "mimeType": "image/png"}
    assert file["resource"] == {
        "uri": "waygraph:answer/list%20of%20berths.pdf",
        "mimeType": "application/pdf",
        "blob": b64encode(b"%PDF").decode(),
    }
    assert (link["type"], link["uri"], link["name"]) == ("resource_link", "https://desk.example.com/log", "log")
    assert result["_meta"]["waygraph/a2a"]["state"] == "completed"


def test_a_task_is_waited_for_and_its_progress_told(here: Here, agent: Served) -> None:
    host = Listening()
    assert texts(run(here, "slowly", host=host)) == ["counted"]
    assert "counting" in host.heard


def test_a_task_that_asks_for_more_says_how_to_go_on(here: Here, agent: Served) -> None:
    asked = run(here, "ask")
    ids = asked["_meta"]["waygraph/a2a"]
    assert ids["state"] == "input-required"
    assert "isError" not in asked
    question, how = texts(asked)
    assert question == "Which harbour?"
    assert f'task_id="{ids["taskId"]}", context_id="{ids["contextId"]}"' in how
    answered = said(here, {"message": "Lisbon", "task_id": ids["taskId"], "context_id": ids["contextId"]})
    assert texts(answered)[0] == "Booked for Lisbon."


@pytest.mark.parametrize(
    ("message", "told"), [("fail", ["The agent's task ended as failed.", "No pilot is free."]), ("login", ["login"])]
)
def test_a_task_that_fails_is_a_result_that_is_an_error(
    here: Here, agent: Served, message: str, told: list[str]
) -> None:
    result = run(here, message)
    assert result["isError"] is True
    assert all(part in "\n".join(texts(result)) for part in told)


def test_an_error_of_the_protocol_keeps_its_lines_and_its_end(here: Here, agent: Served) -> None:
    with pytest.raises(UpstreamAnswered) as caught:
        run(here, "refuse")
    assert caught.value.message.startswith("No berth:\n  0 is taken\n")
    assert caught.value.message.endswith("\n  59 is taken\nWait.")


def test_a_call_that_is_given_up_cancels_the_task(here: Here, agent: Served) -> None:
    began = time.monotonic()
    with pytest.raises(CallTimedOut):
        run(here, "forever", deadline_s=2.0)
    assert time.monotonic() - began < 60, "less than the 600 s that the agent takes"
    until(lambda: len(agent.cancelled) == 1, "the agent hears that nobody waits")


def test_a_card_that_leads_elsewhere_is_not_followed(here: Here) -> None:
    """A person named the address of the card; the other one is the card's word."""
    with serving() as other, serving(at=f"{other.url}/a2a") as served:
        here.ingest(served.url)
        with pytest.raises(NotCallable, match=r"its card came from .*says that it is at .*into a file") as caught:
            run(here, "hello")
        assert other.url in caught.value.reason
        assert other.headers == []
        entry = f'[[service]]\nagent = "desk"\nbase_url = "{other.url}/a2a"\nallow_private = true\n'
        assert texts(run(here, "hello", services=entry))[0] == "Hello yourself."


def test_a_card_in_a_file_names_no_address_that_is_asked(here: Here) -> None:
    with serving() as served, web_pages() as web:
        card = {"name": "desk", "version": "1", "skills": [{"id": "book"}], "url": f"{web.url}/a2a", "capabilities": {}}
        here.ingest(here.write("card.json", card))
        with pytest.raises(NotCallable, match="nobody here named its address"):
            run(here, "hello")
        assert web.asked == []
        entry = f'[[service]]\nagent = "desk"\nbase_url = "{served.url}/a2a"\n'
        with pytest.raises(UpstreamRefused, match="allow_private"):
            run(here, "hello", services=entry)
        assert served.headers == []
        assert texts(run(here, "hello", services=f"{entry}allow_private = true\n"))[0] == "Hello yourself."


def test_a_card_that_became_another_is_not_asked(here: Here) -> None:
    """Somebody wrote another address into the registry, under the name of the source that a person opened."""
    with serving() as served, web_pages() as web:
        here.ingest(served.url)
        source = here.registry.sources()[0].name
        transport = {"url": f"{web.url}/a2a", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
        agents = [{"id": "desk", "kind": "a2a_agent", "transport": transport, "tools": [{"name": "book"}]}]
        here.ingest(here.write("x.json", {"waygraph": 1, "agents": agents}), source=source)
        with pytest.raises(NotCallable, match="nobody here named its address"):
            run(here, "hello")
        assert web.asked == []


def test_a_login_is_sent_and_shown_to_nobody(here: Here) -> None:
    here.environ["DESK_TOKEN"] = "s3cret-desk-token"  # noqa: S105
    with serving(token="s3cret-desk-token") as served:  # noqa: S106
        here.ingest(served.url)
        with pytest.raises(UpstreamRefused, match="needs a login"):
            run(here, "hello")
        entry = f'[[service]]\nagent = "desk"\nbase_url = "{served.url}/a2a"\nallow_private = true\n'
        result = run(here, "hello", services=f'{entry}auth = {{ bearer = "${{DESK_TOKEN}}" }}\n')
    assert texts(result) == ["Hello yourself.", "token=***"]


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'{"jsonrpc": "2.0", "id": 1, "result": {"a": 1}}', b"\xff"])
def test_what_is_no_answer_is_refused(here: Here, body: bytes) -> None:
    with serving() as served, web_pages({"/a2a": (200, {"Content-Type": "application/json"}, body)}) as web:
        here.ingest(served.url)
        entry = f'[[service]]\nagent = "desk"\nbase_url = "{web.url}/a2a"\nallow_private = true\n'
        with pytest.raises(UpstreamRefused, match=r"no message of JSON-RPC|neither a message nor a task"):
            run(here, "hello", services=entry)
