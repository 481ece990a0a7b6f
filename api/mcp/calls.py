"""One call of a tool: which is meant, may it run, do the arguments fit; then it runs, and is recorded."""

import asyncio
import json
import logging
import secrets
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from time import perf_counter
from typing import Any

import anyio
from mcp.types import INVALID_PARAMS, URL_ELICITATION_REQUIRED

from waygraph.api.mcp.gateway import TIMEOUT_KEY, Gateway
from waygraph.api.mcp.long_results import Reader
from waygraph.api.mcp.meta_tools import read_arguments
from waygraph.api.mcp.pending_calls import (
    CANCEL_S,
    FINAL_STATUSES,
    TASK_ADDRESS,
    TaskHandle,
    TaskState,
    follow_task,
    task_state,
)
from waygraph.api.mcp.results import attribute_error
from waygraph.api.mcp.sessions import Asker
from waygraph.api.telemetry.audit import Attempt, arguments_without_secrets
from waygraph.api.telemetry.logs import without_keys
from waygraph.ingest.execution.call import ToolCall, text
from waygraph.ingest.execution.services import TO_DO
from waygraph.ingest.manifest.fields import fields_of, items_of
from waygraph.ingest.upstream.calls import TASK
from waygraph.ingest.upstream.connection import Deaf, Host, NotAnswered, Result
from waygraph.registry.access.policy import Judgement, danger_in, danger_of
from waygraph.registry.access.visibility import Caller
from waygraph.registry.catalog.find import Judging
from waygraph.registry.catalog.resolve import is_exact_name, tool_meant
from waygraph.registry.index.call_graph import fold_name
from waygraph.registry.model import errors
from waygraph.registry.model.arguments import Mending, check_arguments, fits, mend_arguments
from waygraph.registry.model.nouns import Agent, Filters, Query, Tool
from waygraph.registry.model.numbers import FAR_S, Bounds, read_number
from waygraph.registry.model.parameters import original_arguments
from waygraph.registry.model.tool_settings import source_arguments
from waygraph.registry.model.tracing import Name, note_target
from waygraph.registry.model.usage import Outcome
from waygraph.registry.routing.needs import Givers

ARGUMENTS_CHARS = 4_000
"""Of the arguments of a call, where they are recorded at all."""
COPY_CHARS, MOST_COPIES = 500, 10
"""Of a tool's text, by which its copies are looked for; so many are looked at."""
MAX_NAMES, NAME_CHARS = 64, 64
"""So many arguments are named, each by so much of its name."""
TOOL_ERROR_CHARS = 200
"""So much of the text of an error is looked at."""
TOOL_ERROR = "ToolError"
"""In place of the name of an exception: the tool ran, and reported an error."""
ABANDONED_LOOK_S = 600.0
"""From one look for tasks that nobody asks about to the next."""
_log = logging.getLogger("waygraph.gateway")


@dataclass(slots=True)
class CallRecord:
    """A call under way: `target` once it is known which tool is meant, `sent_at` (monotonic) once it is sent."""

    target: tuple[Agent, Tool] | None = None
    sent_at: float | None = None
    is_error: bool = False

    def outcome(self, error: BaseException | None) -> Outcome:
        match error:
            case None:
                return "tool_error" if self.is_error else "ok"
            case errors.CallTimedOut() | TimeoutError():
                return "timed_out"
            case asyncio.CancelledError():
                return "cancelled"
            case errors.UpstreamError():
                return "upstream_failed"
            case errors.WaygraphError():
                return "refused"
            case _:
                return "upstream_failed"


def record_call(
    gateway: Gateway, caller: Caller, target: str, arguments: Mapping[str, Any]
) -> AbstractContextManager[Attempt]:
    """Writes the line when what happens within has ended, however it ended."""
    # A model may name arguments as it likes, so names are bounded as values are.
    names = [without_keys(name[:NAME_CHARS]) for name in islice(arguments, MAX_NAMES)]
    values = ""
    if gateway.settings.audit_arguments:
        values = json.dumps(arguments_without_secrets(arguments), ensure_ascii=False)[:ARGUMENTS_CHARS]
    return gateway.audit.attempt(caller, "call", target, parameters=names, arguments=values)


