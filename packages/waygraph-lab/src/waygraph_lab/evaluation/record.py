"""What an evaluation leaves behind, as JSON: enough to repeat it, to draw tables, and to compare two of them."""

import json
import os
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from waygraph.registry.model.errors import InvalidDataset, StorageFailed
from waygraph.registry.model.files import write_named
from waygraph.registry.model.numbers import read_number, read_whole
from waygraph_lab.evaluation.dataset import Dataset
from waygraph_lab.evaluation.metrics import Mean
from waygraph_lab.evaluation.run import Judgement, Outcome

CHECKOUT = Path(__file__).resolve().parents[5]
"""The root of the project in a checkout; in an installation a folder that is no checkout."""
NO_CODE = ("evals", "docs", "*.md")
"""What makes no figure another: records that a run has just written, and documents."""


def source_commit(folder: Path = CHECKOUT) -> str:
    """The short commit that `folder` has checked out, `+changes` if its tracked files but `NO_CODE` differ from it.

    Empty if the folder is not itself the root of a checkout: what is installed into somebody's project does not
    carry that project's commit. Empty without git too.
    """
    root = _git(folder, "rev-parse", "--show-toplevel")
    if not root or Path(root) != folder.resolve():
        return ""
    commit = _git(folder, "rev-parse", "--short", "HEAD")
    code = (".", *(f":(exclude){path}" for path in NO_CODE))
    changed = _git(folder, "status", "--porcelain", "--untracked-files=no", "--", *code)
    return f"{commit}+changes" if commit and changed else commit


def _git(folder: Path, *arguments: str) -> str:
    """What git prints; empty if it fails, is not there, or takes longer than 10 s.

    Variables such as GIT_DIR, which a hook sets, speak of another checkout.
    """
    command = ["git", "--no-optional-locks", "-C", str(folder), *arguments]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


KIND = "waygraph evaluation 1"
TEXT_CHARS = 300
"""Of a query's text; page-long ones are not kept whole."""
EXPLAINED = 3
"""Agents whose votes are kept, beside the right ones."""

Record = Mapping[str, Any]
Kind = type | Callable[[object], bool]
Shape = Mapping[str, Kind]


def record_of(dataset: Dataset, outcomes: Iterable[Outcome], about: Mapping[str, Any]) -> dict[str, Any]:
    """`about`: command, date, version, commit: what only the caller knows."""
    measured = [_outcome(outcome) for outcome in outcomes]
    return {"kind": KIND, **about, "dataset": dataset_summary(dataset), "outcomes": measured}


def dataset_summary(dataset: Dataset) -> dict[str, Any]:
    """What a record says of its dataset."""
    return {
        "name": dataset.name,
        "origin": dataset.origin,
        "license": dataset.license,
        "checksum": dataset.checksum,
        "unsatisfiable": dataset.unsatisfiable,
        **dataset.size,
    }


def summary_of(record: Record) -> dict[str, Any]:
    """The record without its queries."""
    outcomes = [{key: part for key, part in o.items() if key != "queries"} for o in record["outcomes"]]
    return {**record, "outcomes": outcomes}


