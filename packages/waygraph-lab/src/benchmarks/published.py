"""Figures that the papers and the data's notes state, to stand beside measured ones."""

from collections.abc import Mapping, Sequence
from itertools import batched
from typing import Any

Figures = Mapping[str, float]


def _figures(names: str, values: str) -> Figures:
    return dict(zip(names.split(), map(float, values.split()), strict=True))


# -- Nizar et al., "Agent-as-a-Graph", on LiveMCPBench with its own gold sets ------------------------------

_TABLE_1 = "Recall@1 Recall@3 Recall@5 mAP@1 mAP@3 mAP@5 nDCG@1 nDCG@3 nDCG@5"
TABLE_1: Mapping[str, Figures] = {
    "BM25": _figures(_TABLE_1, "0.205 0.20 0.20 0.12 0.12 0.12 0.14 0.14 0.14"),
    "Q.Retrieval": _figures(_TABLE_1, "0.31 0.47 0.56 0.31 0.31 0.24 0.310 0.35 0.32"),
    "MCP-Zero": _figures(_TABLE_1, "0.44 0.66 0.70 0.45 0.39 0.31 0.45 0.46 0.41"),
    "ScaleMCP": _figures(_TABLE_1, "0.49 0.68 0.74 0.49 0.40 0.29 0.49 0.48 0.40"),
    "Algorithm 1 (1, 1)": _figures(_TABLE_1, "0.53 0.80 0.85 0.53 0.46 0.35 0.53 0.55 0.47"),
}
"""By text-embedding-ada-002. The columns are those of the table's header; its caption says 1, 5, 10."""

_TABLE_2 = "Recall@5 nDCG@5 mAP@5"


def _model(algorithm_1: str, mcp_zero: str) -> Mapping[str, Figures]:
    return {"Algorithm 1": _figures(_TABLE_2, algorithm_1), "MCP-Zero": _figures(_TABLE_2, mcp_zero)}


TABLE_2: Mapping[str, Mapping[str, Figures]] = {
    "Vertex AI text-embedding-005": _model("0.87 0.48 0.36", "0.74 0.42 0.32"),
    "Gemini-embedding-001": _model("0.86 0.49 0.37", "0.74 0.44 0.34"),
    "Amazon titan-embed-text-v2": _model("0.85 0.47 0.35", "0.66 0.37 0.28"),
    "Amazon titan-embed-text-v1": _model("0.85 0.48 0.36", "0.65 0.39 0.3"),
    "OpenAI text-embedding-ada-002": _model("0.83 0.5 0.39", "0.7 0.4 0.3"),
    "OpenAI text-embedding-3-small": _model("0.87 0.49 0.36", "0.72 0.41 0.31"),
    "OpenAI text-embedding-3-large": _model("0.87 0.5 0.38", "0.74 0.42 0.32"),
    "All-MiniLM-L6-v2": _model("0.8 0.45 0.33", "0.67 0.39 0.29"),
}

_TABLE_3 = "Recall@5 mAP@5 nDCG@5"


def _weights(algorithm_1: str, standard_wrrf: str) -> Mapping[str, Figures]:
    return {"Algorithm 1": _figures(_TABLE_3, algorithm_1), "standard wRRF": _figures(_TABLE_3, standard_wrrf)}


TABLE_3: Mapping[tuple[float, float], Mapping[str, Figures]] = {
    (1, 3): _weights("0.8 0.33 0.44", "0.79 0.34 0.45"),
    (1, 2): _weights("0.8 0.33 0.44", "0.8 0.33 0.45"),
    (1, 1.5): _weights("0.8 0.33 0.44", "0.8 0.34 0.45"),
    (1, 1): _weights("0.83 0.34 0.46", "0.79 0.33 0.44"),
    (1.5, 1): _weights("0.85 0.35 0.47", "0.79 0.33 0.44"),
    (2, 1): _weights("0.82 0.33 0.44", "0.8 0.34 0.45"),
    (3, 1): _weights("0.76 0.32 0.43", "0.8 0.34 0.45"),
}
"""Weights are (agent, tool); by text-embedding-ada-002."""

