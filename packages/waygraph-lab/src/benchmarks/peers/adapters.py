"""The libraries compared: how the public calls of each take the catalogue in and answer with agents.

Importing this module imports none of them.
"""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from benchmarks.peers.peer import READ_TOOLS, called_names, described_tools, distinct_owners, owners_of
from benchmarks.peers.vectors import Vectors

if TYPE_CHECKING:
    from waygraph.ingest.manifest.records import Manifest
    from waygraph.registry.registry import Registry

# -- Waygraph itself: a registry in memory, asked by a recipe over the texts that the recipe is made for


class RegistryPeer:
    def __init__(self, vectors: Vectors, *, recipe: str, agent_weight: float | None = None) -> None:
        self._vectors, self._recipe, self._agent_weight = vectors, recipe, agent_weight
        self._registry: Registry

    def ingest(self, catalogue: "Manifest") -> None:
        from waygraph.ingest.sync.apply import sync
        from waygraph.registry.embedding.texts import TextForms
        from waygraph.registry.model.settings import DEFAULT_EMBEDDER
        from waygraph.registry.registry import Registry
        from waygraph.registry.routing.recipes import recipe_named

        recipe = recipe_named(self._recipe)
        # No vector of a query is remembered: every peer embeds every query each time.
        settings = replace(self._vectors.settings, query_cache_entries=0)
        texts = recipe.texts or "contextual"
        if recipe.needs_vectors:
            forms = TextForms(form=texts, max_chars=settings.max_embedded_chars).of_entries(catalogue.entries)
            self._vectors.of_documents([text for parts in forms.values() for text in parts.texts])
        spec = DEFAULT_EMBEDDER if recipe.needs_vectors else "none"
        self._registry = Registry.open(":memory:", embedder=spec, settings=settings, environ={})
        sync(self._registry, catalogue, texts=texts)
        self.ask("warm", 1)

    def ask(self, text: str, limit: int) -> list[str]:
        from waygraph.registry.model.nouns import Query

        route = self._registry.route(
            Query(text=text, limit=limit), recipe=self._recipe, agent_weight=self._agent_weight
        )
        return [match.agent.id for match in route.matches]


# -- What anybody writes in an afternoon: a matrix of sentence vectors and one product -------------


class NumpyTools:
    """Tools by cosine; the owner of the best comes first."""

    def __init__(self, vectors: Vectors, *, prefixed: bool = False) -> None:
        self._vectors, self._prefixed = vectors, prefixed

    def ingest(self, catalogue: "Manifest") -> None:
        texts = described_tools(catalogue, prefixed=self._prefixed)
        self._owners = owners_of(catalogue)
        self._ids = list(texts)
        self._matrix = self._vectors.of_documents(list(texts.values()))

    def ask(self, text: str, limit: int) -> list[str]:
        return distinct_owners(self._best(text), self._owners, limit)

    def _best(self, text: str) -> list[str]:
        import numpy as np

        cosines = self._matrix @ self._vectors.of_query(text)
        return [self._ids[row] for row in np.argsort(-cosines, kind="stable")[:READ_TOOLS]]


class NumpyToolsAndAgents(NumpyTools):
    """Tools and agents in one list by cosine, type-weighted reciprocal ranks of equal weights (1, 1): with these
    Algorithm 1 of "Agent-as-a-Graph" keeps the order of the list, and walks from each to its agent."""

    def ingest(self, catalogue: "Manifest") -> None:
        agents = {entry.agent.id: f"{entry.agent.name}: {entry.agent.description}" for entry in catalogue.entries}
        texts = described_tools(catalogue, prefixed=self._prefixed) | agents
        self._owners = owners_of(catalogue) | {agent: agent for agent in agents}
        self._ids = list(texts)
        self._matrix = self._vectors.of_documents(list(texts.values()))


# -- bm25s: BM25 over sparse matrices. Tools by words; the owner of the best comes first -----------


class Bm25sPeer:
    """`stemmed`: English stop words and the Snowball stemmer, as its README shows; else its defaults."""

    def __init__(self, vectors: Vectors, *, stemmed: bool = False, prefixed: bool = False) -> None:  # noqa: ARG002 - by words alone
        self._prefixed = prefixed
        self._bm25s: Any = import_module("bm25s")
        self._options: dict[str, Any] = {"show_progress": False}
        if stemmed:
            self._options |= {"stopwords": "en", "stemmer": import_module("Stemmer").Stemmer("english")}

    def ingest(self, catalogue: "Manifest") -> None:
        texts = described_tools(catalogue, prefixed=self._prefixed)
        if self._prefixed:
            texts = {tool: text.replace("_", " ") for tool, text in texts.items()}
        self._owners, self._ids = owners_of(catalogue), list(texts)
        self._index: Any = self._bm25s.BM25()
        self._index.index(self._bm25s.tokenize(list(texts.values()), **self._options), show_progress=False)

    def ask(self, text: str, limit: int) -> list[str]:
        return distinct_owners(self.ask_tools(text), self._owners, limit)

    def ask_tools(self, text: str) -> list[str]:
        """Ids of tools, best first."""
        tokens = self._bm25s.tokenize(text, **self._options)
        rows, scores = self._index.retrieve(tokens, k=min(READ_TOOLS, len(self._ids)), show_progress=False)
        return [self._ids[row] for row, score in zip(rows[0], scores[0], strict=True) if score > 0]


