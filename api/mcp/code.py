"""`run_code`: a model's Python in a sandbox without files and network (Monty), which calls many tools in one round.

Its two functions are `find` and `call`. Each call within passes what one by use_tool passes: sight, policy, consent,
limits, audit, usage and history. A tool that does not say that it only reads runs after a person agreed.
"""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from inspect import signature
from typing import TYPE_CHECKING, Any

import anyio

from waygraph.api.mcp.calls import ToolRequest, call_tool, record_call
from waygraph.api.mcp.gateway import Gateway
from waygraph.api.mcp.meta_tools import RUN_CODE, find_tools, read_arguments
from waygraph.api.mcp.results import compact, failure_result, mark_imitation
from waygraph.api.mcp.sessions import Asker
from waygraph.ingest.execution.call import text
from waygraph.ingest.execution.executor import PatientHost
from waygraph.ingest.manifest.fields import fields_of, items_of
from waygraph.ingest.upstream.connection import Host, Result
from waygraph.registry.model.errors import CallTimedOut, NotCallable, WaygraphError

if TYPE_CHECKING:
    from pydantic_monty import ExternalResult, ResourceLimits

MOST_CALLS = 50
"""Of one piece of code, finds included."""
MOST_BYTES, PRINT_BYTES = 8 * 1024 * 1024, 64 * 1024
"""Of all results that it gets; of what it prints."""
LIMITS: "ResourceLimits" = {
    "max_feed_duration_secs": 5.0,  # at work; calls do not count
    "max_memory": 64 * 1024 * 1024,
    "max_suspensions": 4 * MOST_CALLS,  # names are looked up, too
    "max_total_sleep_secs": 1.0,
}


class _Refusal(Exception):
    """What a function tells the code in place of an answer, which may catch it as a RuntimeError."""


class CodeRun:
    """The functions of one piece of code, with what is left of its budgets."""

    def __init__(self, gateway: Gateway, asker: Asker, host: Host, scope: anyio.CancelScope) -> None:
        self._gateway, self._asker, self._host, self._scope = gateway, asker, PatientHost(host, scope), scope
        self._calls, self._bytes = MOST_CALLS, MOST_BYTES
        self.functions: dict[str, Callable[..., Awaitable[Any]]] = {"find": self._find, "call": self._call}

    async def outcome(self, function: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> "ExternalResult":
        """Of one call by the code, as Monty takes it."""
        if function not in self.functions:
            return {"exception": NameError(f"name {function!r} is not defined")}
        try:
            arguments = signature(self.functions[function]).bind(*args, **kwargs)
            self._calls -= 1
            if self._calls < 0:
                raise _Refusal(f"no more than {MOST_CALLS} calls in one round")
            self._gateway.count(self._asker.caller)
            value = await self.functions[function](*arguments.args, **arguments.kwargs)
            self._bytes -= len(compact(value))
            if self._bytes < 0:
                raise _Refusal(f"results of more than {MOST_BYTES:,} bytes in one round")
            return {"return_value": value}
        except _Refusal as refusal:
            return {"exception": RuntimeError(str(refusal))}
        except TypeError as error:
            return {"exception": TypeError(f"{function}: {error}")}
        except (WaygraphError, TimeoutError) as error:
            return {"exception": RuntimeError(failure_result(error)["content"][0]["text"])}

    async def _find(self, query: str, limit: int = 8) -> Any:
        request = {"query": query, "limit": limit, "detail": "schema", "known": {}}
        [part] = (await find_tools(self._gateway, self._asker, request))["content"]
        return json.loads(part["text"]).get("tools", [])

    async def _call(self, name: str, params: Mapping[str, Any] = {}) -> Any:
        """The structured answer of a tool, else its texts as one; JSON in a text is read."""
        if not (isinstance(name, str) and isinstance(params, dict)):
            raise _Refusal("call(name, params) takes a text and a dict")
        try:
            arguments = json.loads(json.dumps(params, allow_nan=False))
        except (ValueError, TypeError, RecursionError) as error:
            raise _Refusal(f"params cannot be written as JSON: {error}") from None
        deadline_s = max(0.001, self._scope.deadline - anyio.current_time())
        request = ToolRequest(name=name, arguments=arguments, deadline_s=deadline_s, reader="program", needs_reads=True)
        result = await call_tool(self._gateway, self._asker, request, self._host)
        words = "\n".join(str(fields_of(part).get("text", "")) for part in items_of(result.get("content")))
        if result.get("isError"):
            raise _Refusal(words)
        value = result.get("structuredContent", words)
        if isinstance(value, Mapping) and value.keys() == {"result"}:
            value = value["result"]  # so SDKs wrap what is no object
        try:
            return json.loads(value) if isinstance(value, str) and value.lstrip()[:1] in ("{", "[") else value
        except (ValueError, RecursionError):
            return value


async def run_code(
    gateway: Gateway, asker: Asker, arguments: Mapping[str, Any], deadline_s: float, host: Host
) -> Result:
    """What the code printed, and the value of its last expression, within what a model reads.

    Raises InvalidArguments, NotCallable where Monty is missing, CallTimedOut.
    """
    code = read_arguments(RUN_CODE, arguments)[0].get("code", "")
    with record_call(gateway, asker.caller, RUN_CODE, arguments):
        asker.caller.require("use")
        with anyio.move_on_after(deadline_s) as scope:
            async with gateway.code_of_callers.place(asker.caller.id), gateway.code_places:
                result = await _execute(code, CodeRun(gateway, asker, host, scope))
            return gateway.long_results.fit(result, asker)
        raise CallTimedOut(RUN_CODE, deadline_s)


async def _execute(code: str, run: CodeRun) -> dict[str, Any]:
    try:
        import pydantic_monty as monty  # an extra
    except ImportError:
        raise NotCallable(RUN_CODE, "Monty is missing here", how="pip install 'waygraph[code]'") from None
    output, is_error = monty.CollectString(max_bytes=PRINT_BYTES), False
    try:
        async with monty.AsyncMonty(max_processes=1) as pool, pool.checkout(limits=LIMITS) as session:
            step = await session.feed_start(code, external_lookup=run.functions, print_callback=output)
            while not isinstance(step, monty.MontyComplete):
                if not isinstance(step, monty.AsyncFunctionSnapshot):
                    step = await step.resume_auto()
                elif step.is_os_function:
                    step = await step.resume_not_handled()
                else:
                    step = await step.resume(await run.outcome(step.function_name, step.args, step.kwargs))
        value = step.output
        last = value if isinstance(value, str) else json.dumps(value, default=repr, skipkeys=True, ensure_ascii=False)
        last = "" if value is None else last
    except (monty.MontyError, ValueError, RecursionError) as error:
        last, is_error = f"{type(error).__name__}: {error}", True
    texts = [mark_imitation(each, RUN_CODE) for each in (output.output.rstrip(), last) if each]
    return {"content": [text("\n".join(texts) or "(nothing was printed)")], **({"isError": True} if is_error else {})}