# -- another implementation on this project's gold sets, all-MiniLM-L6-v2 in float32 (the data's README) ---

_REFERENCE = "Recall@1 Recall@3 Recall@5 nDCG@5"
REFERENCE: Mapping[str, Figures] = {
    "Q.Retrieval": _figures(_REFERENCE, ".505 .660 .710 .615"),
    "MCP-Zero": _figures(_REFERENCE, ".630 .700 .710 .677"),
    "ScaleMCP": _figures(_REFERENCE, ".644 .769 .816 .739"),
    "Algorithm 1, N together (1, 1)": _figures(_REFERENCE, ".672 .778 .821 .753"),
    "Algorithm 1, N together (1.5, 1)": _figures(_REFERENCE, ".575 .705 .788 .687"),
    "Algorithm 1, N together (3, 1)": _figures(_REFERENCE, ".519 .679 .748 .640"),
    "standard wRRF (1, 1)": _figures(_REFERENCE, ".616 .759 .809 .724"),
}
"""N = 100 nodes of both kinds together."""

# -- the A2X paper, its section 4.4 ------------------------------------------------------------------------

A2X_VECTORS: Mapping[str, Figures] = {
    "ToolRet_clean": _figures("Hit@5 Recall@5", ".691 .618"),
    "publicMCP": _figures("Hit@10 Recall@10", ".78 .505"),
    "ToolRet_clean_CN": _figures("Hit@5", ".609"),
}
"""Its best vector baseline: all-MiniLM-L6-v2 on the English sets; BGE-M3 on the Chinese one, by the difference to its
own method that section 4.4 states."""
A2X_TAXONOMY: Mapping[str, Figures] = {
    "ToolRet_clean": _figures("Hit Recall Precision", ".926 .892 .162"),
    "publicMCP": _figures("Hit Recall Precision", "1.00 .949 .105"),
    "ToolRet_clean_CN": _figures("Hit Precision", ".903 .120"),
    "publicMCP_CN": _figures("Precision", ".099"),
}
"""Its own method: an LLM walks a taxonomy and returns as many services as it likes, so there is no K.
Precision is of its section Limitations."""
A2X_SIZES: Mapping[str, int] = {"ToolRet_clean": 7, "publicMCP": 25}
"""How many services it returned a query, by its figures: right ones of a query (1.34, 2.78) × recall / precision."""
A2X_BUILDS: Mapping[str, Mapping[str, Any]] = {
    "break-even": {
        "build calls": 18_206,
        "build tokens": 29_000_000,
        "full context, tokens": 67_619,
        "walk, calls": 8.0,
        "walk, tokens": 7_069,
        "break-even, queries": round(29_000_000 / (67_619 - 7_069)),
    },
    "one shot": {"calls": 1_840, "tokens": 5_500_000, "leaves": 160, "placed": 1_715},
    "one shot, keyword table": {"tokens": 2_200_000},
    "one shot, refinement": {"tokens": 12_200_000},
    "one shot, one axis": {"tokens": 6_700_000},
}
"""Sections D.2 and E.2, on ToolRet. It says itself "fewer than 4,100 queries"."""

# -- Lumer et al., "ScaleMCP" (2025), Tables A5 and A7, of which 2 and 4 are parts ---------------------------

DEPTHS = (1, 5, 10)
METRICS = ("nDCG", "Recall", "mAP")
VERTEX, LARGE = "VertexAI text-embedding-005", "OpenAI text-embedding-3-large"
CROSS, LLM = "vector + cross-encoder", "vector + LLM"
"""Vector search with a reranker behind it: of the paper Cohere's v3-english, and GPT-4o."""
Reported = tuple[str, Mapping[str, float]]


def _reported(model: str, values: Sequence[float]) -> Reported:
    names = [f"{metric}@{depth}" for depth in DEPTHS for metric in METRICS]
    return model, dict(zip(names, values, strict=True))