# -- semantic-router: an agent is a route, its tools' texts are the route's utterances -------------


class SemanticRouterPeer:
    """`top_k` utterances are read and each route's are merged by `aggregation`; `tfidf` adds its sparse encoder."""

    def __init__(
        self,
        vectors: Vectors,
        *,
        top_k: int | None = None,
        aggregation: str | None = None,
        tfidf: bool = False,
        prefixed: bool = False,
    ) -> None:
        self._vectors, self._tfidf, self._prefixed = vectors, tfidf, prefixed
        given = {"top_k": top_k, "aggregation": aggregation}
        self._options = {name: value for name, value in given.items() if value is not None}

    def ingest(self, catalogue: "Manifest") -> None:
        routers: Any = import_module("semantic_router.routers")
        route: Any = import_module("semantic_router.route").Route
        routes = [route(name=name, utterances=list(texts)) for name, texts in self._utterances(catalogue).items()]
        if self._tfidf:
            self._options["sparse_encoder"] = import_module("semantic_router.encoders.tfidf").TfidfEncoder()
        self._router = routers.IndexedRouter(encoder=_encoder(self._vectors), routes=routes, **self._options)

    def ask(self, text: str, limit: int) -> list[str]:
        return [choice.name for choice in self._router(text, limit=limit) if choice.confidence]

    def _utterances(self, catalogue: "Manifest") -> dict[str, Sequence[str]]:
        return {
            entry.agent.id: [
                f"{tool.call_name if self._prefixed else tool.name}: {tool.description}" for tool in entry.tools
            ]
            for entry in catalogue.entries
        }


def _encoder(vectors: Vectors) -> Any:
    """Waygraph's embedder as an encoder that tells queries from documents."""
    base: Any = import_module("semantic_router.encoders.base")

    class Encoder(base.DenseEncoder, base.AsymmetricDenseMixin):  # type: ignore[misc]
        def encode_queries(self, docs: list[str]) -> list[Any]:
            return [vectors.of_query(text) for text in docs]

        def encode_documents(self, docs: list[str]) -> list[Any]:
            return list(vectors.of_documents(docs))

    return Encoder(name="waygraph")


# -- langgraph-bigtool: its default retrieval tool over LangGraph's in-memory store, texts as in its README


NAMESPACE = ("tools",)


class BigtoolPeer:
    """`limit`: how many tools its retrieval gives; its own default is 2."""

    def __init__(self, vectors: Vectors, *, limit: int | None = None, prefixed: bool = False) -> None:
        self._vectors, self._prefixed = vectors, prefixed
        make: Any = import_module("langgraph_bigtool.tools").get_default_retrieval_tool
        self._retrieve, _ = make(NAMESPACE) if limit is None else make(NAMESPACE, limit=limit)

    def ingest(self, catalogue: "Manifest") -> None:
        memory: Any = import_module("langgraph.store.memory")
        put: Any = import_module("langgraph.store.base").PutOp
        index = {"embed": _embeddings(self._vectors), "dims": 384, "fields": ["description"]}
        self._owners, self._store = owners_of(catalogue), memory.InMemoryStore(index=index)
        texts = described_tools(catalogue, prefixed=self._prefixed)
        self._store.batch([put(NAMESPACE, tool, {"description": text}) for tool, text in texts.items()])

    def ask(self, text: str, limit: int) -> list[str]:
        return distinct_owners(self._retrieve(text, store=self._store), self._owners, limit)


def _embeddings(vectors: Vectors) -> Any:
    """Waygraph's embedder as LangChain's."""
    base: Any = import_module("langchain_core.embeddings").Embeddings

    class Embeddings(base):  # type: ignore[misc]
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            rows: list[list[float]] = vectors.of_documents(texts).tolist()
            return rows

        def embed_query(self, text: str) -> list[float]:
            row: list[float] = vectors.of_query(text).tolist()
            return row

    return Embeddings()


# -- graph-tool-call: a graph of tools with BM25, traversal and, where enabled, vectors ------------


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
        self._ids = {name: tool for tool, name in names.items()}
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

    def ask_tools(self, text: str) -> list[str]:
        """Ids of tools, best first."""
        return [self._ids[tool.name] for tool in self._graph.retrieve(text, **self._options)]

    def _embed(self, texts: list[str]) -> Any:
        """Its one call for documents, many at once, and queries, one at a time."""
        return [self._vectors.of_query(texts[0])] if len(texts) == 1 else self._vectors.of_documents(texts)


# -- fastmcp: a server whose tool list BM25SearchTransform replaces; asked as a client's call would ask it


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
