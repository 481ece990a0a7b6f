"""A file with a line a query: what was answered and how good it was. A run that was stopped asks none of it again."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from waygraph.registry.model.nouns import Agent, Tool, Vote
from waygraph_lab.evaluation.asking import KeptLines, Line, key_of
from waygraph_lab.evaluation.dataset import Asked
from waygraph_lab.evaluation.record import explained_agents
from waygraph_lab.evaluation.run import Answer, Judgement, Trial

if TYPE_CHECKING:
    from waygraph.registry.storage.local_registry import LocalRegistry
    from waygraph.registry.taxonomy.tree import Taxonomy


class AnswerLines(KeptLines):
    """Of `waygraph eval`. Raises InvalidDataset for a file of something else."""

    def __init__(self, file: Path) -> None:
        super().__init__(file, _answer_of, "`waygraph eval --lines`")

    def of_trial(self, registry: "LocalRegistry", trial: Trial, tree: "Taxonomy | None") -> "TrialLines":
        """`tree`: the one that is walked."""
        return TrialLines(self, trial, _digest_of(registry, trial, tree))


@dataclass(frozen=True, slots=True)
class TrialLines:
    """The lines of one trial. `digest`: of all but the query that an answer depends on."""

    lines: AnswerLines
    trial: Trial
    digest: str

    def find(self, asked: Asked) -> Answer | None:
        """A former answer that is none of a failure."""
        line = self.lines.find(self._key(asked))
        return _answer_of(line) if line else None

    def holds(self, asked: Asked) -> bool:
        return self.lines.holds(self._key(asked))

    def add(self, asked: Asked, answer: Answer, judgement: Judgement) -> None:
        """Raises StorageFailed."""
        key = self._key(asked)
        about = {"key": key, "trial": self.trial.name, "by": self.trial.by, "id": asked.id, "text": judgement.text}
        gold = {
            "gold": [sorted(item) for item in asked.gold],
            "gold_tools": [sorted(item) for item in asked.gold_tools],
        }
        metrics = {name: _rounded(getattr(judgement, name)) for name in _METRICS}
        self.lines.add(key, about | gold | _line_of(answer, explained_agents(judgement)) | metrics)

    def _key(self, asked: Asked) -> str:
        history = [asdict(turn) for turn in asked.history]
        return key_of(self.digest, asked.id, list(asked.texts), history, bool(asked.gold_tools))


_METRICS = ("agent_metrics", "tool_metrics", "set_metrics")


def _rounded(metrics: Mapping[str, float]) -> dict[str, float]:
    return {name: round(value, 4) for name, value in metrics.items()}


def _line_of(answer: Answer, explained: Sequence[str]) -> Line:
    return {
        "agents": list(answer.agents),
        "tools": None if answer.tools is None else list(answer.tools),
        "votes": {agent: [list(vote) for vote in answer.votes[agent]] for agent in explained},
        "elapsed_ms": answer.elapsed_ms,
        "selected": None if answer.selected is None else list(answer.selected),
        "calls": answer.calls,
        "tokens": answer.tokens,
        "failure": answer.failure,
    }


def _answer_of(line: Line) -> Answer:
    tuples: Callable[[Any], Any] = lambda value: None if value is None else tuple(value)  # noqa: E731
    return Answer(
        agents=tuple(line["agents"]),
        tools=tuples(line["tools"]),
        votes={agent: tuple(Vote(*vote) for vote in votes) for agent, votes in line["votes"].items()},
        elapsed_ms=line["elapsed_ms"],
        selected=tuples(line["selected"]),
        calls=line["calls"],
        tokens=line["tokens"],
    )


def _digest_of(registry: "LocalRegistry", trial: Trial, tree: "Taxonomy | None") -> str:
    """Of the catalogue, the tree, the way of routing, and this version of it."""
    settings, recipe = registry.settings, trial.recipe
    nouns: list[Agent | Tool] = [*registry.agents(), *registry.tools()]
    return key_of(
        version("waygraph"),
        sorted((each.id, each.content_hash) for each in nouns),
        tree.as_json()["categories"] if tree and recipe.walk else [],
        [asdict(recipe), trial.by, registry.status().state.texts, trial.embedder or settings.embedder],
        [settings.walk if recipe.walk else "", settings.rerank if recipe.rerank else "", settings.openai_body],
        [digest_of_file(spec) for spec in (settings.rerank, recipe.rerank.spec)] if recipe.rerank else [],
    )


def digest_of_file(spec: str) -> str:
    """Of a ranker's file, which may be learnt anew under the same name; empty for any other reranker."""
    scheme, _, file = spec.partition(":")
    return sha256(Path(file).read_bytes()).hexdigest() if scheme == "ranker" else ""