SCALEMCP: Mapping[tuple[str, str, str, int], Reported] = {
    ("2", "vector", "concat", 0): _reported(VERTEX, (0.92, 0.51, 0.51, 0.63, 0.87, 0.51, 0.46, 0.88, 0.30)),
    ("2", "vector", "concat", 5): _reported(VERTEX, (0.94, 0.51, 0.51, 0.64, 0.87, 0.51, 0.46, 0.92, 0.28)),
    ("2", "vector", "concat", 10): _reported(VERTEX, (0.96, 0.53, 0.53, 0.65, 0.91, 0.51, 0.50, 0.95, 0.32)),
    ("2", "BM25", "", 0): _reported(VERTEX, (0.54, 0.33, 0.33, 0.42, 0.58, 0.32, 0.33, 0.63, 0.21)),
    ("2", "BM25", "", 5): _reported(VERTEX, (0.56, 0.32, 0.32, 0.49, 0.65, 0.40, 0.35, 0.69, 0.22)),
    ("2", "BM25", "", 10): _reported(VERTEX, (0.64, 0.38, 0.38, 0.52, 0.66, 0.44, 0.36, 0.68, 0.23)),
    ("2", "hybrid", "concat", 0): _reported(VERTEX, (0.74, 0.41, 0.41, 0.58, 0.75, 0.47, 0.39, 0.78, 0.24)),
    ("2", "hybrid", "concat", 5): _reported(VERTEX, (0.80, 0.45, 0.45, 0.59, 0.78, 0.47, 0.39, 0.79, 0.23)),
    ("2", "hybrid", "concat", 10): _reported(VERTEX, (0.80, 0.44, 0.44, 0.63, 0.83, 0.51, 0.44, 0.86, 0.28)),
    ("4", "vector", "concat", 10): _reported(LARGE, (0.94, 0.52, 0.52, 0.634, 0.912, 0.499, 0.449, 0.933, 0.265)),
    ("4", "vector", "TDWA var-1", 10): _reported(LARGE, (0.86, 0.489, 0.489, 0.631, 0.886, 0.504, 0.431, 0.89, 0.255)),
    ("4", "vector", "TDWA var-2", 10): _reported(LARGE, (0.9, 0.509, 0.509, 0.62, 0.891, 0.485, 0.447, 0.899, 0.273)),
    ("4", "BM25", "", 10): _reported("", (0.64, 0.382, 0.382, 0.492, 0.674, 0.396, 0.354, 0.691, 0.22)),
    ("2", CROSS, "concat", 0): _reported(VERTEX, (0.86, 0.47, 0.47, 0.65, 0.87, 0.53, 0.46, 0.88, 0.30)),
    ("2", CROSS, "concat", 5): _reported(VERTEX, (0.86, 0.47, 0.47, 0.64, 0.88, 0.52, 0.46, 0.92, 0.28)),
    ("2", CROSS, "concat", 10): _reported(VERTEX, (0.88, 0.47, 0.47, 0.67, 0.90, 0.54, 0.50, 0.95, 0.32)),
    ("2", LLM, "concat", 0): _reported(VERTEX, (0.88, 0.49, 0.49, 0.67, 0.87, 0.56, 0.47, 0.88, 0.31)),
    ("2", LLM, "concat", 5): _reported(VERTEX, (0.88, 0.49, 0.49, 0.68, 0.90, 0.55, 0.46, 0.92, 0.28)),
    ("2", LLM, "concat", 10): _reported(VERTEX, (0.92, 0.51, 0.51, 0.70, 0.94, 0.58, 0.50, 0.95, 0.32)),
    ("4", CROSS, "concat", 10): _reported(LARGE, (0.86, 0.465, 0.465, 0.642, 0.896, 0.51, 0.449, 0.933, 0.265)),
    ("4", CROSS, "TDWA var-1", 10): _reported(LARGE, (0.84, 0.455, 0.455, 0.644, 0.855, 0.528, 0.431, 0.89, 0.255)),
    ("4", CROSS, "TDWA var-2", 10): _reported(LARGE, (0.84, 0.455, 0.455, 0.629, 0.839, 0.511, 0.447, 0.899, 0.273)),
    ("4", LLM, "concat", 10): _reported(LARGE, (0.88, 0.485, 0.485, 0.669, 0.906, 0.545, 0.461, 0.933, 0.281)),
    ("4", LLM, "TDWA var-1", 10): _reported(LARGE, (0.92, 0.515, 0.515, 0.638, 0.885, 0.505, 0.429, 0.885, 0.255)),
    ("4", LLM, "TDWA var-2", 10): _reported(LARGE, (0.88, 0.485, 0.485, 0.656, 0.889, 0.528, 0.447, 0.899, 0.273)),
}
"""(table, method, storage, synthetic questions) → embedding model and values."""


