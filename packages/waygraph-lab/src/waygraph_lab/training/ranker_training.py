"""A ranker over the votes of the legs, learned by LambdaMART. Needs the extra `waygraph-lab[train]`."""

import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from waygraph.registry.model.errors import InvalidDataset, MissingExtra
from waygraph_lab.evaluation.dataset import By, Dataset
from waygraph_lab.evaluation.metrics import Gold, ndcg, recall
from waygraph_lab.training.embedder_training import Judged, choose_strength, describe_data, judge_values
from waygraph_lab.training.ranker import FEATURES, FREE, RankedLevel, Trees, rank_rows

if TYPE_CHECKING:
    from waygraph_lab.training.ranker import Floats

SCALES = (2.0, 5.0, 10.0, 20.0, 40.0)
"""Of the fused score, of which the likeliest is taken."""
STRENGTHS = (0.25, 0.5, 1.0)
"""How far leaves count, of which the best is chosen."""
_FUSED = FEATURES.index("fused score")


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedList:
    """The candidates of a request as fused, best first: their ids and their features, shape (candidates, features).

    `family`: of the data set; what is learned on one is judged on another. `part`: the same of a data set alone, by
    groups of near copies.
    """

    level: RankedLevel
    dataset: str
    by: By
    family: str
    part: str
    ids: tuple[str, ...]
    table: "Floats"
    gold: Gold

    @property
    def right(self) -> list[bool]:
        return [any(each in item for item in self.gold) for each in self.ids]

    def values(self, order: Iterable[int]) -> Mapping[str, float]:
        """The metrics of the candidates in this order."""
        ranked = [self.ids[at] for at in order]
        recalls = {f"Recall@{depth}": recall(ranked, self.gold, depth) for depth in (1, 5)}
        return recalls | {"nDCG@5": ndcg(ranked, self.gold, 5)}


@dataclass(frozen=True, slots=True, kw_only=True)
class RankerTraining:
    """How to train. `most_requests`: of a data set, drawn by the seed."""

    seed: int = 20_261_125
    trees: int = 60
    depth: int = 4
    leaves: int = 12
    rate: float = 0.05
    most_requests: int = 1_000


