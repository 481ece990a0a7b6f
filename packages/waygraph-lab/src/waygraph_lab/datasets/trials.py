"""Trials on a dataset: a registry in memory for each embedder and form of texts, and every trial over it."""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, nullcontext
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib.metadata import version
from itertools import groupby
from pathlib import Path

import anyio
from anyio import to_thread

from waygraph.ingest.execution.executor import open_executor
from waygraph.ingest.manifest.environment import Surroundings
from waygraph.ingest.pipeline import Asking, Ingestion, ask_servers, open_given
from waygraph.ingest.sources.opening import Opening
from waygraph.ingest.sync.apply import sync
from waygraph.registry.language_model.endpoint import ENDPOINT, ChatModel, is_configured, model_in
from waygraph.registry.model.errors import InvalidDataset, InvalidSetting, LanguageModelError, LanguageModelRefused
from waygraph.registry.model.nouns import Agent, Mode, Of, TextForm, Tool, Walked
from waygraph.registry.model.settings import Settings
from waygraph.registry.model.tool_settings import MAX_QUESTIONS
from waygraph.registry.routing.recipes import HYBRID, TAXONOMY, Recipe, Walk, recipe_named
from waygraph.registry.storage.local_registry import LocalRegistry
from waygraph.registry.taxonomy.prompts import Service
from waygraph.registry.taxonomy.tree import Taxonomy
from waygraph_lab.datasets.agent_loop import AgentLoop
from waygraph_lab.datasets.noise import NONE, check_noise, read_noise
from waygraph_lab.evaluation.agents import (
    AgentOutcome,
    AgentTrial,
    Attempt,
    Surface,
    attempt_line,
    attempt_of,
    judge_attempt,
    untried,
)
from waygraph_lab.evaluation.answer_lines import AnswerLines, TrialLines, digest_of_file
from waygraph_lab.evaluation.asking import MOST_FAILURES, KeptLines, Line, key_of
from waygraph_lab.evaluation.dataset import Asked, Dataset
from waygraph_lab.evaluation.estimate import CostEstimate, estimate_rerank, estimate_steps, perfect_walks
from waygraph_lab.evaluation.run import Outcome, Progress, Terms, Trial, run

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
    """Where trials are run. `tree`: the one that is walked; None: one by vectors of the dataset's agents.

    `lines`: a file of answers, see `AnswerLines`; `at_once` and `set_size`: see `Terms`.
    """

    settings: Settings
    environ: Mapping[str, str]
    watching: Watching = watch_nothing
    tree: Taxonomy | None = None
    lines: AnswerLines | None = None
    at_once: int = 1
    set_size: int = 0
    keeps_free: bool = True
    """Whether there are also lines of trials that ask no model."""

    def outcomes(self, dataset: Dataset, trials: Sequence[Trial]) -> Iterator[Outcome]:
        """Those over one registry together, else in the order of the trials.

        Raises InvalidDataset, before anything is embedded, if a trial has nothing to be judged by, InvalidSetting for
        a tree of something else.
        """
        for registry, tree, group in self._registries(dataset, trials):
            yield from (self._outcome(registry, tree, dataset, trial) for trial in group)

    def estimates(self, dataset: Dataset, trials: Sequence[Trial]) -> Iterator[CostEstimate]:
        """What each trial would cost; no model is asked, and of an endpoint no vector. Raises as `outcomes`."""
        for trial in trials:
            if self.tree is None and trial.recipe.walk and model_in(trial.embedder or self.settings.embedder):
                raise InvalidSetting("the tree would be built by vectors of an endpoint: name one by --taxonomy")
        has_walk = any(trial.recipe.walk for trial in trials)
        for registry, tree, group in self._registries(dataset, trials, by_words=bool(self.tree) or not has_walk):
            yield from (self._estimate(registry, tree, dataset, trial) for trial in group)

    def _registries(
        self, dataset: Dataset, trials: Sequence[Trial], *, by_words: bool = False
    ) -> Iterator[tuple[LocalRegistry, Taxonomy | None, Sequence[Trial]]]:
        """Each with its tree, if one is walked, and its trials. `by_words`: without vectors."""
        for trial in trials:
            dataset.check_asked(trial.by, split=trial.split)
        settings = _with_room_for(dataset, self.settings)
        for (embedder, texts), group in groupby(sorted(trials, key=_registry_of), key=_registry_of):
            own, spec = list(group), "none" if by_words else embedder or None
            opened = LocalRegistry.open(":memory:", embedder=spec, settings=settings, environ=self.environ)
            with opened as registry:
                with self.watching("Embedding") as progress:
                    sync(registry, dataset.catalogue, texts=texts, progress=progress)
                is_walked = self.tree or any(trial.recipe.walk for trial in own)
                yield registry, put_tree(registry, self.tree) if is_walked else None, own

    def _outcome(self, registry: LocalRegistry, tree: Taxonomy | None, dataset: Dataset, trial: Trial) -> Outcome:
        asked = _queries_of(dataset, trial)
        terms = Terms(
            at_once=self.at_once,
            set_of=tree.of if tree else Of.AGENTS,
            set_size=self.set_size,
            lines=self._lines_of(registry, tree, trial),
        )
        with self.watching(f"{trial.name}, {trial.by}") as progress:
            return run(registry, trial, asked, progress, terms)

    def _lines_of(self, registry: LocalRegistry, tree: Taxonomy | None, trial: Trial) -> TrialLines | None:
        if self.lines is None or not (self.keeps_free or trial.is_paid):
            return None
        return self.lines.of_trial(registry, trial, self.tree or tree)

    def _estimate(self, registry: LocalRegistry, tree: Taxonomy | None, dataset: Dataset, trial: Trial) -> CostEstimate:
        asked = _queries_of(dataset, trial)
        lines = self._lines_of(registry, tree, trial)
        left = [query for query in asked if not (lines and lines.holds(query))]
        stages = estimate_rerank(trial.recipe, left), estimate_steps(trial.recipe, left)
        calls, prompt_tokens, completion_tokens = map(sum, zip(*stages, strict=True))
        stage = trial.recipe.walk
        walks = [*_perfect_walks(registry, tree, stage, left)] if tree and stage else []
        return CostEstimate(
            name=trial.name,
            by=trial.by,
            queries=len(asked),
            kept=len(asked) - len(left),
            calls=calls + sum(each.calls for each in walks),
            most_calls=calls + bool(walks) * len(left) * self.settings.walk_max_calls,
            prompt_tokens=prompt_tokens + sum(each.prompt_tokens for each in walks),
            completion_tokens=completion_tokens + sum(each.completion_tokens for each in walks),
        )