_AGENTS: Mapping[str, str] = {
    "GPT 4.1": "39.1 73.2  45 82.4  44.8 85.8",
    "GPT 4.1-mini": "48.5 74.4  53 85.5  52.8 81.1",
    "GPT 4.1-nano": "31.1 75.6  38.4 81.1  31.7 80.6",
    "GPT 4o": "47.9 75.9  51.7 86.5  51.7 83.9",
    "GPT 4o-mini": "49.9 81.2  50.7 86.5  54 86.7",
    "GPT o4-mini": "37.5 84.1  38.6 81.3  40.7 85.6",
    "GPT o3": "36.1 78.9  22.2 88.9  36.1 94.4",
    "Claude 3.7 Sonnet": "23.9 42.9  28.5 73.2  23.1 69.4",
    "Claude 3.5 Sonnet": "13.9 45  29.2 29.6  13.9 44.4",
    "Llama 3.3 70B": "0 48  0 51  0 48.8",
}
"""Of text search, vector search, and that with Cohere's reranker: tool correctness and task completion, in percent."""
FOUND_BY = ("Text Search", "Vector Search", "Vector Search + Cohere Reranker")
SCALEMCP_AGENTS: Mapping[tuple[str, str], tuple[float, float]] = {
    (model, method): (float(correct), float(completed))
    for model, values in _AGENTS.items()
    for method, (correct, completed) in zip(FOUND_BY, batched(values.split(), 2), strict=True)
}
"""(Model, way of finding) → the two, of Table A6, of which Table 3 is a part."""


# -- ToolACE-MCP (../shared/papers/toolace-mcp.txt), and the baselines of the data's own README ----------------

NOISE_LEVELS = ("Multi", "+Mutation", "+LiveMCP")
NOISE_DROPS: Mapping[str, Sequence[float]] = {
    "router, 8B": (0.42, 0.42, 0.84),
    "Gemini-2.5-Pro as router": (0.70, 0.98, 1.68),
    "Qwen3-8B, untrained": (0.84, 1.26, 1.68),
    "MiniLM, query": (0.98, 0.84, 2.10),
    "MiniLM, query and history": (0.70, 0.84, 1.83),
    "ReAct": (5.33, 0.85, 1.69),
}
"""Points of the success of an agent on MCP-Universe, from Clean."""

AGENT_ROUTES = 0.916
"""Figure 3: the router, trained on tools, on the Agent Route Benchmark of 156 calls over more than 40 agents."""

SAME_AGENT: Mapping[str, Figures] = {
    "sgd-train": _figures("A@1 T@1", "0.699 0.576"),
    "sgd-dev": _figures("A@1 T@1", "0.785 0.690"),
    "traject-dev": _figures("A@1 T@1", "0.449 0.141"),
    "api-bank": _figures("A@1 T@1", "0.792 0.569"),
}
"""Bonus for the same agent, last two turns: what history is asked to reach without learnt transitions."""
BEST_COUNTS: Mapping[str, Figures] = {
    "sgd-train": _figures("A@1 T@1 switch", "0.738 0.647 0.629"),
    "sgd-dev": _figures("A@1 T@1 switch", "0.826 0.786 0.800"),
    "traject-dev": _figures("A@1 T@1 switch", "0.551 0.524 0.396"),
    "api-bank": _figures("A@1 T@1 switch", "0.806 0.681 0.680"),
}
"""The best baseline of each set: what it is asked to reach with them."""
