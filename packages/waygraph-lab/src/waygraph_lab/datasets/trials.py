"""Trials on a dataset: a registry in memory for each embedder and form of texts, and every trial over it."""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from pathlib import Path

import anyio
from anyio import to_thread

from waygraph.ingest.execution.executor import open_executor
from waygraph.ingest.manifest.environment import Surroundings
from waygraph.ingest.manifest.records import MAX_QUESTIONS
from waygraph.ingest.pipeline import Asking, Ingestion, ask_servers, open_given
from waygraph.ingest.sources.opening import Opening
from waygraph.ingest.sync.apply import sync
from waygraph.registry.language_model.endpoint import ENDPOINT, ChatModel, is_configured
from waygraph.registry.model.errors import InvalidDataset, InvalidSetting, LanguageModelError, LanguageModelRefused
from waygraph.registry.model.nouns import Agent, TextForm, Tool
from waygraph.registry.model.settings import Settings
from waygraph.registry.routing.recipes import recipe_named
from waygraph.registry.storage.local_registry import LocalRegistry
from waygraph_lab.datasets.agent_loop import AgentLoop
from waygraph_lab.evaluation.agents import AgentOutcome, AgentTrial, Attempt, judge_attempt
from waygraph_lab.evaluation.dataset import Asked, Dataset
from waygraph_lab.evaluation.run import Outcome, Progress, Trial, run

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
            opened = LocalRegistry.open(":memory:", embedder=embedder or None, settings=settings, environ=self.environ)
            with opened as registry:
                with self.watching("Embedding") as progress:
                    sync(registry, dataset.catalogue, texts=texts, progress=progress)
                yield from (self._outcome(registry, dataset, trial) for trial in group)

    def _outcome(self, registry: LocalRegistry, dataset: Dataset, trial: Trial) -> Outcome:
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


RECIPES: tuple[str, ...] = ("lexical", "tools", "hybrid")
"""The paper's text search and vector search, and this product's default."""


def agent_trials(
    models: Sequence[str],
    recipes: Sequence[str],
    *,
    rerank: str,
    texts: TextForm,
    judge: str,
    limit: int,
    turns: int,
    environ: Mapping[str, str],
) -> list[AgentTrial]:
    """Every model by every recipe; no recipe: `RECIPES`.

    Raises InvalidSetting without an endpoint or for texts that a recipe is not made for, UnknownRecipe.
    """
    if not is_configured(environ):
        raise InvalidSetting(f"no endpoint of a language model is configured: set {' and '.join(ENDPOINT)}")
    chosen = [recipe_named(name, rerank=rerank) for name in recipes or RECIPES]
    for recipe in chosen:
        if not recipe.takes(texts) or not recipe.ranks_tools:
            raise InvalidSetting(f"{recipe.name} finds no tools over {texts} texts")
    return [
        AgentTrial(recipe=recipe, texts=texts, model=model, judge=judge, limit=limit, turns=turns)
        for model in models
        for recipe in chosen
    ]


