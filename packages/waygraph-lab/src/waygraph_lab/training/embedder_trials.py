"""An embedder learned from data sets, and tried on others: from folders of requests to a folder with a model."""

import json
import shutil
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from waygraph.registry.embedding.factory import OpenedEmbedders
from waygraph.registry.embedding.texts import TextForms, is_latin
from waygraph.registry.embedding.weights import locate
from waygraph.registry.model.errors import EmbedderRefused
from waygraph.registry.model.files import write_atomically
from waygraph.registry.model.nouns import TextForm
from waygraph.registry.model.settings import Settings
from waygraph.registry.routing.recipes import HYBRID
from waygraph_lab.datasets.read_dataset import read_dataset
from waygraph_lab.datasets.trials import Bench, Watching, watch_nothing
from waygraph_lab.evaluation.dataset import Dataset
from waygraph_lab.evaluation.run import Outcome, Trial
from waygraph_lab.training.embedder_training import (
    TUNED,
    Judged,
    Report,
    Training,
    card_of,
    interpolate,
    judge_outcomes,
    make_pairs,
    train,
)

CARD, WORK = "card.json", "work"
"""Beside the model: what it is, and what a training that was stopped goes on with."""
TEXTS: TextForm = "contextual"
MOST_ASKED = 2_000
"""Questions of a data set by which the strength is chosen."""
MOST_LOSS, MOST_FOREIGN_LOSS = 0.01, 0.005
"""What a data set may lose in nDCG@5 beyond chance for the gain of others: in Latin script, in another."""


def learn_embedder(
    folders: Sequence[Path],
    develop: Sequence[Path],
    *,
    base: str,
    training: Training,
    strengths: Sequence[float],
    target: Path,
    settings: Settings,
    environ: Mapping[str, str],
    about: Mapping[str, Any],
    mixed: Sequence[Path] = (),
    device: str = "cpu",
    watching: Watching = watch_nothing,
    report: Report | None = None,
) -> dict[str, Any]:
    """Train on the data sets in `folders`, choose the strength on those in `develop`, and write model and card.

    `mixed`: the targets of former runs, whose trained weights count as much as the new ones. Returns the card. Without
    sets to develop on the strongest is taken. Where none gains, no model is written, and the card's strength is 0.
    Raises InvalidDataset, ModelNotFound, MissingExtra, EmbedderRefused for a base without weights, InvalidSetting if
    `target` holds another training.
    """
    datasets = [read_dataset(folder, settings) for folder in folders]
    developing = [_to_be_asked(read_dataset(folder, settings)) for folder in develop]
    weights, work = locate(base, settings), target / WORK
    with closing(OpenedEmbedders(settings, environ)) as opened:
        embedder = opened.open_for_documents(base).embedder
        if embedder is None:
            raise EmbedderRefused(f"{base!r} is no model to begin with; expected onnx:MODEL")
        with watching("Embedding") as progress:
            forms = TextForms(form=TEXTS, max_chars=settings.max_embedded_chars)
            pairs = make_pairs(datasets, embedder, forms, training, progress)
    learned = [
        train(weights, pairs, training, work, report, device=device),
        *(folder / WORK / TUNED for folder in mixed),
    ]
    bench = Bench(settings=settings, environ=environ, watching=watching)
    judged: dict[float, list[Judged]] = {}
    for strength in strengths if developing else ():
        candidate = interpolate(weights, learned, strength, work / f"{strength:g}")
        judged[strength] = _judge(bench, developing, base, candidate)
        shutil.rmtree(candidate)
    card = card_of(training, datasets, len(pairs), judged, _losses(developing)) | dict(about) | {"base": base}
    card["mixed"] = [json.loads((folder / CARD).read_bytes())["training"] for folder in mixed]
    chosen = card["strength"] = card["strength"] if developing else max(strengths)
    if chosen:
        interpolate(weights, learned, chosen, target)
    write_atomically(target / CARD, json.dumps(card, ensure_ascii=False, indent=1).encode())
    return card


def _losses(developing: Sequence[Dataset]) -> dict[str, float]:
    texts = {dataset.name: "".join(question.need.text for question in dataset.questions) for dataset in developing}
    return {name: MOST_LOSS if is_latin(text) else MOST_FOREIGN_LOSS for name, text in texts.items()}


def _to_be_asked(dataset: Dataset) -> Dataset:
    """Without the questions that come after a call, where other things than texts speak, and `MOST_ASKED` at most."""
    firsts = [each for each in dataset.questions if not any(turn.role == "call" for turn in each.need.history)]
    return replace(dataset, questions=tuple(firsts)).draw(MOST_ASKED)


def _judge(bench: Bench, developing: Sequence[Dataset], base: str, candidate: Path) -> list[Judged]:
    """`hybrid` by both models over every data set, questions and steps."""
    rows: list[Judged] = []
    for dataset in developing:
        specs = (base, f"onnx:{candidate.resolve()}")
        trials = [
            Trial(recipe=HYBRID, by=by, texts=TEXTS, embedder=spec, label=by)
            for by in dataset.usual_bys()
            for spec in specs
        ]
        found: dict[tuple[str, str], Outcome] = {
            (outcome.trial.by, outcome.trial.embedder): outcome for outcome in bench.outcomes(dataset, trials)
        }
        for by in dataset.usual_bys():
            rows += judge_outcomes(dataset.name, *(found[by, spec] for spec in specs))
    return rows
