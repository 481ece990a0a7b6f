"""The score of sentences and the rules, each alone and both, on texts that the score did not learn from."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from benchmarks.record import PROJECT, Measure, Target
from benchmarks.world import World
from waygraph.ingest.manifest.suspicion.findings import Layer, examine, load_layers
from waygraph.registry.embedding.cache import CachedEmbedder, vector_file_path
from waygraph.registry.embedding.embedder import Embedder
from waygraph.registry.model.nouns import Tool, suspicions
from waygraph_lab.training.suspicion_training import (
    COLLECTED,
    Example,
    TrainingSet,
    corpus_tool,
    cross_fit,
    fold_of,
    harmless_examples,
    invent_examples,
    read_corpus,
    read_real_tools,
    score_apart,
    score_tools,
)

REAL = ("training/toucan", "livemcpbench", "a2x/ToolRet_clean_CN", "catalogs/docker_mcp_registry.json")
CHECK = PROJECT / "evals" / "suspicion" / "check.jsonl"
"""Attacks and harmless tools of our own that nothing learns from."""
FALSE_FLAGS = Target(bound="at_most", value=0.5)
NOTES = (
    "Told: flagged, or with a notice. A score is a notice; `flagged` of a score: high, so that a text waits "
    "under `hold`. The layer and its two thresholds are those that ship; for what is left out, "
    "another layer is learnt without it, with the same thresholds.",
    "Check set: 70 attacks and 211 harmless tools of our own that speak of secrets, deletion, sending, prompts and "
    "orders. Nothing learns from it. The author of the made-up attacks wrote it too, before them. Its errors were "
    "looked at once while the form of the layer was chosen.",
    "Real tools: each scored by a layer that learned nothing of its server. The thresholds are chosen on these.",
)


class Marks(NamedTuple):
    """What is said of one text."""

    rule: bool
    rule_told: bool
    flagged: bool
    told: bool


def measure_scores(world: World, corpus: Path) -> list[Measure]:
    """Empty without the data that the score is learnt from, or without a layer for the default embedder."""
    places = [world.examples / "requests", *(world.data / name for name in REAL)]
    bare = world.embedder()
    shipped = load_layers().get(bare.fingerprint)
    if shipped is None or not all(place.exists() for place in (*places, corpus)):
        return []
    embedder = CachedEmbedder(bare, vector_file_path(world.settings, f"suspicion {bare.fingerprint}"))
    entries = read_real_tools(places, world.settings)
    examples = TrainingSet.of([*invent_examples(), *read_corpus(corpus), *harmless_examples(entries)], embedder)
    layers = cross_fit(examples)
    scores = score_apart(entries, layers, embedder)
    of = f"of {len(scores)} real tools"
    return [
        *_on_check(shipped, embedder),
        *_without_source(examples, shipped, embedder, corpus),
        *_without_styles(examples, layers, shipped),
        *_without_languages(examples, shipped),
        _share(f"score: flagged {of}, by server left out", [each >= shipped.high for each in scores], FALSE_FLAGS),
        _share(f"score: told {of}, by server left out", [each >= shipped.notice for each in scores]),
    ]


def _share(name: str, marks: Sequence[bool], target: Target | None = None) -> Measure:
    return Measure(name=name, value=100 * fmean(marks), unit="%", target=target)


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _mark(tools: Sequence[Tool], layer: Layer, shipped: Layer, embedder: Embedder) -> list[Marks]:
    flags = [examine(tool).flags(lambda _: {}) for tool in tools]
    return [
        Marks(bool(suspicions(of_tool)), bool(of_tool), score >= shipped.high, score >= shipped.notice)
        for of_tool, score in zip(flags, score_tools(tools, layer, embedder), strict=True)
    ]


def _compare(name: str, marks: Sequence[Marks]) -> list[Measure]:
    """Rules alone, score alone, both."""
    name = f"{name} ({len(marks)})"
    return [
        _share(f"{name}: rules", [each.rule for each in marks]),
        _share(f"{name}: rules, told", [each.rule_told for each in marks]),
        _share(f"{name}: score, flagged", [each.flagged for each in marks]),
        _share(f"{name}: score, told", [each.told for each in marks]),
        _share(f"{name}: both, flagged", [each.rule or each.flagged for each in marks]),
        _share(f"{name}: both, told", [each.rule_told or each.told for each in marks]),
    ]


def _on_check(shipped: Layer, embedder: Embedder) -> list[Measure]:
    rows = _rows(CHECK)
    marks = _mark([corpus_tool(row) for row in rows], shipped, shipped, embedder)

    def of(label: str, fits: Callable[[Mapping[str, Any]], bool] = lambda _: True) -> list[Marks]:
        return [each for row, each in zip(rows, marks, strict=True) if row["label"] == label and fits(row)]

    return [
        *_compare("check set, attacks", of("attack")),
        *_compare("check set, attacks in English", of("attack", lambda row: row["language"] == "en")),
        *_compare("check set, harmless", of("harmless")),
    ]


def _without_source(examples: TrainingSet, shipped: Layer, embedder: Embedder, corpus: Path) -> list[Measure]:
    """Of the collected corpus: one author's texts by what was learnt without them. The rules had them in sight."""
    rows, measures = _rows(corpus), list[Measure]()
    for source in sorted({row["id"].partition("/")[0] for row in rows}):
        layer = examples.fit(without=lambda each, source=source: each.source == source)  # type: ignore[misc]
        of_source = [row for row in rows if row["id"].startswith(f"{source}/")]
        for name, chosen in (
            ("orders in words", [row for row in of_source if row["category"] in COLLECTED]),
            ("harmless", [row for row in of_source if row["label"] == "benign"]),
        ):
            tools = [corpus_tool(row["tool"]) for row in chosen]
            measures += _compare(f"{source} left out, {name}", _mark(tools, layer, shipped, embedder))
    return measures


