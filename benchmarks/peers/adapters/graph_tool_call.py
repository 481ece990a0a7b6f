"""graph-tool-call: a graph of tools with BM25, traversal and, where enabled, vectors."""

import json
from importlib import import_module
from typing import TYPE_CHECKING, Any

from benchmarks.peers.peer import called_names, distinct_owners, owners_of
from benchmarks.peers.vectors import Vectors

if TYPE_CHECKING:
    from waygraph.registry.model.changes import Manifest


class GraphToolCallPeer:
    """`top_k`: tools that it gives, its own default is 10. `embedded`: with vectors.

    Names are as its MCP proxy gives them, `agent__tool` where two agents have a tool of one name, or all `prefixed`.
    """

    def __init__(
        self,
        vectors: Vectors,
        *,
        embedded: bool = False,
        top_k: int | None = None,
        prefixed: bool = False,
    ) -> None:
        self._vectors, self._embedded, self._prefixed = vectors, embedded, prefixed
        self._options = {} if top_k is None else {"top_k": top_k}

    def ingest(self, catalogue: "Manifest") -> None:
        names, owners = called_names(catalogue, always_prefixed=self._prefixed), owners_of(catalogue)
        self._owners = {name: owners[tool] for tool, name in names.items()}
        self._graph: Any = import_module("graph_tool_call").ToolGraph()
        for entry in catalogue.entries:
            tools = [
                {"name": names[t.id], "description": t.description, "inputSchema": json.loads(t.input_schema)}
                for t in entry.tools
            ]
            # Its dependencies are found once, after all are there, in place of once for every agent.
            self._graph.ingest_mcp_tools(tools, server_name=entry.agent.name, detect_dependencies=False)
        self._graph.relink()
        if self._embedded:
            self._graph.enable_embedding(self._embed)
        self.ask("warm", 1)  # it builds its index at the first search

    def ask(self, text: str, limit: int) -> list[str]:
        found = self._graph.retrieve(text, **self._options)
        return distinct_owners((tool.name for tool in found), self._owners, limit)

    def _embed(self, texts: list[str]) -> Any:
        """Its one call for documents, many at once, and queries, one at a time."""
        return [self._vectors.of_query(texts[0])] if len(texts) == 1 else self._vectors.of_documents(texts)
