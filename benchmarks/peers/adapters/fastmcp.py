"""fastmcp: a server whose tool list BM25SearchTransform replaces; asked as a client's call would ask it."""

import asyncio
import json
from importlib import import_module
from typing import TYPE_CHECKING, Any

from benchmarks.peers.peer import called_names, distinct_owners, owners_of
from benchmarks.peers.vectors import Vectors

if TYPE_CHECKING:
    from waygraph.registry.model.changes import Manifest


class FastmcpPeer:
    """`max_results`: tools that a search gives, its own default is 5. `prefixed`: every name as `agent__tool`."""

    def __init__(self, vectors: Vectors, *, max_results: int | None = None, prefixed: bool = False) -> None:  # noqa: ARG002 - by words alone
        self._options = {} if max_results is None else {"max_results": max_results}
        self._prefixed = prefixed
        self._loop = asyncio.new_event_loop()

    def ingest(self, catalogue: "Manifest") -> None:
        tool_of: Any = import_module("fastmcp.tools.base").Tool
        search: Any = import_module("fastmcp.server.transforms.search").BM25SearchTransform
        names, owners = called_names(catalogue, always_prefixed=self._prefixed), owners_of(catalogue)
        self._owners = {name: owners[tool] for tool, name in names.items()}
        self._server = import_module("fastmcp").FastMCP("catalogue")
        for entry in catalogue.entries:
            for tool in entry.tools:
                schema = json.loads(tool.input_schema)
                self._server.add_tool(tool_of(name=names[tool.id], description=tool.description, parameters=schema))
        self._server.add_transform(search(**self._options))
        self.ask("warm", 1)  # it builds its index at the first search

    def ask(self, text: str, limit: int) -> list[str]:
        result = self._loop.run_until_complete(self._server.call_tool("search_tools", {"query": text}))
        found = result.structured_content["result"]
        return distinct_owners((tool["name"] for tool in found), self._owners, limit)
