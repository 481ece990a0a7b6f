"""From a folder to a Dataset, whichever format it has."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from waygraph.ingest.manifest.records import Intake, Manifest
from waygraph.ingest.sources.formats.listings import service_record
from waygraph.ingest.sources.read import read_path
from waygraph.registry.model.errors import InvalidDataset
from waygraph.registry.model.settings import Settings
from waygraph_lab.datasets.conversations import AGENTS, TRAJECTORIES, CatalogueNames, checksum
from waygraph_lab.datasets.decisions import read_decisions
from waygraph_lab.datasets.folder import FILES, gold_agents, gold_tools, read_folder
from waygraph_lab.evaluation.dataset import Dataset, Need, Question

SERVICES, A2X_QUERIES = "service.json", "query.json"
A2X_FILES = (SERVICES, A2X_QUERIES)


def read_a2x(path: Path, _settings: Settings) -> Dataset:
    """Raises InvalidDataset."""
    catalogue = _a2x_catalogue(path / SERVICES)
    known = CatalogueNames.of(catalogue)
    return Dataset(
        name=path.name,
        origin="Weizheng96/A2X-registry-demo-data",
        checksum=checksum([path / name for name in A2X_FILES]),
        catalogue=catalogue,
        questions=tuple(
            _a2x_question(record, known, f"{path / A2X_QUERIES}#/{number}")
            for number, record in enumerate(_a2x_records(path / A2X_QUERIES))
        ),
    )


def _a2x_records(path: Path) -> list[Mapping[str, Any]]:
    try:
        records = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise InvalidDataset(str(path), f"cannot be read: {error}") from error
    if not isinstance(records, list) or not all(isinstance(record, Mapping) for record in records):
        raise InvalidDataset(str(path), "expected a list of objects")
    return records


def _a2x_catalogue(path: Path) -> Manifest:
    intake = Intake(str(path))
    for number, service in enumerate(_a2x_records(path)):
        intake.take(service_record(service, f"/{number}"))
    return Manifest(source=str(path), entries=tuple(intake.entries), rejected=tuple(intake.rejected))


def _a2x_question(record: Mapping[str, Any], known: CatalogueNames, where: str) -> Question:
    try:
        text, right = record["query"], [[str(tool["id"])] for tool in record["correct_tools"]]
        name = str(record["id"])
    except (LookupError, TypeError) as error:
        raise InvalidDataset(where, f"expected id, query and correct_tools: {error!r}") from error
    if not isinstance(text, str) or not text.strip():
        raise InvalidDataset(where, "a query needs a text")
    return Question(id=name, need=Need(text=text, gold=gold_agents(known, right, where)))


TOOLS, STEPS = "tools.json", "steps_aligned.json"
LIVEMCPBENCH_FILES = (TOOLS, STEPS)


def read_livemcpbench(path: Path, settings: Settings) -> Dataset:
    """Raises InvalidDataset."""
    (catalogue,) = read_path(str(path / TOOLS), settings)
    known = CatalogueNames.of(catalogue)
    try:
        tasks = json.loads((path / STEPS).read_bytes())
        questions = tuple(
            _livemcpbench_question(task, known, f"{path / STEPS}#/{number}") for number, task in enumerate(tasks)
        )
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise InvalidDataset(str(path / STEPS), f"is not as expected: {error!r}") from error
    return Dataset(
        name="LiveMCPBench",
        origin="icip-cas/LiveMCPBench; steps and tools aligned to servers by this project",
        license="Apache-2.0",
        checksum=checksum([path / name for name in LIVEMCPBENCH_FILES]),
        catalogue=catalogue,
        questions=questions,
        unsatisfiable=sum(not tool["agents_any_of"] for task in tasks for tool in task["tools"]),
    )


def _livemcpbench_question(task: Mapping[str, Any], known: CatalogueNames, where: str) -> Question:
    return Question(
        id=str(task["index"]),
        need=_livemcpbench_need(task["question"], task["tools"], known, where),
        steps=tuple(
            _livemcpbench_need(step["text"], step["tools"], known, f"{where}/steps/{number}")
            for number, step in enumerate(task["steps"])
        ),
    )


def _livemcpbench_need(text: str, annotated: Iterable[Mapping[str, Any]], known: CatalogueNames, where: str) -> Need:
    """A tool that no server of the corpus has is no gold."""
    met = [tool for tool in annotated if tool["agents_any_of"]]
    return Need(
        text=text,
        gold=gold_agents(known, (tool["agents_any_of"] for tool in met), where),
        gold_tools=gold_tools(known, ([f"{key}/{t['tool']}" for key in t["agents_any_of"]] for t in met), where),
    )


FORMATS: Sequence[tuple[Sequence[str], Callable[[Path, Settings], Dataset]]] = (
    (FILES, read_folder),
    ((AGENTS, TRAJECTORIES), read_decisions),
    (LIVEMCPBENCH_FILES, read_livemcpbench),
    (A2X_FILES, read_a2x),
)
"""The files that must be there, and who reads them."""


def read_dataset(path: Path, settings: Settings) -> Dataset:
    """Raises InvalidDataset, which says where and why."""
    for files, read in FORMATS:
        if all((path / name).is_file() for name in files):
            dataset = read(path, settings)
            _refuse_repeats(dataset, path)
            return dataset
    known = "; or ".join(" and ".join(files) for files, _ in FORMATS)
    raise InvalidDataset(str(path), f"is no dataset: a folder that holds {known}")


def _refuse_repeats(dataset: Dataset, path: Path) -> None:
    """By its id a query is told in records, and found again in another."""
    seen: set[str] = set()
    for question in dataset.questions:
        if question.id in seen:
            raise InvalidDataset(str(path), f"a second query {question.id!r}")
        seen.add(question.id)