def _queries_of(dataset: Dataset, trial: Trial) -> list[Asked]:
    return [query.known_to(trial.asker) for query in dataset.queries(trial.by, split=trial.split)]


def put_tree(registry: LocalRegistry, tree: Taxonomy | None) -> Taxonomy:
    """Puts a tree into a registry; None: one by vectors. What it does not hold goes to the nearest leaf.

    Raises InvalidSetting if it holds nothing of the registry.
    """
    if tree is None:
        return registry.build_taxonomy()
    ids = {each.id for each in _sorted_nouns(registry, tree.of)}
    if ids.isdisjoint(tree.below(tree.root)):
        raise InvalidSetting(f"the taxonomy {tree.name!r} holds none of the {tree.of.value} of this dataset")
    return registry.build_taxonomy(lambda *_: tree, of=tree.of)


def _sorted_nouns(registry: LocalRegistry, of: Of) -> Sequence[Agent | Tool]:
    """What a taxonomy sorts."""
    return registry.agents() if of is Of.AGENTS else registry.tools()


def _sorted_words(registry: LocalRegistry, of: Of) -> Iterator[tuple[Agent | Tool, str]]:
    """What a taxonomy sorts, with the words that a walk shows beside: an agent's tools, a tool's agent."""
    agents, tools = {each.id: each for each in registry.agents()}, registry.tools()
    if of is Of.TOOLS:
        yield from ((tool, agents[tool.agent_id].name) for tool in tools)
        return
    names: dict[str, list[str]] = {agent_id: [] for agent_id in agents}
    for tool in tools:
        names[tool.agent_id].append(tool.name)
    yield from ((agent, " ".join(names[agent.id])) for agent in agents.values())