@contextmanager
def count_call(gateway: Gateway, asker: Asker, record: CallRecord) -> Iterator[None]:
    """Counts what happens within, however it ends, once it is known which tool is meant; and notes it of a host."""
    error = None
    try:
        yield
    except BaseException as raised:
        error = raised
        raise
    finally:
        outcome = record.outcome(error)
        duration_s = None if record.sent_at is None else perf_counter() - record.sent_at
        tool_id = record.target[1].id if record.target else ""
        if gateway.usage and tool_id:
            gateway.usage.note(tool_id, outcome, duration_s, asker.caller.id, asker.door)
        if gateway.usage and (client := asker.session.client):
            kind = type(error).__name__ if error else ""
            gateway.usage.note_host(client, outcome, tool_id, kind, duration_s)
        if tool_id and duration_s is not None:
            gateway.audit.time_call(outcome, duration_s)


@contextmanager
def note_refusal(gateway: Gateway, asker: Asker, meta_tool: str) -> Iterator[None]:
    """Notes of a host what the gateway refuses before any tool of a server is meant."""
    try:
        yield
    except errors.WaygraphError as error:
        if gateway.usage and (client := asker.session.client):
            gateway.usage.note_host(client, "refused", meta_tool, type(error).__name__)
        raise


SHOWN_ARGUMENTS_CHARS = 2_000
"""A person is shown all of the arguments. With more a call does not run: what matters could stand at their end."""
_YES = "run"


async def require_consent(host: Host, agent: Agent, tool: Tool, arguments: Mapping[str, Any], reason: str) -> None:
    """Returns if a person lets this call run. Raises NeedsConsent where nobody can be asked, NotCallable for a no."""
    name = tool.call_name
    if not host.can("elicitation/create"):
        raise errors.NeedsConsent(name, "; ".join(filter(None, (reason, errors.NOBODY_TO_ASK))))
    # As ASCII no character of the arguments hides or turns around what a person reads.
    shown = json.dumps(arguments, indent=1)
    if len(shown) > SHOWN_ARGUMENTS_CHARS:
        raise errors.NotCallable(
            name,
            f"a person has to agree, and can be shown {SHOWN_ARGUMENTS_CHARS:,} characters of arguments, "
            f"not {len(shown):,}",
        )
    try:
        answer = await host.ask("elicitation/create", _question(agent, tool, shown, reason))
    except NotAnswered as exc:
        raise errors.NeedsConsent(name, f"one was asked and gave no answer ({exc})") from exc
    content = answer.get("content")
    if answer.get("action") == "accept" and isinstance(content, Mapping) and content.get(_YES) is True:
        return
    because = f" ({reason})" if reason else ""
    raise errors.NotCallable(name, f"a person was asked whether it may run{because}, and did not agree")


