"""What ScaleMCP (Lumer et al., 2025) reports, to stand beside ours: Tables A5 and A7, of which 2 and 4 are parts."""

from collections.abc import Mapping, Sequence

DEPTHS = (1, 5, 10)
METRICS = ("nDCG", "Recall", "mAP")
VERTEX, LARGE = "VertexAI text-embedding-005", "OpenAI text-embedding-3-large"
Reported = tuple[str, Mapping[str, float]]


def _reported(model: str, values: Sequence[float]) -> Reported:
    names = [f"{metric}@{depth}" for depth in DEPTHS for metric in METRICS]
    return model, dict(zip(names, values, strict=True))


PAPER: Mapping[tuple[str, str, str, int], Reported] = {
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
}
"""(table, method, storage, synthetic questions) → embedding model and values."""
