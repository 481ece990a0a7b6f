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
    return Contender(
        name=f"Waygraph {recipe}" + (" 1:1" if options else ""),
        adapter="RegistryPeer",
        package="waygraph",
        settings=settings,
        options={"recipe": recipe, **options},
    )


HYBRID = "Waygraph hybrid"
"""What everything is compared with."""

WHOLE = f"{READ_TOOLS} tools read"
PREFIXED = "names as `agent__tool`"

CONTENDERS = (
    _waygraph("hybrid", "the default"),
    _waygraph("paper", "its own weights: agents 1.5, tools 1"),
    _waygraph("paper", "agents 1, tools 1", agent_weight=1.0),
    _waygraph("lexical", "no model"),
    Contender(
        name="graph-tool-call",
        adapter="GraphToolCallPeer",
        package="graph-tool-call",
        settings="its defaults: words and graph, 10 tools",
    ),
    Contender(
        name="graph-tool-call (vectors)",
        adapter="GraphToolCallPeer",
        package="graph-tool-call",
        settings="`enable_embedding`, else its defaults: 10 tools",
        options={"embedded": True},
    ),
    Contender(
        name="graph-tool-call (best)",
        adapter="GraphToolCallPeer",
        package="graph-tool-call",
        settings=f"`enable_embedding`, `top_k=50`, {PREFIXED}",
        options={"embedded": True, "top_k": 50, "prefixed": True},
    ),
    Contender(
        name="semantic-router",
        adapter="SemanticRouterPeer",
        package="semantic-router",
        settings="its defaults: the best 5 utterances, mean of each route's",
    ),
    Contender(
        name="semantic-router (whole)",
        adapter="SemanticRouterPeer",
        package="semantic-router",
        settings=f"`top_k={READ_TOOLS}`, `aggregation=max`",
        options={"top_k": READ_TOOLS, "aggregation": "max"},
    ),
    Contender(
        name="semantic-router (best)",
        adapter="SemanticRouterPeer",
        package="semantic-router",
        settings=f"`top_k={READ_TOOLS}`, `aggregation=max`, hybrid with its `TfidfEncoder`, {PREFIXED}",
        options={"top_k": READ_TOOLS, "aggregation": "max", "tfidf": True, "prefixed": True},
    ),
    Contender(
        name="bm25s",
        adapter="Bm25sPeer",
        package="bm25s",
        settings=f"its defaults, {WHOLE}",
    ),
    Contender(
        name="bm25s (best)",
        adapter="Bm25sPeer",
        package="bm25s",
        settings=f"English stop words, Snowball stemmer, {PREFIXED} split at `_`, {WHOLE}",
        options={"stemmed": True, "prefixed": True},
    ),
    Contender(
        name="numpy",
        adapter="NumpyTools",
        package="numpy",
        settings=f"tools by cosine, {WHOLE}",
    ),
    Contender(
        name="numpy wRRF 1:1",
        adapter="NumpyToolsAndAgents",
        package="numpy",
        settings=f"tools and agents in one list, {READ_TOOLS} read",
    ),
    Contender(
        name="numpy wRRF 1:1 (best)",
        adapter="NumpyToolsAndAgents",
        package="numpy",
        settings=f"the same, {PREFIXED}",
        options={"prefixed": True},
    ),
    Contender(
        name="langgraph-bigtool",
        adapter="BigtoolPeer",
        package="langgraph-bigtool",
        settings="its defaults: 2 tools",
    ),
    Contender(
        name="langgraph-bigtool (best)",
        adapter="BigtoolPeer",
        package="langgraph-bigtool",
        settings=f"`limit={READ_TOOLS}`, {PREFIXED}",
        options={"limit": READ_TOOLS, "prefixed": True},
    ),
    Contender(
        name="fastmcp",
        adapter="FastmcpPeer",
        package="fastmcp",
        settings="`BM25SearchTransform`, its defaults: 5 tools",
    ),
    Contender(
        name="fastmcp (best)",
        adapter="FastmcpPeer",
        package="fastmcp",
        settings=f"`BM25SearchTransform(max_results={READ_TOOLS})`, {PREFIXED}",
        options={"max_results": READ_TOOLS, "prefixed": True},
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
