"""A file with a line a query: what was answered and how good it was. A run that was stopped asks none of it again."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from waygraph.registry.model.errors import InvalidDataset, StorageFailed
from waygraph.registry.model.files import write_named
from waygraph.registry.model.nouns import Agent, Tool, Vote
from waygraph_lab.evaluation.dataset import Asked
from waygraph_lab.evaluation.record import explained_agents
from waygraph_lab.evaluation.run import Answer, Judgement, Trial

if TYPE_CHECKING:
    from waygraph.registry.storage.local_registry import LocalRegistry
    from waygraph.registry.taxonomy.tree import Taxonomy

type Line = dict[str, Any]
_UTF8 = ("utf-8", "surrogatepass")
"""A query may hold half of a surrogate pair, as JSON may."""


class AnswerLines:
    """Former answers and new ones. Threads may share it. Raises InvalidDataset for a file of something else."""

    def __init__(self, file: Path) -> None:
        self._file, self._lock = file, Lock()
        self._lines = _read_lines(file)
        self._former = {key for key, line in self._lines.items() if not line["failure"]}
        self.kept = 0
        """How many queries were answered by a former run."""

    def of_trial(self, registry: "LocalRegistry", trial: Trial, tree: "Taxonomy | None") -> "TrialLines":
        """`tree`: the one that is walked."""
        return TrialLines(self, trial, _digest_of(registry, trial, tree))

    def find(self, key: str) -> Line | None:
        with self._lock:
            if key not in self._former:
                return None
            self.kept += 1
            return self._lines[key]

    def holds(self, key: str) -> bool:
        return key in self._former

    def add(self, key: str, line: Line) -> None:
        """Raises StorageFailed."""
        with self._lock:
            self._lines[key] = line
            try:
                self._file.parent.mkdir(parents=True, exist_ok=True)
                with self._file.open("ab") as file:
                    file.write(_text_of(line).encode(*_UTF8))
            except OSError as error:
                raise StorageFailed(f"{self._file} cannot be written: {error.strerror}") from error

    def close(self) -> None:
        """Leaves one line a query: of one that failed and was asked again the last. Raises StorageFailed."""
        content = "".join(map(_text_of, self._lines.values()))
        if self._file.is_file() and self._file.stat().st_size != len(content.encode(*_UTF8)):
            write_named(self._file, content)


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
        return _sha(self.digest, asked.id, list(asked.texts), history, bool(asked.gold_tools))


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
    return _sha(
        version("waygraph"),
        sorted((each.id, each.content_hash) for each in nouns),
        tree.as_json()["categories"] if tree and recipe.walk else [],
        [asdict(recipe), trial.by, registry.status().state.texts, trial.embedder or settings.embedder],
        [settings.walk if recipe.walk else "", settings.rerank if recipe.rerank else "", settings.openai_body],
        [_digest_of_file(spec) for spec in (settings.rerank, recipe.rerank.spec)] if recipe.rerank else [],
    )


def _digest_of_file(spec: str) -> str:
    """Of a ranker's file, which may be learnt anew under the same name; empty for any other reranker."""
    scheme, _, file = spec.partition(":")
    return sha256(Path(file).read_bytes()).hexdigest() if scheme == "ranker" else ""


def _sha(*parts: object) -> str:
    return sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()


def _text_of(line: Line) -> str:
    return json.dumps(line, ensure_ascii=False) + "\n"


def _read_lines(file: Path) -> dict[str, Line]:
    """By key; a last line that a kill cut short is dropped from the file. Raises InvalidDataset."""
    if not file.exists():
        return {}
    try:
        content = file.read_bytes()
        whole = content[: content.rfind(b"\n") + 1]
        lines = {line["key"]: line for line in map(json.loads, whole.decode(*_UTF8).split("\n")[:-1])}
        for line in lines.values():
            _answer_of(line)
        if whole and whole != content:
            file.write_bytes(whole)
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise InvalidDataset(str(file), f"holds no lines of `waygraph eval --lines`: {error!r}") from error
    return lines
