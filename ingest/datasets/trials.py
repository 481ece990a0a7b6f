"""Trials on a dataset: a registry in memory for each embedder and form of texts, and every trial over it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from itertools import groupby

from waygraph.ingest.sync.apply import sync
from waygraph.registry.evaluation.dataset import Dataset
from waygraph.registry.evaluation.run import Outcome, Progress, Trial, run
from waygraph.registry.model.nouns import TextForm
from waygraph.registry.model.settings import Settings
from waygraph.registry.registry import Registry

Watching = Callable[[str], AbstractContextManager[Progress | None]]
"""Who watches a part of the work, by its name."""


MOST_VECTORS = 100_000
"""Of queries, kept in memory: 150 MB at 384 numbers each."""
_READINGS = 2
"""A text is embedded with its URLs and paths as they stand, or as the kind of thing they are: as the recipe says."""


def watch_nothing(part: str) -> AbstractContextManager[None]:  # noqa: ARG001
    return nullcontext()


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """Where trials are run."""

    settings: Settings
    environ: Mapping[str, str]
    watching: Watching = watch_nothing

    def outcomes(self, dataset: Dataset, trials: Sequence[Trial]) -> Iterator[Outcome]:
        """Those over one registry together, else in the order of the trials.

        Raises InvalidDataset, before anything is embedded, if a trial has nothing to be judged by.
        """
        for trial in trials:
            dataset.check_asked(trial.by, split=trial.split)
        settings = _with_room_for(dataset, self.settings)
        for (embedder, texts), group in groupby(sorted(trials, key=_registry_of), key=_registry_of):
            opened = Registry.open(":memory:", embedder=embedder or None, settings=settings, environ=self.environ)
            with opened as registry:
                with self.watching("Embedding") as progress:
                    sync(registry, dataset.catalogue, texts=texts, progress=progress)
                yield from (self._outcome(registry, dataset, trial) for trial in group)

    def _outcome(self, registry: Registry, dataset: Dataset, trial: Trial) -> Outcome:
        asked = dataset.queries(trial.by, split=trial.split)
        with self.watching(f"{trial.name}, {trial.by}") as progress:
            return run(registry, trial, asked, progress)


def _with_room_for(dataset: Dataset, settings: Settings) -> Settings:
    """A cache that keeps every query's vectors: trials over one registry embed no reading of a text twice.

    Of a dataset with more than `MOST_VECTORS` of them each trial embeds them anew.
    """
    texts = _READINGS * sum(1 + len(question.steps) for question in dataset.questions)
    return replace(settings, query_cache_entries=max(settings.query_cache_entries, min(texts, MOST_VECTORS)))


def _registry_of(trial: Trial) -> tuple[str, TextForm]:
    return trial.embedder, trial.texts
