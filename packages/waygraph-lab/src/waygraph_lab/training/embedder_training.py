"""An embedder for tools, fine-tuned on requests whose right tools are known. Needs the extra `waygraph-lab[train]`.

InfoNCE (van den Oord et al., "Representation Learning with Contrastive Predictive Coding", 2018): each request is told
its right text from those of the other requests of its batch, and from a wrong one of the same catalogue that is near.
"""

import hashlib
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain, islice
from pathlib import Path
from random import Random
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from waygraph.registry.embedding.embedder import Embedder, Progress
from waygraph.registry.embedding.texts import Parts, TextForms, query_text, unit_mean
from waygraph.registry.embedding.weights import WEIGHTS
from waygraph.registry.model.errors import InvalidDataset, InvalidSetting, MissingExtra
from waygraph.registry.model.files import write_atomically
from waygraph.registry.model.identity import digest
from waygraph_lab.evaluation.compare import Level
from waygraph_lab.evaluation.dataset import By, Dataset
from waygraph_lab.evaluation.metrics import interval
from waygraph_lab.evaluation.run import Outcome

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from waygraph.registry.embedding.embedder import Matrix

NEAREST = 20
"""Wrong entities of a catalogue that are looked at for each request."""
CLEARLY_LESS = 0.95
"""A wrong entity's cosine is at most this share of the right one's: what is nearer may well be right too."""
TEMPERATURE = 0.05
WARM_UP = 0.1
"""Of the steps, in which the rate grows to its value."""
SAVE_STEPS = 25
TUNED, NOTE, CHECKPOINTS = "tuned.safetensors", "training.sha256", "checkpoints"
"""What a folder of work holds."""
Report = Callable[[int, int, float, float], None]
"""Called with (steps done, steps in all, loss, pairs a second)."""


class Pair(NamedTuple):
    """A request, a text of an entity that is right for it, and one of an entity that is not."""

    request: str
    right: str
    wrong: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """How to train. `layers`: so many of the upper ones are trained, 0 for all; embeddings never are.

    `most_requests`: of a data set, drawn by the seed. `max_tokens`: of a text, more is cut while training. `bfloat16`:
    products in 16 bits, a third of the time where the processor has them.
    """

    seed: int = 20_261_125
    epochs: float = 0.9
    batch: int = 64
    rate: float = 4e-5
    layers: int = 0
    most_requests: int = 1_250
    max_tokens: int = 96
    bfloat16: bool = True

    def __post_init__(self) -> None:
        """Raises InvalidSetting."""
        for name, least in (("epochs", 0), ("batch", 2), ("rate", 0), ("most_requests", 1), ("max_tokens", 8)):
            value = getattr(self, name)
            if not value > 0 or value < least:
                raise InvalidSetting(f"{name}={value}: expected more than 0, and at least {least}")
        if self.layers < 0:
            raise InvalidSetting(f"layers={self.layers}: expected 0 for all, or a number of layers")


def make_pairs(
    datasets: Sequence[Dataset],
    embedder: Embedder,
    texts: TextForms,
    training: Training,
    progress: Progress | None = None,
) -> list[Pair]:
    """A pair for each right entity of each request, in an order of the seed; the same for the same seed.

    `embedder` says which wrong entities are near. Where a data set has no requests, its tools' `questions` stand for
    them. Raises InvalidDataset if no request of a data set has a right entity.
    """
    random = Random(training.seed)  # noqa: S311 - no secret
    pairs: list[Pair] = []
    for dataset in datasets:
        asked = list(_requests(dataset))
        if not asked:
            raise InvalidDataset(dataset.name, "has no request with a right agent or tool to learn from")
        random.shuffle(asked)
        catalogue = _Catalogue.of(dataset, embedder, texts, progress)
        pairs += chain.from_iterable(catalogue.pairs(*each, random) for each in asked[: training.most_requests])
    random.shuffle(pairs)
    return pairs


def _requests(dataset: Dataset) -> Iterator[tuple[str, frozenset[str]]]:
    """Each request with the ids that are right: tools where they are known, else agents."""
    needs = [need for question in dataset.questions for need in (question.need, *question.steps)]
    for need in needs:
        items = need.gold_tools or need.gold
        if items:
            yield query_text(need.text), frozenset(min(item) for item in items)
    if not needs:
        for entry in dataset.catalogue.entries:
            for tool in entry.tools:
                for question in tool.questions:
                    yield query_text(question), frozenset([tool.id])