def write_record(record: Record, path: Path) -> None:
    """Makes the folder too. Raises StorageFailed; the file is then as it was."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise StorageFailed(f"{path.parent} cannot be made: {exc.strerror}") from exc
    write_named(path, json.dumps(record, ensure_ascii=False, indent=1) + "\n")


def refuse_unwritable(path: Path) -> None:
    """Before long work whose record goes there. Raises StorageFailed."""
    try:
        place = path.resolve()
        folder = next(each for each in place.parents if each.exists())
        fits = folder.is_dir() and not place.is_dir()
    except OSError as exc:
        raise StorageFailed(f"{path} cannot be written: {exc.strerror}") from exc
    if not fits:
        raise StorageFailed(
            f"{path} cannot be written: {'it is a folder' if place.is_dir() else f'{folder} is no folder'}"
        )
    if (place.is_file() or not place.exists()) and not os.access(folder, os.W_OK | os.X_OK):
        raise StorageFailed(f"{path} cannot be written: in {folder} you may not")


def read_record(path: Path, *, with_queries: bool = False) -> Record:
    """Raises InvalidDataset for a file that is no record, or that lacks its queries where they are needed."""
    try:
        record = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise InvalidDataset(str(path), f"cannot be read: {error}") from error
    if not isinstance(record, Mapping) or record.get("kind") != KIND:
        raise InvalidDataset(str(path), "is no record of `waygraph eval`")
    for fault in _faults(record, with_queries=with_queries):
        raise InvalidDataset(str(path), fault)
    return record


def _faults(record: Record, *, with_queries: bool) -> Iterator[str]:
    dataset, outcomes = record.get("dataset"), record.get("outcomes")
    if not _holds(dataset, _DATASET) or not isinstance(outcomes, list) or not outcomes:
        yield "is no whole record: expected a dataset and its outcomes"
        return
    for number, outcome in enumerate(outcomes, start=1):
        if not (_holds(outcome, _OUTCOME) and _holds(outcome["recipe"], _RECIPE)):
            yield f"outcome {number} is not whole"
            continue
        for level in ("agents", "tools"):
            for metric, estimate in outcome[level].items():
                if not _is_estimate(estimate):
                    yield f"outcome {number}, {level}, {metric}: expected [value, low, high] with low ≤ value ≤ high"
        queries = outcome.get("queries", [])
        if not isinstance(queries, list) or not all(map(_is_query, queries)):
            yield f"outcome {number} holds a query that is not whole"
        elif with_queries and not queries:
            yield f"outcome {number} holds no queries; `waygraph eval DIR -o FILE` writes them"


def _is_number(value: object) -> bool:
    return read_number(value) is not None


def _is_count(value: object) -> bool:
    return read_whole(value, 0) is not None


_DATASET: Shape = {"name": str, "checksum": str}
_RECIPE: Shape = {"name": str, "agent_weight": _is_number, "tool_weight": _is_number}
_OUTCOME: Shape = {
    **dict.fromkeys(("name", "by", "split", "texts", "embedder"), str),
    **dict.fromkeys(("judged", "withheld"), _is_count),
    "p50_ms": _is_number,
    **dict.fromkeys(("recipe", "agents", "tools"), dict),
}
_QUERY: Shape = {"id": str, "text": str, "gold": list, "agents": list, "votes": dict}
_VOTE: tuple[Kind, ...] = (str, str, _is_count, _is_number)
"""What tables, plots and differences read, and its type."""


def _is_estimate(value: object) -> bool:
    if not isinstance(value, list) or len(value) != 3 or not all(map(_is_number, value)):
        return False
    mean, low, high = value
    return bool(low <= mean <= high)


def _is_query(query: object) -> bool:
    if not isinstance(query, Mapping) or not _holds(query, _QUERY):
        return False
    lists = [query["agents"], *query["gold"]]
    votes = [vote for each in query["votes"].values() for vote in (each if isinstance(each, list) else [each])]
    return bool(query["gold"]) and all(map(_is_names, lists)) and all(map(_is_vote, votes))


def _is_names(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _is_vote(value: object) -> bool:
    """Leg, entity, rank, contribution."""
    if not isinstance(value, list) or len(value) != len(_VOTE):
        return False
    return all(_is(part, kind) for part, kind in zip(value, _VOTE, strict=True))


def _holds(value: object, shape: Shape) -> bool:
    return isinstance(value, Mapping) and all(_is(value.get(name), kind) for name, kind in shape.items())


def _is(value: object, kind: Kind) -> bool:
    return isinstance(value, kind) if isinstance(kind, type) else kind(value)


def _outcome(outcome: Outcome) -> dict[str, Any]:
    trial = outcome.trial
    return {
        "name": trial.name,
        "by": trial.by,
        "split": trial.split,
        "recipe": asdict(trial.recipe),
        "texts": trial.texts,
        "embedder": outcome.fingerprint,
        "revision": outcome.revision,
        "judged": len(outcome.judgements),
        "judged_tools": sum(bool(judgement.tool_metrics) for judgement in outcome.judgements),
        "withheld": sum(not (each.agents or each.failure) for each in outcome.judgements),
        "p50_ms": round(outcome.p50_ms, 3),
        "p95_ms": round(outcome.p95_ms, 3),
        "failures": dict(outcome.failures),
        "agents": _means(outcome.agents),
        "tools": _means(outcome.tools),
        "sets": _means(outcome.sets),
        "queries": [_query(judgement) for judgement in outcome.judgements],
    }


def _means(means: Mapping[str, Mean]) -> dict[str, list[float]]:
    """Metric → value, low, high."""
    return {name: [round(mean.value, 4), round(mean.low, 4), round(mean.high, 4)] for name, mean in means.items()}


def explained_agents(judgement: Judgement) -> list[str]:
    """Those whose votes are kept, as they are ranked."""
    right = {agent for item in judgement.gold for agent in item}
    explained = {*judgement.agents[:EXPLAINED], *right} & judgement.votes.keys()
    return [agent for agent in judgement.agents if agent in explained]


def _query(judgement: Judgement) -> dict[str, Any]:
    return {
        "id": judgement.id,
        "text": judgement.text[:TEXT_CHARS],
        "gold": [sorted(item) for item in judgement.gold],
        "agents": list(judgement.agents),
        "tools": list(judgement.tools),
        "votes": {agent: _votes(judgement, agent) for agent in explained_agents(judgement)},
        "failure": judgement.failure,
    }


def _votes(judgement: Judgement, agent: str) -> Sequence[Sequence[Any]]:
    """Leg, entity, rank and contribution of each."""
    return [[v.leg, v.entity_id, v.rank, round(v.contribution, 5)] for v in judgement.votes[agent]]
