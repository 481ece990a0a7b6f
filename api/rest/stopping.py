"""What is cut off when a service stops is answered: in the shape of every other error, and not as a fault."""

import asyncio

from waygraph.api.rest import problems
from waygraph.api.rest.observing.observed import Application, Message, Receive, Scope, Send


class Stoppable:
    """The application. A request that the server cancels, since it stops and waits no longer, is told so.

    Where an answer has begun nothing can be told any more: the connection ends in the middle of it.
    """

    def __init__(self, application: Application) -> None:
        self._application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = False

        async def noted(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self._application(scope, receive, noted)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if begun or scope["type"] != "http" or task is None:
                raise
            task.uncancel()
            await problems.stopped()(scope, receive, send)