def fit_trees(lists: Sequence[RankedList], training: RankerTraining) -> Trees:
    """The same for the same lists and training. Raises MissingExtra, and InvalidDataset where nothing can be learned:
    no list holds a right candidate and a wrong one.
    """
    try:
        import lightgbm
    except ImportError as error:
        raise MissingExtra("a ranker", package="lightgbm", extra="train", of="waygraph-lab") from error
    told = [each for each in lists if 0 < sum(each.right) < len(each.ids)]
    if not told:
        raise InvalidDataset(", ".join({each.dataset for each in lists}), "no request has right and wrong candidates")
    table, scale = np.concatenate([each.table for each in told]), _likeliest_scale(told)
    data = lightgbm.Dataset(
        table,
        label=np.concatenate([each.right for each in told]).astype(np.float64),
        group=[len(each.ids) for each in told],
        init_score=scale * table[:, _FUSED],
        feature_name=[f"f{at}" for at in range(len(FEATURES))],
        params={"verbosity": -1, "min_data_in_bin": 1},
    )
    settings = {
        "objective": "lambdarank",
        "learning_rate": training.rate,
        "max_depth": training.depth,
        "num_leaves": training.leaves,
        "min_data_in_leaf": max(1, min(50, len(table) // 50)),
        "lambda_l2": 10.0,
        "feature_fraction": 0.7,
        "monotone_constraints": [1] * FREE + [0] * (len(FEATURES) - FREE),
        "lambdarank_truncation_level": 10,
        "use_missing": False,
        "seed": training.seed,
        "num_threads": 1,
        "deterministic": True,
        "force_row_wise": True,
        "verbosity": -1,
    }
    booster = lightgbm.train(settings, data, num_boost_round=training.trees)
    shapes = [_complete(each["tree_structure"], training.depth) for each in booster.dump_model()["tree_info"]]
    features, thresholds, leaves = zip(*shapes, strict=True)
    return Trees(scale, np.array(features, np.int64), np.array(thresholds), np.array(leaves))


def _likeliest_scale(lists: Sequence[RankedList]) -> float:
    """By which a softmax over the fused scores finds the right candidates likeliest."""

    def likelihood(scale: float) -> float:
        total = 0.0
        for each in lists:
            scores = np.exp(scale * (each.table[:, _FUSED] - each.table[:, _FUSED].max()))
            total += float(np.log(scores[each.right].sum() / scores.sum()))
        return total

    return max(SCALES, key=likelihood)


def _complete(node: Mapping[str, Any], depth: int) -> tuple[list[int], list[float], list[float]]:
    """Features, thresholds and leaves of a tree, its missing nodes such that every value goes left."""
    features, thresholds = [0] * (2**depth - 1), [sys.float_info.max] * (2**depth - 1)
    leaves = [0.0] * 2**depth

    def put(node: Mapping[str, Any], at: int) -> None:
        if at >= len(features):
            leaves[at - len(features)] = node["leaf_value"]
        elif "split_feature" in node:
            features[at], thresholds[at] = node["split_feature"], node["threshold"]
            put(node["left_child"], 2 * at + 1)
            put(node["right_child"], 2 * at + 2)
        else:
            put(node, 2 * at + 1)

    put(node, 0)
    return features, thresholds, leaves


def fit_levels(
    lists: Sequence[RankedList], training: RankerTraining
) -> tuple[dict[RankedLevel, Trees], dict[RankedLevel, float]]:
    """Trees for each level of which there are lists, and how far their leaves count, chosen on lists that they were not
    learned from: at that strength nothing falls beyond chance. Without trees for a level where none gains.

    Raises as `fit_trees`.
    """
    trees: dict[RankedLevel, Trees] = {}
    strengths: dict[RankedLevel, float] = {}
    for level in get_args(RankedLevel):
        if of := [each for each in lists if each.level == level]:
            folds = list(_by_fold(of))
            found = [(fit_trees(others, training), judged) for others, judged in folds if len(folds) > 1]
            rows = {strength: _judge_all(found, strength) for strength in STRENGTHS} if found else {}
            if strength := choose_strength(rows):
                trees[level] = fit_trees(of, training).times(strength)
            strengths[level] = strength
    return trees, strengths


def cross_fit(lists: Sequence[RankedList], training: RankerTraining) -> list[Judged]:
    """Each fold judged by trees that were learned on the others, and their strength chosen. Raises as `fit_trees`."""
    found: list[_Learned] = []
    for others, judged in _by_fold(lists):
        trees, _ = fit_levels(others, training)
        found += [
            (trees.get(level), [each for each in judged if each.level == level]) for level in get_args(RankedLevel)
        ]
    return _judge_all(found, 1.0)


_Learned = tuple[Trees | None, Sequence[RankedList]]


def _by_fold(lists: Sequence[RankedList]) -> Iterator[tuple[list[RankedList], list[RankedList]]]:
    """The others and the fold itself: of each family or, if there is one alone, of its parts."""
    fold: Callable[[RankedList], str] = attrgetter("family" if len({each.family for each in lists}) > 1 else "part")
    for name in sorted(set(map(fold, lists))):
        yield [each for each in lists if fold(each) != name], [each for each in lists if fold(each) == name]


def _judge_all(found: Iterable[_Learned], strength: float) -> list[Judged]:
    """Each list by the trees beside it, their leaves times `strength`, against the fused order."""
    both: defaultdict[tuple[str, By, RankedLevel], list[tuple[Mapping[str, float], Mapping[str, float]]]]
    both = defaultdict(list)
    for trees, lists in found:
        learned = trees.times(strength) if trees else None
        for each in lists:
            fused = range(len(each.ids))
            order = rank_rows(learned, each.table) if learned else fused
            both[each.dataset, each.by, each.level].append((each.values(fused), each.values(order)))
    return [row for (dataset, by, level), of in both.items() for row in judge_values(dataset, by, level, of)]


def card_of(
    training: RankerTraining, datasets: Sequence[Dataset], lists: Sequence[RankedList], judged: Sequence[Judged]
) -> dict[str, Any]:
    """What stands beside the file. `figures`: each data set by trees that were not learned on it, or with one data set
    each fifth of it; `worse`: those of them that fell beyond chance."""
    return {
        "training": asdict(training),
        "lists": len(lists),
        "data": describe_data(datasets),
        "figures": [asdict(row) for row in judged],
        "worse": [asdict(row) for row in judged if row.is_worse],
    }
