"""From a folder to a Dataset, whichever format it has."""

from collections.abc import Callable, Sequence
from pathlib import Path

from waygraph.ingest.datasets import a2x, folder, livemcpbench_set
from waygraph.registry.evaluation.dataset import Dataset
from waygraph.registry.model.errors import InvalidDataset
from waygraph.registry.model.settings import Settings

FORMATS: Sequence[tuple[Sequence[str], Callable[[Path, Settings], Dataset]]] = (
    (folder.FILES, folder.read),
    (livemcpbench_set.FILES, livemcpbench_set.read),
    (a2x.FILES, a2x.read),
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
