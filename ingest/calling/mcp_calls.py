"""Tools of MCP servers are run over the pool's connections."""

import anyio

from waygraph.ingest.calling.call import Result, ToolCall
from waygraph.ingest.calling.pool import Pool
from waygraph.registry.errors import CallTimedOut, NotCallable


class McpCaller:
    """A `ToolCaller` for agents that are MCP servers. It lives as long as its pool."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def call(self, call: ToolCall) -> Result:
        """As `ToolCaller.call`; the deadline holds for the start of the server, too, which goes on without the call."""
        tool = call.tool
        with anyio.move_on_after(call.deadline_s):
            try:
                return await self._pool.call(
                    call.agent,
                    tool.name,
                    call.arguments,
                    host=call.host,
                    timeout_s=call.deadline_s,
                    input_schema=tool.input_schema,
                )
            except NotCallable as refusal:  # of its server, whichever tool was asked for
                raise NotCallable(call.name, refusal.reason, how=refusal.how) from None
        raise CallTimedOut(call.name, call.deadline_s)
