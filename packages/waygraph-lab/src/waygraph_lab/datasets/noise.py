"""Noise conditions of ToolACE-MCP (section 4.3): tools beside those of a dataset, none of which is right."""

import tempfile
from dataclasses import replace
from pathlib import Path

from waygraph.ingest.manifest.records import Manifest
from waygraph.registry.model.errors import InvalidDataset, InvalidSetting
from waygraph.registry.model.settings import Settings
from waygraph_lab.datasets.conversations import read_catalogue
from waygraph_lab.evaluation.dataset import Dataset
from waygraph_lab.synthesis.mutation_rules import RuleAuthor
from waygraph_lab.synthesis.mutations import evolve, write_mutations
from waygraph_lab.synthesis.orders import RULES, Order

NONE, EXTERNAL, MUTATION = "none", "external", "mutation"
"""`external:SOURCE`: tools of another catalogue (the paper's +LiveMCP). `mutation`: as many made-up variants of the
dataset's own tools as it has (+Mutation), by rules; `mutation:DIR`: those that `waygraph generate mutations` wrote."""


def check_noise(spec: str) -> None:
    """Raises InvalidSetting."""
    kind, _, source = spec.partition(":")
    if spec not in (NONE, MUTATION) and not (source and kind in (EXTERNAL, MUTATION)):
        raise InvalidSetting(f"--noise {spec!r}: expected {NONE}, {EXTERNAL}:SOURCE, {MUTATION} or {MUTATION}:DIR")


def read_noise(spec: str, dataset: Dataset, settings: Settings) -> Manifest | None:
    """None without noise. Raises InvalidDataset if the source has no other agents than the dataset, SourceError."""
    kind, _, source = spec.partition(":")
    if kind == NONE:
        return None
    found = read_catalogue(source, settings) if source else _mutate(dataset.catalogue, settings)
    own = {entry.agent.id for entry in dataset.catalogue.entries}
    entries = tuple(entry for entry in found.entries if entry.agent.id not in own)
    if not entries:
        raise InvalidDataset(source or dataset.name, "has no agents but the dataset's own")
    return replace(found, source=f"noise {spec}", entries=entries)


def _mutate(catalogue: Manifest, settings: Settings) -> Manifest:
    """The same for the same catalogue."""
    count = sum(len(entry.tools) for entry in catalogue.entries)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / MUTATION
        write_mutations(folder, evolve(catalogue, "tools", RuleAuthor(), Order(by=RULES, count=count)))
        return read_catalogue(str(folder), settings)
