"""Calls of tools over a connection of the handshake era: results, notices, questions, and every way of ending early."""

import os
import signal
from functools import partial
from typing import Any

import anyio
import pytest

from tests.processes_left import is_gone, needs_proc
from tests.upstream.calling import PATIENCE_S, Listening, over, tools_by_hand
from tests.upstream.programs.tools import RICH
from waygraph.ingest.upstream import calls, inflight
from waygraph.ingest.upstream.connection import MayHaveRun, NotDelivered
from waygraph.ingest.upstream.inflight import ANSWERED_S
from waygraph.registry.model.errors import CallTimedOut, UpstreamAnswered, UpstreamError, UpstreamUnreachable

KEY = "k-0123456789"


async def test_a_result_is_the_wire_s_own() -> None:
    """Images, resources, structured content, `_meta` and what no protocol knows: nothing is lost and nothing added."""
    async with over(tools_by_hand()) as calls:
        assert await calls.raw("rich") == RICH
        assert await calls.json("echo", a=[1, {"b": None}], c="é") == {"a": [1, {"b": None}], "c": "é"}


async def test_an_error_of_the_protocol_keeps_code_and_data_and_no_secret() -> None:
    async with over(tools_by_hand(env={"KEY": KEY})) as calls:
        with pytest.raises(UpstreamAnswered) as raised:
            await calls.raw("errs")
        assert (raised.value.code, raised.value.message) == (-32050, "no paper for ***")
        assert raised.value.data == {"key": "***", "list": [1, {"deep": "<***>"}]}
        assert await calls.json("echo", still="there") == {"still": "there"}


async def test_a_log_goes_to_the_host_whose_call_it_is_without_secrets() -> None:
    async with over(tools_by_hand(env={"KEY": KEY})) as calls:
        host = Listening()
        await calls.raw("logs", host, times=2)
        assert host.heard == [("warning", {"number": n, "with": "***"}, "press") for n in range(2)]


async def test_calls_run_beside_each_other_and_their_progress_is_told_apart() -> None:
    async with over(tools_by_hand()) as calls:
        hosts = [Listening() for _ in range(20)]
        async with anyio.create_task_group() as group:
            group.start_soon(calls.text, "waits")
            for number, host in enumerate(hosts):
                group.start_soon(partial(calls.text, "progresses", host, times=number))
            await calls.until_heard(lambda _: True)
            await calls.text("release")
        assert [len(host.heard) for host in hosts] == list(range(20))


@pytest.mark.parametrize(
    ("method", "params", "answer"),
    [
        (
            "elicitation/create",
            {"message": "Sure?", "requestedSchema": {"type": "object"}, "new": 1},
            {"action": "accept", "content": {"yes": True}, "new": [2]},
        ),
        (
            "sampling/createMessage",
            {"messages": [], "maxTokens": 5},
            {"role": "assistant", "content": {"type": "text", "text": "4"}, "model": "m"},
        ),
    ],
    ids=["elicitation", "sampling"],
)
async def test_a_question_is_answered_by_the_host(method: str, params: dict[str, Any], answer: dict[str, Any]) -> None:
    """The host sees the question and the server the answer as the other wrote it."""
    async with over(tools_by_hand()) as calls:
        host = Listening({method: answer})
        assert await calls.json("asks", host, method=method, params=params) == answer
        assert host.asked == [(method, params)]


@pytest.mark.parametrize(
    ("host", "reason"),
    [
        (Listening(), "the host of this call does not take elicitation/create"),
        (Listening(refuses="the person has left"), "the person has left"),
    ],
    ids=["cannot", "does not"],
)
async def test_a_question_that_no_host_answers_is_refused_with_the_reason(host: Listening, reason: str) -> None:
    async with over(tools_by_hand()) as calls:
        refusal = await calls.json("asks", host, method="elicitation/create")
        assert refusal == {"code": -32600, "message": reason}


async def test_roots_are_no_host_s_to_tell_where_they_are_of_the_whole_connection() -> None:
    """Those of one host would open its folders to all that share the server."""
    async with over(tools_by_hand()) as calls:
        host = Listening({"roots/list": {"roots": [{"uri": "file:///a"}]}})
        refusal = await calls.json("asks", host, method="roots/list")
        assert refusal == {"code": -32600, "message": "List roots not supported"}
        assert not host.asked


async def test_a_question_that_could_be_of_another_host_s_call_is_refused() -> None:
    """The protocol does not say whose it is, and nobody is to see what belongs to somebody else."""
    async with over(tools_by_hand()) as calls:
        host = Listening({"elicitation/create": {"action": "accept"}}, name="a")
        async with anyio.create_task_group() as group:
            group.start_soon(calls.text, "waits", Listening(name="b"))
            refusal = await calls.json("asks", host, method="elicitation/create")
            assert "does not say to which it belongs" in refusal["message"]
            await calls.text("release")
        assert not host.asked


