"""What is handed to every benchmark: places, settings, and registries over them."""

import json
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.catalogue import catalogue
from benchmarks.record import PROJECT
from waygraph.ingest.sources import read_path
from waygraph.ingest.sync import sync
from waygraph.registry.embedding.factory import open_embedder
from waygraph.registry.registry import Registry
from waygraph.registry.settings import DEFAULT_EMBEDDER, Settings

if TYPE_CHECKING:
    from waygraph.registry.embedding.protocol import Embedder, Progress
    from waygraph.registry.model import TextForm

FLOAT32 = f"{DEFAULT_EMBEDDER}?precision=float32"
PRECISIONS: Mapping[str, str] = {"int8": DEFAULT_EMBEDDER, "float32": FLOAT32}


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """`data` is the folder of shared data sets, `examples` the project's own; `cache` keeps what is slow to make."""

    settings: Settings
    environ: Mapping[str, str]
    data: Path
    cache: Path
    examples: Path = PROJECT / "examples"
    quick: bool = False

    def embedder(self, spec: str = DEFAULT_EMBEDDER) -> "Embedder":
        """The bare embedder: no cache of queries or documents."""
        opened = open_embedder(spec, self.settings, self.environ)
        assert opened is not None
        return opened

    @contextmanager
    def registry_of(self, source: Path, *, texts: "TextForm", embedder: str = DEFAULT_EMBEDDER) -> Iterator[Registry]:
        """A registry of one file or folder, gone at the end."""
        with (
            scratch_folder() as folder,
            Registry.open(
                folder / "bench.grafeo", embedder=embedder, settings=self.settings, environ=self.environ
            ) as registry,
        ):
            for manifest in read_path(str(source), self.settings):
                sync(registry, manifest, texts=texts, progress=shown("embedding"))
            yield registry

    @contextmanager
    def registry_of_tools(self, tools: int) -> Iterator[Registry]:
        """A registry of an invented catalogue; its vectors are kept in the benchmark's own cache folder."""
        here = replace(self, settings=with_cache(self.settings, self.cache))
        with scratch_folder() as folder:
            source = write_catalogue(folder, tools)
            with here.registry_of(source, texts="contextual") as registry:
                yield registry


def with_cache(settings: Settings, cache: Path) -> Settings:
    """The same settings with another cache folder, which shares the models of the present one."""
    cache.mkdir(parents=True, exist_ok=True)
    models = settings.cache_path / "models"
    models.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        (cache / "models").symlink_to(models, target_is_directory=True)
    return replace(settings, cache_dir=str(cache))


def write_catalogue(folder: Path, tools: int) -> Path:
    path = folder / f"invented-{tools}.json"
    path.write_text(json.dumps(catalogue(tools)), encoding="utf-8")
    return path


@contextmanager
def scratch_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="waygraph-bench-") as folder:
        yield Path(folder)


def shown(what: str, every_s: float = 2.0) -> "Progress":
    """Tells of progress on stderr, at most once in `every_s`."""
    last = time.monotonic()

    def show(done: int, total: int) -> None:
        nonlocal last
        if time.monotonic() - last >= every_s:
            last = time.monotonic()
            print(f"{what}: {done} of {total}", file=sys.stderr)

    return show
