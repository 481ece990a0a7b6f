"""An embedder for tools, fine-tuned on requests whose right tools are known. Needs the extra `waygraph-lab[train]`.

InfoNCE (van den Oord et al., "Representation Learning with Contrastive Predictive Coding", 2018): each request is told
its right text from those of the other requests of its batch, and from wrong ones: a near one of another agent, one of
the same agent, and one that does something else with the same thing. What the base model knows of scripts that the
requests are not in is kept: random words of them have the vectors that they had.
"""

import hashlib
import shutil
import time
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import batched, chain, islice
from pathlib import Path
from random import Random
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from waygraph.registry.embedding.embedder import Embedder, Progress
from waygraph.registry.embedding.texts import Parts, TextForms, is_latin, query_text, tool_parts, unit_mean
from waygraph.registry.embedding.weights import TOKENIZER, WEIGHTS
from waygraph.registry.model.errors import InvalidDataset, InvalidSetting, MissingExtra
from waygraph.registry.model.files import write_atomically
from waygraph.registry.model.identity import digest
from waygraph.registry.model.nouns import Agent, Tool
from waygraph_lab.evaluation.compare import Level
from waygraph_lab.evaluation.dataset import By, Dataset
from waygraph_lab.evaluation.metrics import interval
from waygraph_lab.evaluation.run import Outcome
from waygraph_lab.template_questions import SYNONYMS, verb_and_thing
from waygraph_lab.training.made_up_requests import (
    Contrasts,
    contrast_tool,
    find_contrasts,
    join_requests,
    write_requests,
)

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
MOST_NORM = 1.0
"""Of the gradient of a step."""
SAVE_STEPS = 25
READ_AT_ONCE = 32
"""Texts that a model reads together while it is trained."""
JOINED = 0.3
"""Of the requests that are made up, how many ask for two things."""
ANCHORS = 32
"""Texts of a batch whose vectors are kept as they were."""
TUNED, NOTE, CHECKPOINT = "tuned.safetensors", "training.sha256", "checkpoint.pt"
"""What a folder of work holds."""
Report = Callable[[int, int, float, float], None]
"""Called with (steps done, steps in all, loss, pairs a second)."""


class Pair(NamedTuple):
    """A request, a text of an entity that is right for it, and texts of some that are not.

    `spared`: all texts of what is right for it, which are no wrong answers where they stand for other requests.
    """

    request: str
    right: str
    wrongs: tuple[str, ...]
    spared: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """How to train. `layers`: so many of the upper ones are trained, 0 for all; embeddings never are.

    `most_requests`: of a data set, drawn by the seed; `most_made_up`: of one that has none, for whose tools they are
    made up. `siblings`: tools of the right one's agent, and what does something else with its thing, are wrong answers
    too. `first_needs`: of what is right for a request only the first is learned. `anchor`: how much it counts that
    texts in foreign scripts keep their vectors. `max_tokens`: of a text, more is cut while training. `bfloat16`:
    products in 16 bits, a third of the time where the processor has them.
    """

    seed: int = 20_261_125
    epochs: float = 3.0
    batch: int = 128
    rate: float = 4e-5
    layers: int = 0
    most_requests: int = 1_250
    most_made_up: int = 4_000
    siblings: bool = True
    first_needs: bool = False
    anchor: float = 1.0
    max_tokens: int = 96
    bfloat16: bool = True

    def __post_init__(self) -> None:
        """Raises InvalidSetting."""
        least_values = {"epochs": 0, "batch": 2, "rate": 0, "most_requests": 1, "most_made_up": 1, "max_tokens": 8}
        for name, least in least_values.items():
            value = getattr(self, name)
            if not value > 0 or value < least:
                raise InvalidSetting(f"{name}={value}: expected more than 0, and at least {least}")
        for name in ("layers", "anchor"):
            if getattr(self, name) < 0:
                raise InvalidSetting(f"{name}={getattr(self, name)}: expected 0 or more")