def choose_tasks(dataset: Dataset, *, split: str, count: int) -> tuple[Asked, ...]:
    """At most `count` questions that name right tools, spread evenly over the split. Raises InvalidDataset."""
    dataset.check_asked("questions", split=split)
    tasks = [asked for asked in dataset.queries("questions", split=split) if asked.gold_tools]
    if not tasks:
        raise InvalidDataset(dataset.name, "has no questions with right tools")
    count = min(count, len(tasks))
    return tuple(tasks[place * len(tasks) // count] for place in range(count))


@dataclass(frozen=True, slots=True)
class DatasetQuestions:
    """The synthetic questions that a dataset states of its tools, which no server tells. Implements QuestionAuthor."""

    by_tool: Mapping[str, tuple[str, ...]]

    @classmethod
    def of(cls, dataset: Dataset) -> "DatasetQuestions":
        return cls({tool.id: tool.questions for entry in dataset.catalogue.entries for tool in entry.tools})

    def questions(self, agent: Agent, tool: Tool, count: int) -> tuple[str, ...]:  # noqa: ARG002 - of the protocol
        return self.by_tool.get(tool.id, ())[:count]

    def close(self) -> None:
        """Nothing is open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentBench:
    """Where models are tried. `at_once`: tasks under way at a time."""

    settings: Settings
    environ: Mapping[str, str]
    embedder: str = ""
    at_once: int = 4
    watching: Watching = watch_nothing

    def outcomes(
        self, dataset: Dataset, servers: Path, tasks: Sequence[Asked], trials: Sequence[AgentTrial]
    ) -> Iterator[AgentOutcome]:
        """In the order of the trials. `servers`: the configuration by which the dataset's agents are reached.

        What is reached is trusted for this run alone. Raises InvalidDataset if a server does not answer or a right
        tool is not offered, LanguageModelError if no task of a trial got an answer.
        """
        with tempfile.TemporaryDirectory() as folder:
            settings = replace(self.settings, data_dir=folder)
            for texts in dict.fromkeys(trial.texts for trial in trials):
                embedder = self.embedder or None
                with LocalRegistry.open(
                    ":memory:", embedder=embedder, settings=settings, environ=self.environ
                ) as registry:
                    self._fill(registry, dataset, servers, texts)
                    _refuse_missing(registry, tasks)
                    for trial in trials:
                        if trial.texts == texts:
                            yield self._outcome(registry, trial, tasks)

    def _fill(self, registry: LocalRegistry, dataset: Dataset, servers: Path, texts: TextForm) -> None:
        surroundings = Surroundings.here(self.environ)
        ask = partial(ask_servers, registry.settings)
        opening = Opening(settings=registry.settings, registry=registry.store.place, surroundings=surroundings, ask=ask)
        asking = Asking(count=MAX_QUESTIONS, author=DatasetQuestions.of(dataset))
        ingestion = Ingestion(opening=opening, texts=texts, asking=asking)
        with self.watching("Embedding") as progress:
            for ingested in ingestion.ingest(registry, open_given(servers, opening), progress):
                for rejected in ingested.report.changes.rejected[:1]:
                    raise InvalidDataset(rejected.where, rejected.reason)

    def _outcome(self, registry: LocalRegistry, trial: AgentTrial, tasks: Sequence[Asked]) -> AgentOutcome:
        with self.watching(f"{trial.model}, {trial.recipe.name}") as progress:
            attempts = anyio.run(self._attempts, registry, trial, tasks, progress)
        if all(attempt.ending == "failed" for attempt in attempts):
            raise LanguageModelRefused(f"no task got an answer: {attempts[0].fault}")
        return AgentOutcome(trial=trial, attempts=tuple(attempts), fingerprint=registry.status().state.embedder)

    async def _attempts(
        self, registry: LocalRegistry, trial: AgentTrial, tasks: Sequence[Asked], progress: Progress | None
    ) -> list[Attempt]:
        attempts: dict[int, Attempt] = {}
        places = anyio.CapacityLimiter(self.at_once)
        surroundings = Surroundings.here(self.environ)

        async def attempt(place: int) -> None:
            async with places:
                attempts[place] = await _judge_answer(await loop.attempt(tasks[place]), judge)
                if progress:
                    progress(len(attempts), len(tasks))

        with ExitStack() as stack:
            model = stack.enter_context(closing(self._model(trial.model)))
            judge = stack.enter_context(closing(self._model(trial.judge))) if trial.judge else None
            async with open_executor(registry, registry.settings, surroundings) as executor:
                loop = AgentLoop(registry=registry, caller=executor, model=model, trial=trial)
                async with anyio.create_task_group() as group:
                    for place in range(len(tasks)):
                        group.start_soon(attempt, place)
        return [attempts[place] for place in range(len(tasks))]

    def _model(self, name: str) -> ChatModel:
        return ChatModel.open(name, self.settings, self.environ)


async def _judge_answer(attempt: Attempt, judge: ChatModel | None) -> Attempt:
    """With the judge's score, if there is a judge who gives one; a task without an answer scores 0 unread."""
    if judge is None:
        return attempt
    if attempt.ending != "answered":
        return replace(attempt, completion=0.0)
    try:
        return replace(attempt, completion=await to_thread.run_sync(judge_attempt, judge, attempt))
    except LanguageModelError:
        return attempt


def _refuse_missing(registry: LocalRegistry, tasks: Sequence[Asked]) -> None:
    offered = {tool.id for tool in registry.tools()}
    for task in tasks:
        for item in task.gold_tools:
            if item.isdisjoint(offered):
                raise InvalidDataset(task.id, f"no server offers the right tool {sorted(item)[0]!r}")
