"""A host on standard input and output, served by the SDK: all of what it says, or what is not answered directly."""

import sys
from collections.abc import Callable
from contextlib import redirect_stdout

from mcp.types import JSONRPCError, JSONRPCMessage, JSONRPCResponse

from waygraph.api.mcp.gateway import Parts
from waygraph.api.mcp.host_messages import host_messages, line_of
from waygraph.api.mcp.host_pipes import HostPipes
from waygraph.api.mcp.last_answers import until_answered
from waygraph.api.mcp.start import open_gateway
from waygraph.api.mcp.tools_list import Listed

type HasAnswer = Callable[[int | str | None], bool]
"""Told of each answer, by the id of its request: whether the host has one already."""


async def serve(
    parts: Parts, pipes: HostPipes | None, has_answer: HasAnswer = lambda _: False, listed: Listed | None = None
) -> None:
    """Until the host left, and a moment longer for what runs. `pipes` None: whatever standard input and output are.

    `listed`: what it was told before.
    """

    def line(message: JSONRPCMessage) -> bytes:
        if isinstance(message, JSONRPCResponse | JSONRPCError) and has_answer(message.id):
            return b""
        return line_of(message)

    async with host_messages(pipes, line) as streams:
        reading, writing = until_answered(streams)
        with redirect_stdout(sys.stderr):
            async with open_gateway(parts, listed) as server:
                await server.run(reading, writing, server.create_initialization_options())
