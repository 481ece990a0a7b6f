"""Who is compared, with which settings: defaults beside the best that were found for each."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from benchmarks.peers.peer import READ_TOOLS

if TYPE_CHECKING:
    from benchmarks.peers.peer import Peer
    from benchmarks.peers.vectors import Vectors

ADAPTERS = "benchmarks.peers.adapters"


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """`adapter` is a class of `adapters`, or `module:Class`. `package`: the distribution
    whose version counts. `settings` says in words what `options` choose."""

    name: str
    adapter: str
    package: str
    settings: str
    options: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))

    def make(self, vectors: "Vectors") -> "Peer":
        """Raises ImportError if the library is not installed, for some adapters only at `ingest`."""
        module, _, name = self.adapter.rpartition(":")
        adapter: Any = getattr(import_module(module or ADAPTERS), name)
        peer: Peer = adapter(vectors, **self.options)
        return peer

    @property
    def version(self) -> str:
        """Empty if it is not installed."""
        try:
            return version(self.package) if self.package else ""
        except PackageNotFoundError:
            return ""


def _waygraph(recipe: str, settings: str, **options: object) -> Contender:
    name = f"Waygraph {recipe}" + (" 1:1" if options else "")
    return _peer(name, "RegistryPeer", "waygraph", settings, recipe=recipe, **options)


def _peer(name: str, adapter: str, package: str, settings: str, **options: object) -> Contender:
    return Contender(name=name, adapter=adapter, package=package, settings=settings, options=options)


HYBRID = "Waygraph hybrid"
"""What everything is compared with."""

WHOLE = f"{READ_TOOLS} tools read"
PREFIXED = "names as `agent__tool`"

CONTENDERS = (
    _waygraph("hybrid", "the default"),
    _waygraph("paper", "its own weights: agents 1.5, tools 1"),
    _waygraph("paper", "agents 1, tools 1", agent_weight=1.0),
    _waygraph("lexical", "no model"),
    _peer("graph-tool-call", "GraphToolCallPeer", "graph-tool-call", "its defaults: words and graph, 10 tools"),
    _peer(
        "graph-tool-call (vectors)",
        "GraphToolCallPeer",
        "graph-tool-call",
        "`enable_embedding`, else its defaults: 10 tools",
        embedded=True,
    ),
    _peer(
        "graph-tool-call (best)",
        "GraphToolCallPeer",
        "graph-tool-call",
        f"`enable_embedding`, `top_k=50`, {PREFIXED}",
        embedded=True,
        top_k=50,
        prefixed=True,
    ),
    _peer(
        "semantic-router",
        "SemanticRouterPeer",
        "semantic-router",
        "its defaults: the best 5 utterances, mean of each route's",
    ),
    _peer(
        "semantic-router (whole)",
        "SemanticRouterPeer",
        "semantic-router",
        f"`top_k={READ_TOOLS}`, `aggregation=max`",
        top_k=READ_TOOLS,
        aggregation="max",
    ),
    _peer(
        "semantic-router (best)",
        "SemanticRouterPeer",
        "semantic-router",
        f"`top_k={READ_TOOLS}`, `aggregation=max`, hybrid with its `TfidfEncoder`, {PREFIXED}",
        top_k=READ_TOOLS,
        aggregation="max",
        tfidf=True,
        prefixed=True,
    ),
    _peer("bm25s", "Bm25sPeer", "bm25s", f"its defaults, {WHOLE}"),
    _peer(
        "bm25s (best)",
        "Bm25sPeer",
        "bm25s",
        f"English stop words, Snowball stemmer, {PREFIXED} split at `_`, {WHOLE}",
        stemmed=True,
        prefixed=True,
    ),
    _peer("numpy", "NumpyTools", "numpy", f"tools by cosine, {WHOLE}"),
    _peer("numpy wRRF 1:1", "NumpyToolsAndAgents", "numpy", f"tools and agents in one list, {READ_TOOLS} read"),
    _peer("numpy wRRF 1:1 (best)", "NumpyToolsAndAgents", "numpy", f"the same, {PREFIXED}", prefixed=True),
    _peer("langgraph-bigtool", "BigtoolPeer", "langgraph-bigtool", "its defaults: 2 tools"),
    _peer(
        "langgraph-bigtool (best)",
        "BigtoolPeer",
        "langgraph-bigtool",
        f"`limit={READ_TOOLS}`, {PREFIXED}",
        limit=READ_TOOLS,
        prefixed=True,
    ),
    _peer("fastmcp", "FastmcpPeer", "fastmcp", "`BM25SearchTransform`, its defaults: 5 tools"),
    _peer(
        "fastmcp (best)",
        "FastmcpPeer",
        "fastmcp",
        f"`BM25SearchTransform(max_results={READ_TOOLS})`, {PREFIXED}",
        max_results=READ_TOOLS,
        prefixed=True,
    ),
)


def contender_named(name: str) -> Contender:
    """One of `CONTENDERS`, or the adapter that `module:Class` names, with its own defaults.

    Raises ValueError for a name that is neither.
    """
    known = {contender.name: contender for contender in CONTENDERS}
    if name in known:
        return known[name]
    if ":" not in name:
        raise ValueError(f"{name!r} is not known; known: {'; '.join(known)}")
    return Contender(name=name, adapter=name, package="", settings="")
