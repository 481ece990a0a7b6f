"""A prompt is fetched, a resource read, an argument completed: at its own server, by the rules that hold for tools."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from waygraph.api.mcp.calls import COMPLETE, record_call, require_consent, run_call
from waygraph.api.mcp.gateway import Gateway
from waygraph.api.mcp.meta_tools import RUNNERS
from waygraph.api.mcp.offers import Kind, address_of, find_owner, stand_in
from waygraph.api.mcp.protocol import UNFIT, is_url, mend_item, mend_result
from waygraph.api.mcp.results import WHOSE, attribute_error
from waygraph.api.mcp.sessions import Asker, OnBehalf
from waygraph.ingest.execution.call import ToolCall
from waygraph.ingest.manifest.fields import items_of
from waygraph.ingest.upstream.connection import Host, NotOffered, Result
from waygraph.registry.access.policy import Judgement
from waygraph.registry.catalog.find_tools.find import judging
from waygraph.registry.model.errors import NotCallable, UpstreamAnswered, UpstreamRefused
from waygraph.registry.model.nouns import Agent

MOST_VALUES = 100
"""Of a completion, by MCP."""
_NOTHING: Result = {"completion": {"values": []}}


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferCall:
    """What a host asks of a prompt, resource or template. `params`: those of the request beside its name.

    `completes`: an argument is completed, for which nobody is asked anything.
    """

    kind: Kind
    address: str
    params: Mapping[str, Any] = field(repr=False)
    deadline_s: float
    completes: bool = False

    @property
    def method(self) -> str:
        if self.completes:
            return COMPLETE
        return "prompts/get" if self.kind == "prompt" else "resources/read"

    def params_for(self, name: str) -> dict[str, Any]:
        """With the server's own name of it."""
        key = "name" if self.kind == "prompt" else "uri"
        if not self.completes:
            return {key: name, **self.params}
        return {"ref": {"type": f"ref/{'prompt' if self.kind == 'prompt' else 'resource'}", key: name}, **self.params}


async def call_offer(gateway: Gateway, asker: Asker, offer: OfferCall, host: Host) -> Result:
    """The server's own answer. Raises what refuses the call, and what the executor raises.

    UpstreamAnswered names the agent.
    """
    arguments = offer.params.get("arguments") or {}
    with record_call(gateway, asker.caller, offer.address, arguments) as attempt:
        asker.caller.require("use")
        agent, name = await find_owner(gateway, asker, offer.kind, offer.address)
        tool = stand_in(offer.kind, agent, name)
        attempt.target = tool.id
        judgement = await gateway.ask(lambda: _judge(gateway, asker, agent, offer.kind, name))
        if judgement.verdict == "ask":
            if offer.completes:
                return _NOTHING
            await require_consent(host, agent, tool, arguments, judgement.reason)
            await gateway.ask(lambda: _recheck(gateway, asker, agent, offer.kind, name))
        call = ToolCall(
            agent=agent,
            tool=tool,
            arguments=offer.params_for(name),
            deadline_s=offer.deadline_s,
            caller=asker.call_caller,
            token=asker.token,
            host=OnBehalf(host, agent, asker.caller, gateway.questions),
            method=offer.method,
        )
        try:
            result = await run_call(gateway, asker, call, host)
        except UpstreamAnswered as error:
            raise attribute_error(error, tool.id) from error
        except NotOffered:
            if offer.completes:
                return _NOTHING
            raise
        return _read_answer(offer, agent, result)


async def read_as_tool(gateway: Gateway, asker: Asker, offer: OfferCall, host: Host) -> Result:
    """A resource as a tool's result, for a model, cut as any other."""
    read = await call_offer(gateway, asker, offer, host)
    result = {"content": [{"type": "resource", "resource": each} for each in read["contents"]], "_meta": read["_meta"]}
    return gateway.long_results.hand_on(result, read["_meta"][WHOSE], asker, run_by=RUNNERS[gateway.surface])


def _judge(gateway: Gateway, asker: Asker, agent: Agent, kind: Kind, name: str) -> Judgement:
    """Raises NotCallable."""
    registry = gateway.view(asker).registry
    judges = judging(registry, gateway.policy, asker.principal)
    judgement = judges.judge(agent, stand_in(kind, agent, name), by_name=True)
    if judgement.verdict == "deny":
        raise NotCallable(address_of(kind, agent.id, name), judgement.reason)
    return judgement


def _recheck(gateway: Gateway, asker: Asker, agent: Agent, kind: Kind, name: str) -> None:
    """A person takes time. Raises UnknownName for an agent that is gone, NotCallable for one that became another."""
    now = gateway.view(asker).registry.agent(agent.id, principal=asker.principal)
    if now.hidden or now.content_hash != agent.content_hash:
        raise NotCallable(address_of(kind, agent.id, name), "its agent became another while a person was asked")
    _judge(gateway, asker, now, kind, name)


def _read_answer(offer: OfferCall, agent: Agent, result: Result) -> Result:
    """As a host takes it, with the id of its agent. Raises UpstreamRefused for one of another method."""
    if offer.completes:
        answer = mend_result(offer.method, {**result, "completion": _completion(result.get("completion"))})
    else:
        field = "messages" if offer.kind == "prompt" else "contents"
        items = result.get(field)
        mended = [mend_item(offer.method, field, _with_address(offer, agent, each)) for each in items_of(items)]
        is_whole = isinstance(items, list) and UNFIT not in mended
        answer = mend_result(offer.method, {**result, field: mended}) if is_whole else UNFIT
    if isinstance(answer, Mapping):
        return {**answer, "_meta": {**answer.get("_meta", {}), WHOSE: agent.id}}
    raise UpstreamRefused(f"{agent.id}: its answer is none that the protocol has for {offer.method}")


def _with_address(offer: OfferCall, agent: Agent, item: Any) -> Any:
    """With our address, if the host read it by ours, or if it could not take the server's own."""
    uri = item.get("uri") if isinstance(item, Mapping) and offer.kind != "prompt" else None
    if isinstance(uri, str) and (offer.address.startswith("waygraph:") or not is_url(uri)):
        return {**item, "uri": address_of("resource", agent.id, uri)}
    return item


def _completion(completion: Any) -> Any:
    """No more values than a completion may have."""
    values = completion.get("values") if isinstance(completion, Mapping) else None
    if not isinstance(values, list) or len(values) <= MOST_VALUES:
        return completion
    return {**completion, "values": values[:MOST_VALUES], "hasMore": True}
