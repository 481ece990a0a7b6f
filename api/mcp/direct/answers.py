"""The answers to plain requests, whole: what the SDK's server answers to the same (a test compares the two)."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pydantic_core import to_json

from waygraph.api.mcp.direct.plain import OF_THE_PROTOCOL, Document, Plain, is_greeting
from waygraph.api.mcp.results import as_protocol_has_it, told, unforeseen
from waygraph.api.mcp.tools import IDENTITY, instructions, questions, version
from waygraph.api.mcp.tools_list import Listed, Pages, ask_of_lists
from waygraph.registry.model.errors import WaygraphError

if TYPE_CHECKING:
    from waygraph.api.mcp.direct.plain import RequestId
    from waygraph.api.mcp.gateway import Asker, Discovery

HANDSHAKES = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN = "2026-07-28"
"""The versions of the protocol whose answers are known here; a host of any other is the SDK's."""

_SERVER = OF_THE_PROTOCOL + "serverInfo"
_AT_ONCE = {"ttlMs": 0, "cacheScope": "private"}


class DirectAnswers:
    """To the host that this process has."""

    def __init__(self, discovery: "Discovery", asker: "Asker") -> None:
        self._discovery, self._asker, self._pages = discovery, asker, Pages()
        self._questions = questions(discovery.surface)
        self.listed: Listed | None = None
        """What the host was told first; None: it has asked for no list."""
        self._version: str | None = None
        """What the requests of this host say of themselves; None: it was not greeted here, and nothing is answered."""

    def greeting(self, request: Plain) -> bytes | None:
        """The answer to the first request of a host; None: the SDK's to answer, as is all that follows."""
        if (greeting := self._greeting(request)) is None:
            return None
        self._version = request.version
        return self._line(request, greeting)

    def _greeting(self, request: Plain) -> Document | None:
        if request.method == "initialize" and not request.version and is_greeting(request.params):
            asked = request.params["protocolVersion"]
            return self._initialized(asked) if asked in HANDSHAKES else None
        if request.method == "server/discover" and request.version == MODERN and request.params.keys() == {"_meta"}:
            return self._discovered()
        return None

    def takes(self, request: Plain) -> bool:
        """Whether a later request is answered here."""
        if request.version != self._version:
            return False
        if request.method == "tools/list":
            return not request.params.keys() - {"_meta"}
        return (
            request.method == "tools/call"
            and not request.params.keys() - {"name", "arguments", "_meta"}
            and isinstance(request.params.get("arguments", {}), dict)
            and request.params.get("name") in list(self._questions)  # it may be anything, also what has no hash
        )

    async def answer(self, request: Plain) -> bytes:
        """One that is taken."""
        try:
            if request.method == "tools/list":
                return await self._listed(request)
            return self._line(request, await self._called(request.params))
        except Exception as error:  # noqa: BLE001 - the log has it, the host learns that it happened
            return _error(request.id, *unforeseen(error))

    async def _listed(self, request: Plain) -> bytes:
        try:
            await self._remember()
            return self._line(request, await self._pages.page(self._discovery, self._asker, ""))
        except (WaygraphError, TimeoutError) as error:
            return _error(request.id, *as_protocol_has_it(error))

    async def _remember(self) -> None:
        """What is there now, before the first list. Raises WaygraphError, TimeoutError."""
        if self.listed is None:
            ask = await ask_of_lists(self._discovery)
            self.listed = await ask(lambda: Listed.first(self._discovery))

    async def _called(self, params: Mapping[str, Any]) -> Document:
        try:
            return await self._questions[params["name"]](self._discovery, self._asker, params.get("arguments", {}))
        except (WaygraphError, TimeoutError) as error:
            return told(error)

    def _initialized(self, asked: str) -> Document:
        return {"protocolVersion": asked, "serverInfo": _identity()} | self._offered(subscribes=False)

    def _discovered(self) -> Document:
        return {"supportedVersions": [MODERN]} | self._offered(subscribes=True) | _AT_ONCE

    def _offered(self, *, subscribes: bool) -> Document:
        """`subscribes`: whether changes of resources are told too, as far as there are any."""
        resources = {"subscribe": subscribes, "listChanged": subscribes}
        return {
            "capabilities": {"tools": {"listChanged": True}, "resources": resources, "logging": {}},
            "instructions": instructions(self._discovery.surface),
        }

    def _line(self, request: Plain, result: Document) -> bytes:
        if request.version:
            result = {"resultType": "complete"} | result | {"_meta": {_SERVER: _identity()}}
        else:
            result = {name: value for name, value in result.items() if name not in _AT_ONCE}
        return _written({"jsonrpc": "2.0", "id": request.id, "result": result})


def _identity() -> Document:
    return {**IDENTITY, "version": version()}


def _error(request_id: "RequestId", code: int, message: str) -> bytes:
    return _written({"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": message}})


def _written(document: Document) -> bytes:
    return to_json(document, inf_nan_mode="null") + b"\n"