def make_pairs(
    datasets: Sequence[Dataset],
    embedder: Embedder,
    texts: TextForms,
    training: Training,
    progress: Progress | None = None,
) -> list[Pair]:
    """A pair for each right entity of each request, in an order of the seed; the same for the same seed.

    `embedder` says which wrong entities are near. Where a data set has no requests, some are made up for its tools.
    Raises InvalidDataset if no request of a data set has a right entity.
    """
    random = Random(training.seed)  # noqa: S311 - no secret
    contrasts = find_contrasts(entry for dataset in datasets for entry in dataset.catalogue.entries)
    pairs: list[Pair] = []
    for dataset in datasets:
        asked = _requests(dataset, training, random)
        if not asked:
            raise InvalidDataset(dataset.name, "has no request with a right agent or tool to learn from")
        catalogue = _Catalogue.of(dataset, embedder, texts, contrasts if training.siblings else None, progress)
        vectors = embedder.embed([request for request, _ in asked], "query", progress=progress)
        made = (catalogue.pairs(*each, vector, random) for each, vector in zip(asked, vectors, strict=True))
        pairs += chain.from_iterable(each[:1] if training.first_needs else each for each in made)
    random.shuffle(pairs)
    return pairs


def _requests(dataset: Dataset, training: Training, random: Random) -> list[tuple[str, Sequence[str]]]:
    """Each request with the ids that are right, in the order of need: tools where they are known, else agents."""
    needs = [need for question in dataset.questions for need in (question.need, *question.steps)]
    asked = [
        (query_text(need.text), tuple(dict.fromkeys(min(item) for item in items)))
        for need in needs
        if (items := need.gold_tools or need.gold)
    ]
    if needs:
        return random.sample(asked, min(training.most_requests, len(asked)))
    tools = [(entry.agent, tool) for entry in dataset.catalogue.entries for tool in entry.tools]
    count = -(-training.most_made_up // max(len(tools), 1))
    made_up = [
        (query_text(request), (tool.id,))
        for agent, tool in tools
        for request in write_requests(agent, tool, count, random)
    ]
    return _join_some(random.sample(made_up, min(training.most_made_up, len(made_up))), random)


def _join_some(asked: Sequence[tuple[str, Sequence[str]]], random: Random) -> list[tuple[str, Sequence[str]]]:
    """The requests, the share `JOINED` of them with the next one in their text and their answer."""
    return [
        (join_requests(one[0], other[0], random), (*one[1], *other[1])) if random.random() < JOINED else one
        for one, other in zip(asked, [*asked[1:], *asked[:1]], strict=True)
    ]


class _Catalogue(NamedTuple):
    """The entities of a data set by their ids: the agent that each is of, its texts, its row of `vectors`.

    `vectors` is float32 of shape (entities, dimension), rows of length 1. `contrasts`: None if siblings do not count.
    """

    forms: TextForms
    contrasts: Contrasts | None
    tools: Mapping[str, tuple[Agent, Tool]]
    agents: Mapping[str, str]
    siblings: Mapping[str, Sequence[str]]
    parts: Mapping[str, Parts]
    rows: Mapping[str, int]
    vectors: "Matrix"

    @classmethod
    def of(
        cls,
        dataset: Dataset,
        embedder: Embedder,
        forms: TextForms,
        contrasts: Contrasts | None,
        progress: Progress | None,
    ) -> "_Catalogue":
        entries = dataset.catalogue.entries
        parts = forms.of_entries(entries)
        tools = {tool.id: (entry.agent, tool) for entry in entries for tool in entry.tools}
        agents = {entry.agent.id: entry.agent.id for entry in entries}
        agents |= {name: tool.agent_id for name, (_, tool) in tools.items()}
        texts = [text for each in parts.values() for text in each.texts]
        vectors = unit_mean(
            embedder.embed(texts, "document", progress=progress), [len(p.texts) for p in parts.values()]
        )
        siblings = {entry.agent.id: [tool.id for tool in entry.tools] for entry in entries}
        rows = {each: row for row, each in enumerate(parts)}
        return cls(forms, contrasts, tools, agents, siblings, parts, rows, vectors)

    def pairs(self, request: str, right: Sequence[str], vector: "NDArray[np.float32]", random: Random) -> list[Pair]:
        """One for each right entity; none where nothing is clearly less near."""
        cosines = self.vectors @ vector
        near = self._near(cosines, right)
        spared = frozenset(text for each in right for text in self.parts[each].texts)
        pairs = []
        for each in right if near else ():
            wrongs = [self._text(random.choice(near), random)]
            if self.contrasts is not None:
                wrongs += self._sibling_texts(each, right, cosines, random)
            pairs.append(Pair(request, self._text(each, random), tuple(wrongs), spared))
        return pairs

    def _text(self, entity: str, random: Random) -> str:
        return random.choice(self.parts[entity].texts)

    def _near(self, cosines: "NDArray[np.float32]", right: Sequence[str]) -> list[str]:
        """Wrong entities of other agents, the nearest of those that are clearly less near than all right ones."""
        agents = {self.agents[each] for each in right}
        most = min(float(cosines[self.rows[each]]) for each in right) * CLEARLY_LESS
        ids = list(self.rows)
        order = (ids[row] for row in np.argsort(-cosines, kind="stable") if cosines[row] <= most)
        return list(islice((each for each in order if self.agents[each] not in agents), NEAREST))

    def _sibling_texts(
        self, entity: str, right: Sequence[str], cosines: "NDArray[np.float32]", random: Random
    ) -> Iterator[str]:
        """Of the nearest tool of the same agent that is clearly wrong, and of the tool with another verb."""
        if entity not in self.tools or self.contrasts is None:
            return
        agent, tool = self.tools[entity]
        most = float(cosines[self.rows[entity]]) * CLEARLY_LESS
        others = [each for each in self.siblings[agent.id] if each not in right]
        wrong = [each for each in others if cosines[self.rows[each]] <= most or _differ(self.tools[each][1], tool)]
        if wrong:
            yield self._text(max(wrong, key=lambda each: (cosines[self.rows[each]], each)), random)
        if contrast := contrast_tool(tool, self.contrasts, random):
            yield random.choice(tool_parts(self.forms.form, agent, contrast, self.forms.max_chars).texts)


def _differ(one: Tool, other: Tool) -> bool:
    """Whether their names have verbs of different meanings."""
    verbs = [verb_and_thing(tool.name)[0] for tool in (one, other)]
    return "use" not in verbs and len({SYNONYMS.get(verb, verb) for verb in verbs}) > 1


def train(
    base: Path,
    pairs: Sequence[Pair],
    training: Training,
    work: Path,
    report: Report | None = None,
    *,
    save_steps: int = SAVE_STEPS,
    device: str = "cpu",
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
        import torch
        from transformers import BertModel
        from transformers.utils.logging import disable_progress_bar
    except ImportError as error:
        raise MissingExtra("training", package="transformers with torch", extra="train", of="waygraph-lab") from error
    disable_progress_bar()
    model = BertModel.from_pretrained(base, add_pooling_layer=False, local_files_only=True).to(device)
    fresh = BertModel.from_pretrained(base, add_pooling_layer=False, local_files_only=True).to(device).eval()
    _freeze(model, training.layers)
    steps = max(1, round(len(pairs) * training.epochs / training.batch))
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=training.rate, weight_decay=0.0)
    first = _restore(work, model, optimizer)
    reader = _Reader.of(base, training, device)
    batches = islice(_batches(pairs, training), first, steps)
    last = time.monotonic()
    for step, batch in enumerate(batches, start=first + 1):
        torch.manual_seed(training.seed + step)
        for group in optimizer.param_groups:
            group["lr"] = training.rate * _share_of_rate(step, steps)
        loss = _loss(model.train(), fresh, reader, batch, step)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, MOST_NORM)
        optimizer.step()
        if step % save_steps == 0:
            _save(work, model, optimizer, step)
        if report:
            since, last = last, time.monotonic()
            report(step, steps, float(loss.detach()), len(batch) / (last - since))
    _write(done, {name: tensor.detach().cpu().numpy() for name, tensor in model.state_dict().items()})
    (work / CHECKPOINT).unlink(missing_ok=True)
    return done


