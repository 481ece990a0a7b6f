"""A2X's sets: `service.json`, flat services that count as agents without tools, and `query.json`."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from waygraph.ingest.datasets.folder import Known, checksum
from waygraph.ingest.manifest.records import Intake
from waygraph.ingest.sources.formats import service_list
from waygraph.registry.evaluation.dataset import Dataset, Need, Question
from waygraph.registry.model.changes import Manifest
from waygraph.registry.model.errors import InvalidDataset
from waygraph.registry.model.settings import Settings

SERVICES, QUERIES = "service.json", "query.json"
FILES = (SERVICES, QUERIES)


def read(path: Path, settings: Settings) -> Dataset:
    """Raises InvalidDataset."""
    catalogue = _catalogue(path / SERVICES, settings)
    known = Known.of(catalogue)
    return Dataset(
        name=path.name,
        origin="Weizheng96/A2X-registry-demo-data",
        checksum=checksum([path / name for name in FILES]),
        catalogue=catalogue,
        questions=tuple(
            _question(record, known, f"{path / QUERIES}#/{number}")
            for number, record in enumerate(_records(path / QUERIES))
        ),
    )


def _records(path: Path) -> list[Mapping[str, Any]]:
    try:
        records = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise InvalidDataset(str(path), f"cannot be read: {error}") from error
    if not isinstance(records, list) or not all(isinstance(record, Mapping) for record in records):
        raise InvalidDataset(str(path), "expected a list of objects")
    return records


def _catalogue(path: Path, settings: Settings) -> Manifest:
    intake = Intake(str(path), settings)
    for number, service in enumerate(_records(path)):
        intake.take(service_list.record(service, f"/{number}"))
    return Manifest(source=str(path), entries=tuple(intake.entries), rejected=tuple(intake.rejected))


def _question(record: Mapping[str, Any], known: Known, where: str) -> Question:
    try:
        text, right = record["query"], [[str(tool["id"])] for tool in record["correct_tools"]]
        name = str(record["id"])
    except (LookupError, TypeError) as error:
        raise InvalidDataset(where, f"expected id, query and correct_tools: {error!r}") from error
    if not isinstance(text, str) or not text.strip():
        raise InvalidDataset(where, "a query needs a text")
    return Question(id=name, need=Need(text=text, gold=known.agents_of(right, where)))
