"""What is handed to every benchmark: places, settings, and registries over them."""

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from waygraph.ingest.sources import read_path
from waygraph.ingest.sync import sync
from waygraph.registry.embedding.factory import open_embedder
from waygraph.registry.registry import Registry
from waygraph.registry.settings import DEFAULT_EMBEDDER, Settings

from benchmarks.record import PROJECT

if TYPE_CHECKING:
    from waygraph.registry.model import TextForm

FLOAT32 = f"{DEFAULT_EMBEDDER}?precision=float32"
PRECISIONS: Mapping[str, str] = {"int8": DEFAULT_EMBEDDER, "float32": FLOAT32}


def fingerprint(world: "World", embedder: str = DEFAULT_EMBEDDER) -> str:
    opened = open_embedder(embedder, world.settings, world.environ)
    return opened.fingerprint if opened else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """`data` is the folder of shared data sets, `examples` the project's own; `cache` keeps what is slow to make."""

    settings: Settings
    environ: Mapping[str, str]
    data: Path
    cache: Path
    examples: Path = PROJECT / "examples"
    quick: bool = False

    @contextmanager
    def registry_of(self, source: Path, *, texts: "TextForm", embedder: str = DEFAULT_EMBEDDER) -> Iterator[Registry]:
        """A registry of one file or folder, gone at the end."""
        with (
            tempfile.TemporaryDirectory(prefix="waygraph-bench-") as folder,
            Registry.open(
                Path(folder) / "bench.grafeo", embedder=embedder, settings=self.settings, environ=self.environ
            ) as registry,
        ):
            for manifest in read_path(str(source), self.settings):
                sync(registry, manifest, texts=texts)
            yield registry
