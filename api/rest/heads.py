"""HEAD: what GET answers, without its content. Balancers and monitors ask so."""

from fastapi import FastAPI
from starlette.routing import Match

from waygraph.api.rest.observing.observed import Application, Message, Receive, Scope, Send


class Headed:
    """The application, with HEAD wherever an endpoint has GET; what streams without end, as MCP does, has none."""

    def __init__(self, application: FastAPI) -> None:
        self._application: Application = application
        self._routes = application.state.routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._application(scope, receive, send)
            return
        scope["method"] = "GET" if self._is_read(scope) else "HEAD"
        try:
            await self._application(scope, receive, _as_head(scope, send))
        finally:
            scope["method"] = "HEAD"  # whoever stands around this may have to answer in its place

    def _is_read(self, scope: Scope) -> bool:
        asked = {**scope, "method": "GET"}
        return any(route.matches(asked)[0] is Match.FULL for route in self._routes)


def _as_head(scope: Scope, send: Send) -> Send:
    """Without content. By the scope, which is its own, the server sees that the length it is told is not of this."""

    async def told(message: Message) -> None:
        scope["method"] = "HEAD"
        await send({**message, "body": b""} if message["type"] == "http.response.body" else message)

    return told
