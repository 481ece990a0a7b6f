"""Tools of MCP servers are run over the pool's connections."""

from math import inf

from waygraph.ingest.calling.call import Result, ToolCall
from waygraph.ingest.calling.pool import Pool
from waygraph.registry.errors import NotCallable


class McpCaller:
    """A `ToolCaller` for agents that are MCP servers. It lives as long as its pool."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def call(self, call: ToolCall) -> Result:
        """As `ToolCaller.call`. A server that is being started is started also without a call that was given up."""
        try:
            return await self._pool.call(
                call.agent,
                call.tool.name,
                call.arguments,
                host=call.host,
                timeout_s=inf,  # the deadline is kept by whoever hands out the calls
                input_schema=call.tool.input_schema,
            )
        except NotCallable as refusal:  # of its server, whichever tool was asked for
            raise NotCallable(call.name, refusal.reason, how=refusal.how) from None