class _Catalogue(NamedTuple):
    """The entities of a data set by their ids: the agent that each is of, its texts, its row of `vectors`.

    `vectors` is float32 of shape (entities, dimension), rows of length 1.
    """

    embedder: Embedder
    agents: Mapping[str, str]
    parts: Mapping[str, Parts]
    rows: Mapping[str, int]
    vectors: "Matrix"

    @classmethod
    def of(cls, dataset: Dataset, embedder: Embedder, forms: TextForms, progress: Progress | None) -> "_Catalogue":
        entries = dataset.catalogue.entries
        parts = forms.of_entries(entries)
        agents = {entry.agent.id: entry.agent.id for entry in entries}
        agents |= {tool.id: tool.agent_id for entry in entries for tool in entry.tools}
        texts = [text for each in parts.values() for text in each.texts]
        vectors = unit_mean(
            embedder.embed(texts, "document", progress=progress), [len(p.texts) for p in parts.values()]
        )
        return cls(embedder, agents, parts, {each: row for row, each in enumerate(parts)}, vectors)

    def pairs(self, request: str, right: frozenset[str], random: Random) -> Iterator[Pair]:
        """One for each right entity; none where nothing is clearly less near."""
        near = self._near(request, right)
        for each in sorted(right) if near else ():
            texts = (random.choice(self.parts[entity].texts) for entity in (each, random.choice(near)))
            yield Pair(request, *texts)

    def _near(self, request: str, right: frozenset[str]) -> list[str]:
        """Wrong entities of other agents, the nearest of those that are clearly less near than all right ones."""
        cosines = self.vectors @ self.embedder.embed([request], "query")[0]
        agents = {self.agents[each] for each in right}
        most = min(float(cosines[self.rows[each]]) for each in right) * CLEARLY_LESS
        ids = list(self.rows)
        order = (ids[row] for row in np.argsort(-cosines, kind="stable") if cosines[row] <= most)
        return list(islice((each for each in order if self.agents[each] not in agents), NEAREST))


def train(
    base: Path,
    pairs: Sequence[Pair],
    training: Training,
    work: Path,
    report: Report | None = None,
    *,
    save_steps: int = SAVE_STEPS,
) -> Path:
    """The file of the trained tensors, named as in the base model's; `base` is the folder of a BERT model.

    The same bytes for the same pairs, training, base and machine. A run that was stopped goes on at its last
    checkpoint in `work`. Raises MissingExtra, and InvalidSetting if `work` holds another training.
    """
    done = work / TUNED
    _claim(work, base, pairs, training)
    if done.is_file():
        return done
    try:
        from datasets import Dataset as Rows
        from datasets import disable_progress_bars
        from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer
        from sentence_transformers.losses import MultipleNegativesRankingLoss
        from sentence_transformers.training_args import BatchSamplers, SentenceTransformerTrainingArguments
        from transformers import PrinterCallback
        from transformers.utils.logging import disable_progress_bar
    except ImportError as error:
        raise MissingExtra(
            "training", package="sentence-transformers with torch", extra="train", of="waygraph-lab"
        ) from error
    disable_progress_bars()
    disable_progress_bar()
    model = SentenceTransformer(str(base), device="cpu", local_files_only=True)
    model.max_seq_length = training.max_tokens
    _freeze(model, training.layers)
    steps = max(1, round(len(pairs) * training.epochs / training.batch))
    trainer = SentenceTransformerTrainer(
        model=model,
        args=SentenceTransformerTrainingArguments(
            output_dir=str(work / CHECKPOINTS),
            max_steps=steps,
            per_device_train_batch_size=training.batch,
            learning_rate=training.rate,
            warmup_steps=round(WARM_UP * steps),
            batch_sampler=BatchSamplers.NO_DUPLICATES,
            seed=training.seed,
            data_seed=training.seed,
            save_steps=save_steps,
            save_total_limit=1,
            logging_steps=1,
            report_to="none",
            disable_tqdm=True,
            use_cpu=True,
            full_determinism=True,
            bf16=training.bfloat16,
        ),
        train_dataset=Rows.from_dict(
            {name: [getattr(pair, name) for pair in pairs] for name in Pair._fields},
        ),
        loss=MultipleNegativesRankingLoss(model, scale=1 / TEMPERATURE),
        callbacks=[_callback(report, steps, training.batch)],
    )
    trainer.remove_callback(PrinterCallback)
    trainer.train(resume_from_checkpoint=any((work / CHECKPOINTS).glob("checkpoint-*")) or None)
    _write(done, {name: tensor.detach().numpy() for name, tensor in model[0].auto_model.state_dict().items()})
    shutil.rmtree(work / CHECKPOINTS)
    return done


def interpolate(base: Path, tuned: Path, strength: float, folder: Path) -> Path:
    """Write a model of base + `strength` · (tuned - base) into `folder`, else as the base is; returns the folder.

    Source: Wortsman et al., "Robust fine-tuning of zero-shot models" (2022), Equation 1; `strength` in [0, 1].
    """
    from safetensors.numpy import load_file

    shutil.copytree(base, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns(WEIGHTS, "README.md", ".*"))
    own, learned = load_file(base / WEIGHTS), load_file(tuned)
    mixed = {name: own[name] + np.float32(strength) * (learned[name] - own[name]) for name in own if name in learned}
    _write(folder / WEIGHTS, {**own, **mixed})
    return folder