def _question(agent: Agent, tool: Tool, shown: str, reason: str) -> dict[str, Any]:
    message = f"May the tool {tool.name!r} of {agent.name!r} ({tool.id}) run with these arguments?\n{shown}"
    return {
        "mode": "form",
        "message": f"{message}\nYou are asked because: {reason}" if reason else message,
        "requestedSchema": {
            "type": "object",
            "properties": {_YES: {"type": "boolean", "title": "Run it", "default": False}},
            "required": [_YES],
        },
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRequest:
    """What a host wants run: a tool by its name, or the one that fits a query.

    `reader`: who gets the result. `takes_tasks`: whether it fetches what runs as a task by itself. `consent`: the
    content hash of the tool that a person read and agreed to run with these arguments; empty: nobody has agreed yet.
    """

    name: str = ""
    query: str = ""
    arguments: Mapping[str, Any]
    deadline_s: float
    reader: Reader = "host"
    takes_tasks: bool = False
    consent: str = ""
    needs_reads: bool = False
    """Whether a person has to agree to a tool that does not say that it only reads, whatever the policy is."""
    mendings: tuple[Mending, ...] = ()


@dataclass(frozen=True, slots=True)
class _ChosenTool:
    """`arguments`: by the names of the tool's own schema. `mendings`: which of them were given as another type."""

    agent: Agent
    tool: Tool
    judgement: Judgement
    arguments: Mapping[str, Any]
    mendings: tuple[Mending, ...] = ()


def wanted_by_runner(runner: str, arguments: Mapping[str, Any], deadline_s: float) -> ToolRequest:
    """What the arguments of use_tool or execute say, also with `arguments` for `params`. Raises InvalidArguments."""
    if "params" not in arguments and "arguments" in arguments:
        arguments = {("params" if name == "arguments" else name): value for name, value in arguments.items()}
    arguments, mendings = read_arguments(runner, arguments)
    name, query, params = (arguments.get("name", ""), arguments.get("query", ""), arguments.get("params", {}))
    return ToolRequest(name=name, query=query, arguments=params, deadline_s=deadline_s, mendings=mendings)


async def call_tool(gateway: Gateway, asker: Asker, request: ToolRequest, host: Host) -> Result:
    """The tool's own answer, as far as it fits a model's context; or where its server cannot be reached and the policy
    fails over, that of a copy.

    Raises what stands against the call, and what the executor raises; the error names a copy.
    """
    start_s, record = anyio.current_time(), CallRecord()
    try:
        return await _call_meant(gateway, asker, request, host, record)
    except errors.UpstreamUnreachable as error:
        if (target := record.target) is None:
            raise
        copy = None
        with suppress(errors.WaygraphError, TimeoutError):  # the error of the call is what counts
            copy = await gateway.ask(partial(_find_copy, gateway, asker, target, request.arguments))
        if copy is None:
            raise
        name, left_s = copy[1].call_name, request.deadline_s - (anyio.current_time() - start_s)
        if not (gateway.policy.fails_over and error.retryable and danger_of(*copy) == "reads" and left_s > 0):
            raise error.again(f"{error.reason}. {name} of another server does the same") from error
        remark = text(f"({target[1].call_name} cannot be reached; {name} was called.)")
        request = replace(request, name=name, query="", deadline_s=left_s)
        answer = await _call_meant(gateway, asker, request, host, CallRecord())
        return {**answer, "content": [remark, *answer.get("content", ())]}


async def _call_meant(gateway: Gateway, asker: Asker, request: ToolRequest, host: Host, record: CallRecord) -> Result:
    target = request.name or request.query
    with (
        record_call(gateway, asker.caller, target, request.arguments) as attempt,
        count_call(gateway, asker, record),
    ):
        asker.caller.require("use")
        if request.query.strip():
            asker.caller.require("route")

        def choose_tool() -> _ChosenTool:
            record.target = agent, tool = _find_meant(gateway, asker, request.name, request.query, request.arguments)
            attempt.target = tool.id
            note_target(Name.TOOL, tool.call_name)
            choice = _judge_call(gateway, asker, request, agent, tool)
            total = asker.session.call_costs + (cost := choice.judgement.cost)
            gateway.budgets.take(tool.id, asker.caller.id, choice.arguments, cost, total)
            asker.session.call_costs = total
            return choice

        choice = await gateway.ask(choose_tool)
        if choice.judgement.verdict == "ask" and request.consent != choice.tool.content_hash:
            await require_consent(host, choice.agent, choice.tool, choice.arguments, choice.judgement.reason)
            choice = await gateway.ask(lambda: _as_agreed(gateway, asker, request, choice))
        tool, arguments = await gateway.ask(lambda: _read_source_form(gateway, choice.tool, choice.arguments))
        call = gateway.tool_call(asker, choice.agent, tool, arguments, request.deadline_s, host=host)
        record.sent_at = perf_counter()
        try:
            result = await run_call(gateway, asker, call, host)
            if result.get("resultType") == TASK:
                result = await _settle_task(gateway, call, result, request)
                if isinstance(result, TaskState):
                    return result if request.takes_tasks else result.as_result(gateway.runner)
        except (errors.WaygraphError, TimeoutError) as error:
            _note_call(gateway, asker, choice.tool, _failure_of(error))
            if isinstance(error, errors.UpstreamAnswered):
                raise attribute_error(error, choice.tool.id) from error
            raise
        record.is_error = is_error = result.get("isError") is True
        _note_call(gateway, asker, choice.tool, _failure_in(result) if is_error else "")
        if is_error:
            attempt.error = TOOL_ERROR
        return gateway.long_results.hand_on(
            result,
            choice.tool.id,
            asker,
            reader=request.reader,
            mendings=(*request.mendings, *choice.mendings),
        )


async def _settle_task(gateway: Gateway, call: ToolCall, task: Result, request: ToolRequest) -> Result | TaskState:
    """The task for a host that speaks tasks; else what comes of it in the time of the call. Raises StorageFailed."""
    if not isinstance(task_id := task.get("taskId"), str):
        raise errors.UpstreamRefused(f"{call.agent.id}: its task has no id")
    handle = TaskHandle(call.tool.id, task_id, call.caller, has_ended=task.get("status") in FINAL_STATUSES)
    try:
        handle, excess = await gateway.ask(partial(gateway.tasks.keep, handle))
    except (errors.StorageFailed, TimeoutError):
        await _give_up(gateway, handle)
        raise
    for each in excess:
        await _give_up(gateway, each)
    if request.takes_tasks:
        return task_state(handle.token, call.agent.id, task)
    return await _wait_for(gateway, call, task, handle)


async def _wait_for(gateway: Gateway, call: ToolCall, task: Result, handle: TaskHandle) -> Result | TaskState:
    """As `follow_task`."""

    async def ask_server(method: str, deadline_s: float, **params: Any) -> Result:
        params = {"taskId": handle.task_id, **params}
        answer = await gateway.executor.call(replace(call, method=method, arguments=params, deadline_s=deadline_s))
        await _note_end(gateway, handle, method, answer)
        return answer

    return await follow_task(call, task, handle.token, ask_server)


async def _note_end(gateway: Gateway, handle: TaskHandle, method: str, answer: Result) -> None:
    """Where an answer ends a task. What came of it counts more than that this cannot be noted: then its server is told
    later that nobody waits.
    """
    if handle.has_ended or not (method == "tasks/cancel" or answer.get("status") in FINAL_STATUSES):
        return
    try:
        await gateway.ask(lambda: gateway.tasks.note_end(handle))
    except (errors.StorageFailed, TimeoutError) as error:
        _log.warning("that a task of %s has ended cannot be noted: %s", handle.tool_id, error)


async def _give_up(gateway: Gateway, handle: TaskHandle, deadline_s: float = CANCEL_S) -> None:
    """Cancel a task that nobody will ask about at its server, if that can be told."""

    def cancel_call() -> ToolCall:
        tool = gateway.registry.tool(handle.tool_id)
        agent, params = gateway.registry.agent(tool.agent_id), {"taskId": handle.task_id}
        method, caller = "tasks/cancel", handle.caller
        return ToolCall(agent=agent, tool=tool, arguments=params, deadline_s=deadline_s, caller=caller, method=method)

    try:
        await gateway.executor.call(await gateway.ask(cancel_call))
    except (errors.WaygraphError, TimeoutError) as error:
        _log.info("a task of %s that was given up was not cancelled: %s", handle.tool_id, error)


async def cancel_abandoned(gateway: Gateway) -> None:
    """Cancel tasks about which nobody asked for long, now and again. Runs until it is cancelled."""
    while True:
        try:
            for handle in await gateway.ask(gateway.tasks.take_expired):
                await _give_up(gateway, handle, gateway.settings.call_timeout_s)
        except (errors.WaygraphError, TimeoutError) as error:
            _log.warning("tasks that nobody asks about cannot be looked for: %s", error)
        await anyio.sleep(ABANDONED_LOOK_S)


async def ask_task(
    gateway: Gateway, asker: Asker, token: str, host: Host, *, deadline_s: float, method: str = "tasks/get", **more: Any
) -> tuple[ToolCall, TaskHandle, Result]:
    """What its server says of a task that the asker began. Raises as `call_tool`."""
    with record_call(gateway, asker.caller, f"{TASK_ADDRESS}{token}", {}) as attempt:
        asker.caller.require("use")
        handle = await gateway.ask(lambda: gateway.tasks.read(token, asker.call_caller))

        def choose_task() -> ToolCall:
            agent, tool = _find_meant(gateway, asker, handle.tool_id, "", {})
            if tool.id != handle.tool_id:  # a name may be meant for another one; an id of a task is its server's
                raise errors.UnknownName("tool", handle.tool_id, ())
            attempt.target = tool.id
            gateway.judge(asker, agent, tool, tool.call_name)
            params = {"taskId": handle.task_id, **more}
            return gateway.tool_call(asker, agent, tool, params, deadline_s, host=host, method=method)

        call = await gateway.ask(choose_task)
        answer = await run_call(gateway, asker, call, host)
        await _note_end(gateway, handle, method, answer)
        return call, handle, answer


async def resume_task(gateway: Gateway, asker: Asker, token: str, deadline_s: float, host: Host) -> Result:
    """The result of a task as a tool's, or that it is still at work when the time is up."""
    call, handle, task = await ask_task(gateway, asker, token, host, deadline_s=deadline_s)
    result = await _wait_for(gateway, call, task, handle)
    if isinstance(result, TaskState):
        return result.as_result(gateway.runner)
    return gateway.long_results.hand_on(result, call.tool.id, asker)


async def call_alone(
    gateway: Gateway,
    asker: Asker,
    name: str,
    arguments: Mapping[str, Any],
    *,
    timeout_s: float | None = None,
    consent: str = "",
    for_model: bool = False,
) -> Result:
    """A call that comes from no host of MCP: nobody can be asked, and progress and logs of the tool go nowhere.

    `consent`: as `ToolRequest`. Raises as `call_tool`, and InvalidSetting for a `timeout_s` that is no time.
    """
    if timeout_s is not None and not read_number(timeout_s, 0, FAR_S):
        raise errors.InvalidSetting(f"timeout_s must be a {Bounds(least=0, most=FAR_S, above=True)}, not {timeout_s!r}")
    deadline_s = gateway.deadline_s({TIMEOUT_KEY: timeout_s})
    if name.startswith(TASK_ADDRESS):
        return await resume_task(gateway, asker, name.removeprefix(TASK_ADDRESS), deadline_s, Deaf())
    reader: Reader = "model" if for_model else "program"
    request = ToolRequest(name=name, arguments=arguments, deadline_s=deadline_s, reader=reader, consent=consent)
    return await call_tool(gateway, asker, request, Deaf())


def _find_copy(
    gateway: Gateway, asker: Asker, target: tuple[Agent, Tool], arguments: Mapping[str, Any]
) -> tuple[Agent, Tool] | None:
    """The best tool of the same name and nearly the same text, of another agent, that takes these arguments and that
    this caller may find and call.
    """
    failing_agent, failing = target
    if "route" not in asker.caller.scopes:
        return None
    from waygraph.ingest.sync.copies import is_near_copy, word_runs

    registry, within = gateway.view(asker)
    filters = Filters(agent_ids=tuple(sorted(within or ())))
    query = Query(text=f"{failing.name} {failing.description}"[:COPY_CHARS], limit=MOST_COPIES, filters=filters)
    judges, why_not = gateway.judges(asker), gateway.reach.now().why_not
    for match in registry.find_tools(query, principal=asker.principal).matches:
        agent, tool = match.agent, match.tool
        is_alike = fold_name(tool.name) == fold_name(failing.name) and (
            tool.description == failing.description
            or is_near_copy(word_runs(tool.description), word_runs(failing.description))
        )
        if agent.id == failing_agent.id or not is_alike or why_not(agent):
            continue
        is_allowed = judges.judge(agent, tool, by_name=True).verdict == "allow"
        if is_allowed and fits(tool, original_arguments(tool.input_schema, arguments)):
            return agent, tool
    return None


COMPLETE = "completion/complete"
"""Of an argument, as it is typed: nobody is asked anything."""
LOGIN_S, LOOK_S = 120.0, 0.5
"""So long a call waits for a person who went to log in, and looks so often whether they have."""


async def run_call(gateway: Gateway, asker: Asker, call: ToolCall, host: Host) -> Result:
    """The tool's answer. Where the caller's login is missing, a host that shows pages is led to ours and waited for."""
    try:
        return await _call_server(gateway, call)
    except errors.NeedsLogin as needed:
        error = asker.needs_login(needed.tool, needed.agent_id)
    logins = gateway.executor.logins
    if logins is None or not error.page or not await _open_login(host, call, error):
        raise error
    with anyio.move_on_after(LOGIN_S):
        while not await logins.is_logged_in(call):
            await anyio.sleep(LOOK_S)
    try:
        return await _call_server(gateway, call)
    except errors.NeedsLogin:
        raise error from None


async def _call_server(gateway: Gateway, call: ToolCall) -> Result:
    """If a person has to open a page first, the host is asked to show it. Raises UpstreamRefused then."""
    try:
        return await gateway.executor.call(call)
    except errors.UpstreamAnswered as error:
        if error.code != URL_ELICITATION_REQUIRED:
            raise
        raise errors.UpstreamRefused(f"{call.agent.id}: {await _show_pages(call, error.data)}") from None


async def _show_pages(call: ToolCall, data: object) -> str:
    """What came of it, as a model reads it."""
    pages = [page for page in map(fields_of, items_of(fields_of(data).get("elicitations"))) if page]
    needs = "a person has to open a page first"
    if not pages or call.method == COMPLETE:
        return needs
    try:
        for page in pages:
            if not await _opens(call.host, page):
                return f"{needs}: one was asked, and did not agree"
    except NotAnswered as exc:
        return f"{needs}, and nobody could be asked: {exc}"
    return f"{needs}. One was asked, and agreed: call the tool again when that is done"


async def _opens(host: Host, page: Mapping[str, Any]) -> bool:
    """Whether a person went to the page. Elicitation by URL: MCP 2025-11-25 and later. Raises NotAnswered."""
    return (await host.ask("elicitation/create", {**page, "mode": "url"})).get("action") == "accept"


async def _open_login(host: Host, call: ToolCall, error: errors.NeedsLogin) -> bool:
    message = f"The tool {call.tool.name!r} acts as you at {call.agent.id!r}: log in on this page of the gateway."
    page = {"elicitationId": secrets.token_urlsafe(12), "url": error.page, "message": message}
    try:
        return host.can("elicitation/create") and await _opens(host, page)
    except NotAnswered:
        return False


def _failure_of(error: Exception) -> str | None:
    """Why a call failed, in our own words; None where its arguments are at fault."""
    match error:
        case errors.UpstreamAnswered(code=code):
            return None if code == INVALID_PARAMS else f"its server answered with error {code}"
        case errors.CallTimedOut() | TimeoutError():
            return "it gave no answer in time"
        case errors.UpstreamUnreachable():
            return "its server cannot be reached"
        case _:
            return "its server gave no answer"


def _failure_in(result: Result) -> str | None:
    """The same of a result that is an error. Servers by the SDKs put the protocol's error into the text."""
    texts = (str(fields_of(part).get("text", ""))[:TOOL_ERROR_CHARS] for part in items_of(result.get("content"))[:1])
    return None if any(str(INVALID_PARAMS) in text for text in texts) else "it reported an error"


def _note_call(gateway: Gateway, asker: Asker, tool: Tool, failure: str | None) -> None:
    """The next search of the session starts from it. `failure`: empty for none; None: what was sent was at fault, which
    says nothing of the tool.
    """
    if gateway.settings.route_history and failure is not None:
        asker.session.note_call(asker.caller, tool, failure)
        if gateway.counter and not failure:
            calls = [turn.tool for turn in asker.session.calls_of(asker.caller) if turn.outcome == "ok"]
            gateway.counter.note(calls, asker.caller)


def _find_meant(
    gateway: Gateway, asker: Asker, name: str, query: str, arguments: Mapping[str, Any]
) -> tuple[Agent, Tool]:
    """Raises UnknownName, also for what the endpoint does not show; AmbiguousTool.

    Of several tools that fit a query, the one is meant that alone takes the arguments.
    """
    view, principal = gateway.view(asker), asker.principal
    try:
        tool = tool_meant(
            view.registry,
            name=name,
            query=query,
            principal=principal,
            agent_ids=view.agent_ids,
            why_not=gateway.reach.now().why_not,
        )
    except errors.AmbiguousTool as error:
        candidates = (view.registry.tool(each, principal=principal) for each in error.candidates if query)
        able = [each for each in candidates if fits(each, original_arguments(each.input_schema, arguments))]
        if len(able) != 1:
            raise
        [tool] = able
    agent = view.registry.agent(tool.agent_id, principal=principal)
    if not view.shows_tool(agent, tool):
        raise errors.UnknownName("tool", name or tool.call_name, ())
    return agent, tool


def _as_agreed(gateway: Gateway, asker: Asker, request: ToolRequest, before: _ChosenTool) -> _ChosenTool:
    """The tool as it is now: a person takes time. Raises as `_meant`; NotCallable also for what became another."""
    agent, tool = _find_meant(gateway, asker, before.tool.id, "", {})
    now = _judge_call(gateway, asker, request, agent, tool)
    if (now.tool.content_hash, now.agent.content_hash) != (before.tool.content_hash, before.agent.content_hash):
        raise errors.NotCallable(
            tool.call_name, "it became another while a person was asked: look at it, and call it again"
        )
    return now


def _judge_call(gateway: Gateway, asker: Asker, request: ToolRequest, agent: Agent, tool: Tool) -> _ChosenTool:
    """Raises NotCallable, InvalidArguments."""
    judges = gateway.judges(asker)
    judgement = judges.judge(agent, tool, by_name=is_exact_name(tool, request.name))
    if request.needs_reads and judgement.verdict == "allow" and danger_in(tool.annotations) != "reads":
        judgement = replace(judgement, verdict="ask", reason="it does not say that it only reads")
    if judgement.verdict == "deny":
        how = f'call use_tool(name="{tool.call_name}")' if judgement.needs_name else ""
        raise errors.NotCallable(tool.call_name, judgement.reason, how=how)
    arguments, mendings = mend_arguments(tool, original_arguments(tool.input_schema, request.arguments))
    try:
        check_arguments(tool, arguments)
    except errors.InvalidArguments as error:
        # Who mends the arguments should not learn only then that nothing runs this tool.
        if reason := gateway.reach.now().why_not(agent):
            advice = (f"{reason}, whatever the arguments", TO_DO.get(reason, ""))
            raise errors.NotCallable(tool.call_name, "; ".join(filter(None, advice))) from None
        raise _name_giver(gateway, asker, judges, (agent, tool), error) from None
    return _ChosenTool(agent, tool, judgement, arguments, mendings)


def _name_giver(
    gateway: Gateway, asker: Asker, judges: Judging, pair: tuple[Agent, Tool], error: errors.InvalidArguments
) -> errors.InvalidArguments:
    """The error with the tool of the same agent that gives a missing id, if the caller may call it."""
    agent, tool = pair
    siblings = gateway.view(asker).registry.tools(agent.id, principal=asker.principal)
    if not (need := Givers(judges.callable_tools(agent, siblings)).need_of(tool)):
        return error
    hint, place = f"; {need.tool.call_name} gives it", f"/{need.argument}"
    faults = [(at, f"{text}{hint}" if at == place and "required" in text else text) for at, text in error.faults]
    return errors.InvalidArguments(error.tool, faults)


def _read_source_form(gateway: Gateway, tool: Tool, arguments: Mapping[str, Any]) -> tuple[Tool, Mapping[str, Any]]:
    """The tool and the arguments without what operators say of them, as its server knows them.

    Raises InvalidArguments for a parameter that callers are not shown.
    """
    form = gateway.registry.store.look(lambda index: index.stated_tool(tool.id))
    return (tool, arguments) if form is None else (form[0], source_arguments(form[1], form[0], arguments))