def _batches(pairs: Sequence[Pair], training: Training) -> Iterator[list[Pair]]:
    """Without end: all pairs in an order of the seed, then in another one."""
    random, waiting = Random(training.seed), list[Pair]()  # noqa: S311 - no secret
    while True:
        waiting += random.sample(pairs, len(pairs))
        while len(waiting) >= training.batch:
            batch, waiting = waiting[: training.batch], waiting[training.batch :]
            yield batch


def _share_of_rate(step: int, steps: int) -> float:
    """Of the rate at a step from 1: it grows to its value, then falls to nothing."""
    warm = round(WARM_UP * steps)
    return step / warm if step <= warm else (steps - step + 1) / (steps - warm)


class _Reader(NamedTuple):
    """How texts come to a model, and the foreign words that anchors are made of."""

    tokenizer: Any
    foreign: Sequence[Sequence[int]]
    training: Training
    device: str

    @classmethod
    def of(cls, base: Path, training: Training, device: str) -> "_Reader":
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(str(base / TOKENIZER))
        tokenizer.no_padding()
        tokenizer.enable_truncation(training.max_tokens)
        return cls(tokenizer, _foreign_words(tokenizer.get_vocab()), training, device)

    def vectors(self, model: Any, ids: Sequence[Sequence[int]]) -> Any:
        """Mean of the tokens, scaled to length 1; of shape (texts, dimension).

        Texts of about the same length are read together: little is padded, and what a step holds fits into caches.
        """
        import torch

        order = sorted(range(len(ids)), key=lambda place: len(ids[place]))
        some = [self._vectors(model, [ids[place] for place in places]) for places in batched(order, READ_AT_ONCE)]
        return torch.cat(some)[torch.tensor(order, device=self.device).argsort()]

    def _vectors(self, model: Any, ids: Sequence[Sequence[int]]) -> Any:
        import torch

        longest = max(map(len, ids))
        tokens = torch.tensor([[*each, *[0] * (longest - len(each))] for each in ids], device=self.device)
        mask = torch.tensor([[1] * len(each) + [0] * (longest - len(each)) for each in ids], device=self.device)
        with self._precision():
            states = model(input_ids=tokens, attention_mask=mask).last_hidden_state
        shares = mask.unsqueeze(-1).float()
        return torch.nn.functional.normalize((states.float() * shares).sum(1) / shares.sum(1), dim=1)

    def read(self, texts: Sequence[str]) -> list[list[int]]:
        return [encoding.ids for encoding in self.tokenizer.encode_batch(list(texts))]

    def anchors(self, seed: int) -> list[list[int]]:
        """Texts of random words, each text of one script."""
        random = Random(seed)  # noqa: S311 - no secret
        start, end = self.tokenizer.encode("").ids  # no text has only these
        scripts = random.choices(self.foreign, weights=list(map(len, self.foreign)), k=ANCHORS)
        return [[start, *random.choices(script, k=random.randint(4, 24)), end] for script in scripts]

    def _precision(self) -> Any:
        import torch

        return torch.autocast(self.device.partition(":")[0], dtype=torch.bfloat16, enabled=self.training.bfloat16)