def _perfect_walks(registry: LocalRegistry, tree: Taxonomy, stage: Walk, asked: Sequence[Asked]) -> Iterator[Walked]:
    """A walk for each text of each query."""
    services = [
        Service(each.id, each.name, each.description, words) for each, words in _sorted_words(registry, tree.of)
    ]
    walk = perfect_walks(tree, services, stage=stage)
    for query in asked:
        gold = query.gold if tree.of is Of.AGENTS else query.gold_tools
        for text in query.texts:
            yield walk(text, [min(item) for item in gold])


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
    like: AgentTrial,
    environ: Mapping[str, str],
    *,
    models: Sequence[str],
    recipes: Sequence[str] = (),
    noises: Sequence[str] = (NONE,),
    surfaces: Sequence[Surface] = ("default",),
    rerank: str = "",
    walk: str = "",
    mode: str = "",
    steps_by: str = "",
) -> list[AgentTrial]:
    """`like`, but with every model, every surface, every recipe (none: `RECIPES`) and every noise. On the surface
    `react` nothing is searched, so that no recipe counts.

    `walk`, `mode`: of a recipe that walks; without a mode the router's surface takes the one best tool. Raises
    InvalidSetting without an endpoint or for texts that a recipe is not made for, UnknownRecipe.
    """
    if not is_configured(environ):
        raise InvalidSetting(f"no endpoint of a language model is configured: set {' and '.join(ENDPOINT)}")
    for noise in noises:
        check_noise(noise)
    names = recipes or ([TAXONOMY.name] if walk else RECIPES)

    def recipes_of(surface: Surface) -> Sequence[Recipe]:
        routes_one = surface == "router" and TAXONOMY.name in names
        chosen = named_recipes(
            names, rerank=rerank, walk=walk, steps_by=steps_by, mode=mode or (Mode.ONE.value if routes_one else "")
        )
        for recipe in chosen:
            if not recipe.takes(like.texts) or not recipe.ranks_tools:
                raise InvalidSetting(f"{recipe.name} finds no tools over {like.texts} texts")
        return chosen[:1] if surface == "react" else chosen

    return [
        replace(like, recipe=recipe, model=model, noise=noise, surface=surface)
        for noise in noises
        for model in models
        for surface in surfaces
        for recipe in recipes_of(surface)
    ]


def named_recipes(
    names: Sequence[str], *, rerank: str = "", walk: str = "", mode: str = "", steps_by: str = ""
) -> list[Recipe]:
    """`walk` and `mode` are for those that walk. Raises UnknownRecipe, InvalidSetting, also if none walks."""
    if steps_by and not model_in(steps_by):
        raise InvalidSetting(f"steps by {steps_by!r}: expected openai:MODEL")
    terms = {"walk": walk, "mode": mode}
    walks = TAXONOMY.name in names
    return [
        _named_by_steps(
            recipe_named(
                name, rerank=rerank, steps_by=steps_by, **(terms if name == TAXONOMY.name or not walks else {})
            )
        )
        for name in names
    ]


