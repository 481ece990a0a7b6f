"""The datasets on which routing is judged, by family: what is chosen on one is never reported on its kin."""

from collections.abc import Mapping

from benchmarks.world import World
from waygraph_lab.evaluation.dataset import By

Asked = tuple[str, By]
FAMILIES: Mapping[str, Mapping[Asked, tuple[str, ...]]] = {
    "LiveMCPBench": {
        ("livemcpbench", "steps"): ("Recall@1", "Recall@5", "nDCG@5"),
        ("livemcpbench", "questions"): ("Recall@5",),
    },
    "ToolRet_clean": {
        ("a2x/ToolRet_clean", "questions"): ("Recall@5", "Hit@5"),
        ("a2x/ToolRet_clean_CN", "questions"): ("Recall@5", "Hit@5"),
    },
    "publicMCP": {
        ("a2x/publicMCP", "questions"): ("Recall@10", "Hit@10"),
        ("a2x/publicMCP_CN", "questions"): ("Recall@10", "Hit@10"),
    },
    "examples": {("examples", "questions"): ("Recall@5", "nDCG@5")},
}
"""Family → how each dataset of it is asked → the metrics that count, each as much as the next of its family."""


def all_there(world: World) -> bool:
    return all(world.has(name) for asked in FAMILIES.values() for name, _ in asked)