def _foreign_words(vocabulary: Mapping[str, int]) -> list[list[int]]:
    """The ids of words in other scripts than Latin, those of a script together."""
    scripts: dict[str, list[int]] = {}
    for word, place in sorted(vocabulary.items(), key=lambda each: each[1]):
        if not is_latin(word):
            script = unicodedata.name(word.removeprefix("##")[0], "").partition(" ")[0]
            scripts.setdefault(script, []).append(place)
    return list(scripts.values())


def _loss(model: Any, fresh: Any, reader: _Reader, batch: Sequence[Pair], step: int) -> Any:
    """Of the requests against all texts of the batch, and of the anchors against their former vectors."""
    import torch

    texts = [pair.right for pair in batch] + [text for pair in batch for text in pair.wrongs]
    asked = reader.vectors(model, reader.read([pair.request for pair in batch]))
    scores = asked @ reader.vectors(model, reader.read(texts)).T / TEMPERATURE
    spared = [
        [text in pair.spared and place != row for place, text in enumerate(texts)] for row, pair in enumerate(batch)
    ]
    scores = scores.masked_fill(torch.tensor(spared, device=scores.device), float("-inf"))
    loss = torch.nn.functional.cross_entropy(scores, torch.arange(len(batch), device=scores.device))
    if not reader.training.anchor or not reader.foreign:
        return loss
    anchors = reader.anchors(reader.training.seed + step)
    with torch.no_grad():
        former = reader.vectors(fresh, anchors)
    moved = 1 - (reader.vectors(model, anchors) * former).sum(1)
    return loss + reader.training.anchor * moved.mean() / TEMPERATURE


def _save(work: Path, model: Any, optimizer: Any, step: int) -> None:
    import torch

    held = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
    torch.save(held, work / f"{CHECKPOINT}.new")
    (work / f"{CHECKPOINT}.new").replace(work / CHECKPOINT)


def _restore(work: Path, model: Any, optimizer: Any) -> int:
    """The steps that are done."""
    import torch

    if not (work / CHECKPOINT).is_file():
        return 0
    held = torch.load(work / CHECKPOINT, weights_only=True)
    model.load_state_dict(held["model"])
    optimizer.load_state_dict(held["optimizer"])
    return int(held["step"])