def _named_by_steps(recipe: Recipe) -> Recipe:
    """Its name tells who splits requests, as it tells who reranks."""
    return replace(recipe, name=f"{recipe.name}, steps by {recipe.steps_by}") if recipe.steps_by else recipe


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


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentBench:
    """Where models are tried. `at_once`: tasks under way at a time. `tree`: as `Bench` has it.

    `lines`: attempts of a former run, which are not made again.
    """

    settings: Settings
    environ: Mapping[str, str]
    embedder: str = ""
    at_once: int = 4
    watching: Watching = watch_nothing
    tree: Taxonomy | None = None
    lines: KeptLines | None = None

    def outcomes(
        self, dataset: Dataset, servers: Path, tasks: Sequence[Asked], trials: Sequence[AgentTrial]
    ) -> Iterator[AgentOutcome]:
        """Those over one registry together, else in the order of the trials.

        `servers`: the configuration by which the dataset's agents are reached. What is reached is trusted for this run
        alone; nothing runs the tools of a noise. Raises InvalidDataset if a server does not answer or a right tool is
        not offered, LanguageModelError if no task of a trial got an answer.
        """
        for texts, noise in dict.fromkeys(map(_tools_of, trials)):
            own = [trial for trial in trials if _tools_of(trial) == (texts, noise)]
            with tempfile.TemporaryDirectory() as folder:
                settings = replace(self.settings, data_dir=folder)
                opened = LocalRegistry.open(
                    ":memory:", embedder=self.embedder or None, settings=settings, environ=self.environ
                )
                with opened as registry:
                    self._fill(registry, dataset, servers, texts)
                    _refuse_missing(registry, tasks)
                    if others := read_noise(noise, dataset, settings):
                        sync(registry, others, texts=texts)
                    if any(trial.recipe.walk for trial in own):
                        put_tree(registry, self.tree)
                    yield from (self._outcome(registry, trial, tasks) for trial in own)

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
        repeated = [(task, run) for run in range(1, trial.runs + 1) for task in tasks]
        with self.watching(f"{trial.model}, {trial.retrieval}") as progress:
            attempts = anyio.run(self._attempts, registry, trial, repeated, progress)
        if all(attempt.ending == "failed" for attempt in attempts):
            raise LanguageModelRefused(f"no task got an answer: {attempts[0].fault}")
        return AgentOutcome(trial=trial, attempts=tuple(attempts), fingerprint=registry.status().state.embedder)

    async def _attempts(
        self, registry: LocalRegistry, trial: AgentTrial, tasks: Sequence[tuple[Asked, int]], progress: Progress | None
    ) -> list[Attempt]:
        """`tasks`: each with the number of its run. After `MOST_FAILURES` in a row no other is tried."""
        attempts: dict[int, Attempt] = {}
        faults: list[str] = []
        places = anyio.CapacityLimiter(self.at_once)
        surroundings = Surroundings.here(self.environ)
        about = [version("waygraph"), *_facts_of(registry, trial)] if self.lines else []

        async def attempt(place: int) -> None:
            async with places:
                task, run = tasks[place]
                key = key_of(*about, task.id, list(task.texts), [sorted(item) for item in task.gold_tools], run)
                former = self.lines.find(key) if self.lines else None
                if former or len(faults) < MOST_FAILURES:
                    result = _former_attempt(former, trial) if former else await loop.attempt(task)
                    result = await _judge_answer(replace(result, run=run), judge)
                    if not former:
                        faults[:] = [*faults, result.fault] if result.fault or len(faults) >= MOST_FAILURES else []
                    line = {"key": key, "model": trial.model, "judge": trial.judge} | attempt_line(result)
                    # A run without a judge leaves the score that another one was paid for.
                    if self.lines and line != former and (trial.judge or not former):
                        self.lines.add(key, line)
                else:
                    result = untried(task, f"not tried, as {MOST_FAILURES} failed in a row")
                attempts[place] = replace(result, run=run)
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


def _former_attempt(line: Line, trial: AgentTrial) -> Attempt:
    """As it was kept; without the score of another judge."""
    attempt = attempt_of(line)
    is_judged = line.get("judge") == trial.judge
    return attempt if is_judged else replace(attempt, completion=None, unjudged="")


def _facts_of(registry: LocalRegistry, trial: AgentTrial) -> list[object]:
    """All but the task that an attempt depends on."""
    agents = sorted((each.id, each.name, each.description) for each in registry.agents())  # their addresses change
    settings, state = registry.settings, registry.status().state
    if trial.surface == "react":  # nothing is searched
        trial = replace(trial, recipe=HYBRID, limit=0)
    stages = trial.recipe
    return [
        {name: value for name, value in asdict(trial).items() if name not in ("runs", "judge")},
        registry.operator.taxonomy(None).as_json()["categories"] if stages.walk else [],
        digest_of_file(stages.rerank.spec) if stages.rerank else "",
        [state.embedder, settings.walk, settings.rerank, settings.openai_body],
        agents,
        sorted((each.id, each.content_hash) for each in registry.tools()),
    ]


def _tools_of(trial: AgentTrial) -> tuple[TextForm, str]:
    """What is found: the dataset's tools in a form of texts, and the noise beside them."""
    return trial.texts, trial.noise


async def _judge_answer(attempt: Attempt, judge: ChatModel | None) -> Attempt:
    """With the judge's score, or why there is none; a task without an answer scores 0 unread."""
    if judge is None or attempt.completion is not None:
        return attempt
    if attempt.ending != "answered":
        return replace(attempt, completion=0.0)
    try:
        score = await to_thread.run_sync(judge_attempt, judge, attempt)
    except LanguageModelError as error:
        return replace(attempt, unjudged=str(error))
    return replace(attempt, completion=score, unjudged="it answered no score" if score is None else "")


def _refuse_missing(registry: LocalRegistry, tasks: Sequence[Asked]) -> None:
    offered = {tool.id for tool in registry.tools()}
    for task in tasks:
        for item in task.gold_tools:
            if item.isdisjoint(offered):
                raise InvalidDataset(task.id, f"no server offers the right tool {sorted(item)[0]!r}")
