"""LiveMCPBench: `tools.json`, and `steps_aligned.json`, which resolves its annotations to servers and tools."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from waygraph.ingest.datasets.folder import Known, checksum
from waygraph.ingest.sources.read import read_path
from waygraph.registry.evaluation.dataset import Dataset, Need, Question
from waygraph.registry.model.errors import InvalidDataset
from waygraph.registry.model.settings import Settings

TOOLS, STEPS = "tools.json", "steps_aligned.json"
FILES = (TOOLS, STEPS)


def read(path: Path, settings: Settings) -> Dataset:
    """Raises InvalidDataset."""
    (catalogue,) = read_path(str(path / TOOLS), settings)
    known = Known.of(catalogue)
    try:
        tasks = json.loads((path / STEPS).read_bytes())
        questions = tuple(_question(task, known, f"{path / STEPS}#/{number}") for number, task in enumerate(tasks))
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise InvalidDataset(str(path / STEPS), f"is not as expected: {error!r}") from error
    return Dataset(
        name="LiveMCPBench",
        origin="icip-cas/LiveMCPBench; steps and tools aligned to servers by this project",
        license="Apache-2.0",
        checksum=checksum([path / name for name in FILES]),
        catalogue=catalogue,
        questions=questions,
        unsatisfiable=sum(not tool["agents_any_of"] for task in tasks for tool in task["tools"]),
    )


def _question(task: Mapping[str, Any], known: Known, where: str) -> Question:
    return Question(
        id=str(task["index"]),
        need=_need(task["question"], task["tools"], known, where),
        steps=tuple(
            _need(step["text"], step["tools"], known, f"{where}/steps/{number}")
            for number, step in enumerate(task["steps"])
        ),
    )


def _need(text: str, annotated: Iterable[Mapping[str, Any]], known: Known, where: str) -> Need:
    """A tool that no server of the corpus has is no gold."""
    met = [tool for tool in annotated if tool["agents_any_of"]]
    return Need(
        text=text,
        gold=known.agents_of((tool["agents_any_of"] for tool in met), where),
        gold_tools=known.tools_of(([f"{key}/{t['tool']}" for key in t["agents_any_of"]] for t in met), where),
    )