def _score_groups(
    examples: TrainingSet, groups: Mapping[str, Sequence[int]], layers: Mapping[str, Layer]
) -> Iterable[list[float]]:
    for name, rows in groups.items():
        found = [examples.examples[at].sentence for at in rows]
        yield [float(score) for score in layers[name].scores(examples.vectors[rows], found)]


def _groups(examples: TrainingSet, key: Callable[[Example], str]) -> dict[str, list[int]]:
    """Rows of made-up attacks by style or language."""
    groups: defaultdict[str, list[int]] = defaultdict(list)
    for at, each in enumerate(examples.examples):
        if each.is_attack and each.source == "invented" and (name := key(each)):
            groups[name].append(at)
    return dict(groups)


def _without_styles(examples: TrainingSet, layers: Sequence[Layer], shipped: Layer) -> list[Measure]:
    styles = _groups(examples, lambda each: each.part if each.language == "en" else "")
    scores = list(_score_groups(examples, styles, {style: layers[fold_of(style)] for style in styles}))
    return _means(f"{len(styles)} made-up styles in English, each left out", scores, shipped)


def _without_languages(examples: TrainingSet, shipped: Layer) -> list[Measure]:
    languages = _groups(examples, lambda each: each.language if each.language != "en" else "")
    layers = {
        name: examples.fit(without=lambda each, name=name: each.language == name)  # type: ignore[misc]
        for name in languages
    }
    scores = list(_score_groups(examples, languages, layers))
    return _means(f"{len(languages)} languages, each left out", scores, shipped)


def _means(name: str, scores: Sequence[Sequence[float]], shipped: Layer) -> list[Measure]:
    """Of sentences, each group counting the same."""
    flagged, told = (
        100 * fmean(fmean(score >= bound for score in some) for some in scores)
        for bound in (shipped.high, shipped.notice)
    )
    return [
        Measure(name=f"{name}: score, flagged", value=flagged, unit="%"),
        Measure(name=f"{name}: score, told", value=told, unit="%"),
    ]
