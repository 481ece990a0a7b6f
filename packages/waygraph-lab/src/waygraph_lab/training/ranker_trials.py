"""A ranker learned from data sets: from folders of requests to a file and its card."""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from waygraph.ingest.sync.apply import sync
from waygraph.registry.model.errors import InvalidDataset, InvalidSetting
from waygraph.registry.model.files import write_atomically
from waygraph.registry.model.nouns import Query, TextForm
from waygraph.registry.model.settings import Settings
from waygraph.registry.model.transitions import count_transitions
from waygraph.registry.operators.transition_counts import forget_transitions, learn_transitions
from waygraph.registry.routing.recipes import HYBRID
from waygraph.registry.storage.local_registry import LocalRegistry
from waygraph_lab.datasets.read_dataset import read_dataset
from waygraph_lab.datasets.trials import Watching, watch_nothing
from waygraph_lab.evaluation.dataset import By, Dataset, Need, Question
from waygraph_lab.evaluation.run import DEPTH
from waygraph_lab.training.ranker import Ranker, read_features
from waygraph_lab.training.ranker_training import RankedList, RankerTraining, card_of, cross_fit, fit_levels

TEXTS: TextForm = "contextual"
FOLDS = 5
"""Of a data set's groups: its transitions are counted on others than they are read on."""
LEARNED_AT = "2026-01-01T00:00:00+00:00"
"""When transitions count as seen: all at once, so none of them fades."""


def learn_ranker(
    folders: Sequence[Path],
    *,
    training: RankerTraining,
    target: Path,
    embedder: str,
    settings: Settings,
    environ: Mapping[str, str],
    about: Mapping[str, Any],
    watching: Watching = watch_nothing,
) -> dict[str, Any]:
    """Ask every data set by `hybrid`, learn from what is right, and write the ranker to `target` and its card beside.

    Returns the card; its figures are of trees that did not learn from what they are judged on. Where none gains, no
    ranker is written, and the card's version is empty. Raises InvalidDataset, MissingExtra, InvalidSetting without a
    model for vectors.
    """
    datasets = [read_dataset(folder, settings) for folder in folders]
    lists: list[RankedList] = []
    fingerprint = ""
    for dataset in datasets:
        with LocalRegistry.open(
            ":memory:", embedder=embedder or None, settings=_with_room(settings), environ=environ
        ) as registry:
            drawn = dataset.draw(training.most_requests, seed=training.seed)
            lists += rank_requests(registry, dataset, drawn.questions, watching)
            if not (fingerprint := registry.status().state.embedder):
                raise InvalidSetting(f"a ranker is learned from votes of vectors: {registry.notice}")
    judged = cross_fit(lists, training)
    levels, strengths = fit_levels(lists, training)
    ranker = Ranker(name=target.stem, embedder=fingerprint, texts=TEXTS, levels=levels)
    card = {"version": ranker.version if levels else "", "embedder": fingerprint, "texts": TEXTS, "recipe": HYBRID.name}
    card |= card_of(training, datasets, lists, judged) | {"strengths": strengths} | dict(about)
    if levels:
        write_atomically(target, ranker.content())
    write_atomically(card_path(target), json.dumps(card, ensure_ascii=False, indent=1).encode())
    return card


def card_path(target: Path) -> Path:
    return target.with_name(f"{target.stem}.card.json")


def _with_room(settings: Settings) -> Settings:
    return replace(settings, query_cache_entries=max(settings.query_cache_entries, 2_000))


def rank_requests(
    registry: LocalRegistry,
    dataset: Dataset,
    questions: Sequence[Question],
    watching: Watching,
    *,
    learning: bool = True,
) -> list[RankedList]:
    """What `hybrid` finds for the questions and their steps; the empty registry is filled with the catalogue.

    `learning`: four fifths of the questions know transitions, counted on conversations of other groups than their own.
    Raises InvalidDataset without a request that can be judged.
    """
    with watching("Embedding") as progress:
        sync(registry, dataset.catalogue, texts=TEXTS, progress=progress)
    counts = {entry.agent.id: len(entry.tools) for entry in dataset.catalogue.entries}
    conversations = _conversations(dataset.questions) if learning else {}
    folds: defaultdict[int, list[Question]] = defaultdict(list)
    for question in questions:
        folds[_fold(question)].append(question)
    lists: list[RankedList] = []
    with watching(f"Routing {dataset.name}") as progress:
        done = 0
        for fold, of in sorted(folds.items()):
            if conversations:
                others = [calls for at, each in conversations.items() if at != fold for calls in each]
                _learn(registry, others if fold else ())
            for question in of:
                lists += _rank(registry, dataset.name, question, counts)
                done += 1
                if progress:
                    progress(done, len(questions))
    if not lists:
        raise InvalidDataset(dataset.name, "has no request with a right agent or tool to learn from")
    return lists


def _fold(question: Question) -> int:
    return int(sha256((question.group or question.id).encode()).hexdigest(), 16) % FOLDS


def _conversations(questions: Iterable[Question]) -> dict[int, list[list[str]]]:
    """Fold → the calls of each conversation, whose decisions' ids differ in what follows the last point."""
    longest: dict[str, tuple[int, list[str]]] = {}
    for question in questions:
        calls = [turn.tool for turn in question.need.history if turn.role == "call"]
        if question.group and question.need.gold_tools:
            longest[question.id.rpartition(".")[0]] = (_fold(question), [*calls, min(question.need.gold_tools[0])])
    found: dict[int, list[list[str]]] = {}
    for fold, calls in longest.values():
        found.setdefault(fold, []).append(calls)
    return found


def _learn(registry: LocalRegistry, conversations: Iterable[Sequence[str]]) -> None:
    """In place of what was learned before."""
    counts = count_transitions(conversations, LEARNED_AT)
    registry.change(forget_transitions)
    registry.change(lambda session: learn_transitions(session, counts))


def _rank(registry: LocalRegistry, dataset: str, question: Question, counts: Mapping[str, int]) -> Iterator[RankedList]:
    yield from rank_need(registry, dataset, question.need, "questions", counts, part=str(_fold(question)))
    for step in question.steps:
        yield from rank_need(registry, dataset, step, "steps", counts, part=str(_fold(question)))


def rank_need(
    registry: LocalRegistry, dataset: str, need: Need, by: By, counts: Mapping[str, int], *, part: str
) -> Iterator[RankedList]:
    """The agents and, where right ones are known, the tools that `hybrid` finds; none where nothing can be judged."""
    query = Query(text=need.text, history=need.history, limit=DEPTH)
    common: dict[str, Any] = {"dataset": dataset, "family": dataset, "by": by, "part": part}
    if need.gold and (agents := registry.route(query, recipe=HYBRID).matches):
        table = read_features(agents, counts, need.text, need.history)
        ids = tuple(match.agent.id for match in agents)
        yield RankedList(level="agents", ids=ids, table=table, gold=need.gold, **common)
    if need.gold_tools and (tools := registry.find_tools(query, recipe=HYBRID).matches):
        table = read_features(tools, counts, need.text, need.history)
        ids = tuple(match.tool.id for match in tools)
        yield RankedList(level="tools", ids=ids, table=table, gold=need.gold_tools, **common)