def interpolate(base: Path, tuned: Sequence[Path], strength: float, folder: Path) -> Path:
    """Write a model of base + `strength` · (mean of tuned - base) into `folder`, else as the base is.

    Sources: Wortsman et al., "Robust fine-tuning of zero-shot models" (2022), Equation 1, and "Model soups" (2022);
    `strength` in [0, 1]. Returns the folder.
    """
    from safetensors.numpy import load_file

    shutil.copytree(base, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns(WEIGHTS, "README.md", ".*"))
    own, learned = load_file(base / WEIGHTS), [load_file(each) for each in tuned]
    mixed = {
        name: own[name] + np.float32(strength / len(learned)) * sum(each[name] - own[name] for each in learned)
        for name in own
        if all(name in each for each in learned)
    }
    _write(folder / WEIGHTS, {**own, **mixed})
    return folder


def _claim(work: Path, base: Path, pairs: Sequence[Pair], training: Training) -> None:
    """Raises InvalidSetting if `work` is of another training."""
    with (base / WEIGHTS).open("rb") as file:
        weights = hashlib.file_digest(file, "sha256").hexdigest()
    whole = digest(weights, repr(training), *(text for pair in pairs for text in (*pair[:2], *pair.wrongs)))
    note = work / NOTE
    if note.is_file() and note.read_text(encoding="utf-8") != whole:
        raise InvalidSetting(f"{work} holds another training: name another folder, or remove it")
    work.mkdir(parents=True, exist_ok=True)
    write_atomically(note, whole.encode())


def _freeze(model: Any, layers: int) -> None:
    """All but the upper `layers` of the encoder; 0: all of its layers are trained."""
    encoder = model.encoder.layer
    trained = encoder[-layers:] if layers else encoder
    model.requires_grad_(False)
    trained.requires_grad_(True)


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

    def loses_more_than(self, most: float) -> bool:
        """Beyond chance."""
        return self.is_worse and self.gain < -most


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


Losses = Mapping[str, float]
"""Data set → what it may lose in nDCG@5, though beyond chance; one that is not named may lose nothing."""


def choose_strength(judged: Mapping[float, Sequence[Judged]], losses: Losses | None = None) -> float:
    """The one of the highest `mean_gain` at which nothing falls too far; 0 if none gains."""
    gains = {0.0: 0.0}
    for strength, rows in judged.items():
        if not any(_prevents(row, losses or {}) for row in rows):
            gains[strength] = mean_gain(rows)
    return max(gains, key=lambda strength: (gains[strength], -strength))


def mean_gain(rows: Sequence[Judged]) -> float:
    """In nDCG@5: the mean over data sets, of each the mean of its rows."""
    gains: dict[str, list[float]] = {}
    for row in rows:
        if row.metric == CHOSEN_BY:
            gains.setdefault(row.dataset, []).append(row.gain)
    return fmean(map(fmean, gains.values()))


def _prevents(row: Judged, losses: Losses) -> bool:
    return row.metric == CHOSEN_BY and row.loses_more_than(losses.get(row.dataset, 0.0))


def card_of(
    training: Training,
    datasets: Sequence[Dataset],
    pairs: int,
    judged: Mapping[float, Sequence[Judged]],
    losses: Losses,
) -> dict[str, Any]:
    """What stands beside the model: how it was made, of what, by which licences, and what became better and worse.

    `worse`: what fell at the strength that was chosen; where none was, what forbade each.
    """
    strength = choose_strength(judged, losses)
    figures = [{"strength": each, **asdict(row)} for each, rows in judged.items() for row in rows]
    fell = [row for row in judged.get(strength, ()) if row.gain < 0]
    prevented = [row for rows in judged.values() for row in rows if _prevents(row, losses)]
    return {
        "training": asdict(training),
        "pairs": pairs,
        "data": describe_data(datasets),
        "strength": strength,
        "figures": figures,
        "worse": [asdict(row) for row in (fell if strength else prevented)],
        "mean_gains": {str(each): mean_gain(judged[each]) for each in judged},
    }


def describe_data(datasets: Sequence[Dataset]) -> list[dict[str, str]]:
    """As cards have it."""
    told = ("name", "origin", "license", "checksum")
    return [{name: getattr(each, name) for name in told} for each in datasets]