async def test_what_a_call_that_was_given_up_may_still_ask_reaches_no_other_host() -> None:
    async with over(tools_by_hand()) as calls:
        with pytest.raises(CallTimedOut):
            await calls.raw("waits", Listening(name="b"), timeout_s=0.1)
        host = Listening({"elicitation/create": {"action": "accept"}}, name="a")
        refusal = await calls.json("asks", host, method="elicitation/create")
        assert "does not say to which it belongs" in refusal["message"]
        await anyio.sleep(ANSWERED_S + 0.1)
        again = Listening({"elicitation/create": {"action": "accept"}}, name="b")
        assert await calls.json("asks", again, method="elicitation/create") == {"action": "accept"}


async def test_what_comes_after_an_answer_reaches_no_other_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inflight, "ANSWERED_S", PATIENCE_S)
    async with over(tools_by_hand()) as calls:
        other = Listening({"elicitation/create": {"action": "accept"}}, name="b")
        await calls.text("asks_later", Listening(name="a"))
        async with anyio.create_task_group() as group:
            group.start_soon(calls.text, "waits", other)
            refusal = await calls.until_heard(lambda message: message.get("id") == "q1")
            assert "does not say to which it belongs" in refusal["error"]["message"]
            assert (other.asked, other.heard) == ([], [])
            await calls.text("release", other)


async def test_a_question_ends_with_its_call() -> None:
    """A host that still thinks when the result is there is not asked any more; the server learns it."""
    async with over(tools_by_hand()) as calls:
        host = Listening({"elicitation/create": {"action": "accept"}}, thinks=anyio.Event())
        assert await calls.text("asks_and_ends", host) == "not needed"
        refusal = await calls.until_heard(lambda message: message.get("id") == "q1")
        assert "has ended" in refusal["error"]["message"] or "no call" in refusal["error"]["message"]


async def test_a_question_that_the_server_withdraws_gets_no_answer() -> None:
    async with over(tools_by_hand()) as calls:
        host = Listening({"elicitation/create": {"action": "accept"}}, thinks=anyio.Event())
        for _ in range(150):  # more than a server may have open at a time
            assert await calls.text("asks_and_withdraws", host) == "never mind"
        host.thinks = None
        assert await calls.json("asks", host, method="elicitation/create") == {"action": "accept"}
        answered = {message["id"] for message in await calls.heard() if "id" in message}
        assert answered == {"roots-1", "q151"}


async def test_a_call_without_an_answer_ends_in_its_time_and_the_server_learns_it() -> None:
    async with over(tools_by_hand()) as calls:
        with pytest.raises(CallTimedOut, match=r"'waits' did not answer within 1 s"):
            await calls.raw("waits", timeout_s=1.0)
        await calls.until_heard(lambda message: message.get("method") == "notifications/cancelled")


@pytest.mark.parametrize(
    ("tool", "reason"),
    [("answers_null", "its answer is not of the protocol"), ("answers_error_of_words", "-32603: out of paper")],
)
async def test_an_answer_that_is_not_of_the_protocol_is_told_at_once(tool: str, reason: str) -> None:
    """With the server's own words, where it has any."""
    async with over(tools_by_hand()) as calls:
        with pytest.raises(UpstreamError, match=reason):
            await calls.raw(tool)
        assert await calls.json("echo", a=1) == {"a": 1}


async def test_a_server_that_does_not_read_holds_nobody_beyond_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its input is full, so that not even the word that nobody waits can be written."""
    monkeypatch.setattr(calls, "_CANCEL_S", 600.0)
    async with over(tools_by_hand()) as asked, anyio.create_task_group() as group:
        group.start_soon(lambda: asked.raw("sleeps", seconds=600))
        await anyio.wait_all_tasks_blocked()
        with anyio.fail_after(PATIENCE_S), pytest.raises(CallTimedOut):
            await asked.raw("echo", timeout_s=0.3, much="x" * 300_000)
        group.cancel_scope.cancel()


async def test_a_server_that_dies_amid_a_call_is_told_with_its_last_words() -> None:
    """Whether the tool ran is not known, so that the error does not say that it may be called again."""
    async with over(tools_by_hand(env={"KEY": KEY})) as calls:
        with pytest.raises(UpstreamUnreachable, match="exit status 4: Error: out of paper, with \\*\\*\\*") as raised:
            await calls.raw("dies")
        assert isinstance(raised.value, MayHaveRun)
        assert not raised.value.retryable
        assert not calls.connection.is_open


async def test_a_call_to_a_server_that_is_gone_was_not_delivered() -> None:
    async with over(tools_by_hand()) as calls:
        await calls.text("dies_afterwards")
        # Until it is gone its pipe still takes a call, of which nobody knows then whether it was read.
        with anyio.fail_after(PATIENCE_S):
            while calls.connection.is_open:
                await anyio.sleep(0.01)
        with pytest.raises(NotDelivered):
            await calls.raw("echo")
        await calls.connection.await_end()


@needs_proc
async def test_a_call_into_a_pipe_that_nobody_reads_was_not_delivered() -> None:
    """A killed server's end is not noticed before the next call is written."""
    async with over(tools_by_hand()) as calls:
        pid = await calls.json("who")
        os.kill(pid, signal.SIGKILL)
        assert is_gone(pid), "and without a turn of the loop: its end is still unread"
        with pytest.raises(NotDelivered):
            await calls.raw("echo")