def _claim(work: Path, base: Path, pairs: Sequence[Pair], training: Training) -> None:
    """Raises InvalidSetting if `work` is of another training."""
    with (base / WEIGHTS).open("rb") as file:
        weights = hashlib.file_digest(file, "sha256").hexdigest()
    whole = digest(weights, repr(training), *(text for pair in pairs for text in pair))
    note = work / NOTE
    if note.is_file() and note.read_text(encoding="utf-8") != whole:
        raise InvalidSetting(f"{work} holds another training: name another folder, or remove it")
    work.mkdir(parents=True, exist_ok=True)
    write_atomically(note, whole.encode())


def _freeze(model: Any, layers: int) -> None:
    """All but the upper `layers` of the encoder; 0: all of its layers are trained."""
    encoder = model[0].auto_model.encoder.layer
    trained = encoder[-layers:] if layers else encoder
    model.requires_grad_(False)
    trained.requires_grad_(True)


def _callback(report: Report | None, steps: int, batch: int) -> Any:
    from transformers import TrainerCallback

    class Reporting(TrainerCallback):  # type: ignore[misc]
        def __init__(self) -> None:
            self._last = time.monotonic()

        def on_log(self, *given: Any, logs: Any = None, **_: Any) -> None:
            state = given[1]
            since, self._last = self._last, time.monotonic()
            if report and logs and "loss" in logs:
                report(state.global_step, steps, float(logs["loss"]), batch / (self._last - since))

    return Reporting()


def _write(path: Path, tensors: Mapping[str, "NDArray[Any]"]) -> None:
    from safetensors.numpy import save

    write_atomically(path, save({name: np.ascontiguousarray(tensors[name]) for name in sorted(tensors)}))


CHOSEN_BY = "nDCG@5"
METRICS = ("Recall@1", "Recall@5", CHOSEN_BY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A metric's means over the same queries by both models; `low` and `high`: 95 % interval of the difference."""

    dataset: str
    by: By
    level: Level
    metric: str
    queries: int
    base: float
    tuned: float
    low: float
    high: float

    @property
    def gain(self) -> float:
        return self.tuned - self.base

    @property
    def is_worse(self) -> bool:
        """Beyond chance."""
        return self.high < 0


def judge_outcomes(dataset: str, base: Outcome, tuned: Outcome) -> list[Judged]:
    """Of one trial by both models, at the level of agents and, where right tools are known, of tools."""
    sides = [(each.agent_metrics, each.tool_metrics) for each in base.judgements]
    others = [(each.agent_metrics, each.tool_metrics) for each in tuned.judgements]
    levels: tuple[Level, ...] = ("agents", "tools")
    found: list[Judged] = []
    for place, level in enumerate(levels):
        both = [(one[place], other[place]) for one, other in zip(sides, others, strict=True) if one[place]]
        found += judge_values(dataset, base.trial.by, level, both)
    return found


def judge_values(
    dataset: str, by: By, level: Level, both: Sequence[tuple[Mapping[str, float], Mapping[str, float]]]
) -> Iterator[Judged]:
    """`both`: each query's metrics by the base and by what was learned."""
    for metric in METRICS if both else ():
        gains = [other[metric] - one[metric] for one, other in both]
        low, high = interval(gains)
        base = fmean(one[metric] for one, _ in both)
        yield Judged(
            dataset=dataset,
            by=by,
            level=level,
            metric=metric,
            queries=len(both),
            base=base,
            tuned=base + fmean(gains),
            low=low,
            high=high,
        )


def choose_strength(judged: Mapping[float, Sequence[Judged]]) -> float:
    """The one of the highest mean gain in nDCG@5 at which nothing falls beyond chance; 0 if none gains."""
    gains = {0.0: 0.0}
    for strength, rows in judged.items():
        chosen = [row for row in rows if row.metric == CHOSEN_BY]
        if chosen and not any(row.is_worse for row in chosen):
            gains[strength] = fmean(row.gain for row in chosen)
    return max(gains, key=lambda strength: (gains[strength], -strength))


def card_of(
    training: Training,
    datasets: Sequence[Dataset],
    pairs: int,
    judged: Mapping[float, Sequence[Judged]],
    strength: float,
) -> dict[str, Any]:
    """What stands beside the model: how it was made, of what, by which licences, and what became better and worse.

    `worse`: what fell at the strength that was chosen; where none was, what forbade each.
    """
    figures = [{"strength": each, **asdict(row)} for each, rows in judged.items() for row in rows]
    fell = [row for row in judged.get(strength, ()) if row.gain < 0]
    prevented = [row for rows in judged.values() for row in rows if row.metric == CHOSEN_BY and row.is_worse]
    return {
        "training": asdict(training),
        "pairs": pairs,
        "data": describe_data(datasets),
        "strength": strength,
        "figures": figures,
        "worse": [asdict(row) for row in (fell if strength else prevented)],
        "mean_gains": {str(each): _mean_gain(judged[each]) for each in judged},
    }


def describe_data(datasets: Sequence[Dataset]) -> list[dict[str, str]]:
    """As cards have it."""
    told = ("name", "origin", "license", "checksum")
    return [{name: getattr(each, name) for name in told} for each in datasets]


def _mean_gain(rows: Sequence[Judged]) -> float:
    return fmean(row.gain for row in rows if row.metric == CHOSEN_BY)
