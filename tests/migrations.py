"""A registry with something of every kind, to be copied, and programs that are killed while they copy it."""

import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path

from tests.fake_openai import KEY, FakeOpenAI, fake_openai
from waygraph.ingest.manifest.records import Manifest
from waygraph.ingest.sources.read import read_path
from waygraph.ingest.sync.apply import sync
from waygraph.registry.index.local.file import folder_of
from waygraph.registry.model.settings import Settings
from waygraph.registry.registry import Registry
from waygraph.registry.storage import migrate
from waygraph.registry.storage.migrate import migrate_at

EXAMPLES = Path(__file__).parents[1] / "examples" / "catalog"
EMBEDDER = "openai:any-model"
ROWS = 60
"""Of a part, so that the example catalogue takes several."""
REQUESTS = ("book a table for four", "convert 20 euros to yen", "harbor git", "reads mail")


class Richly:
    """Makes registries and opens them, all with vectors of one pretended endpoint."""

    def __init__(self, endpoint: FakeOpenAI, cache: Path) -> None:
        self.endpoint = endpoint
        self._environ = {"OPENAI_BASE_URL": endpoint.url, "OPENAI_API_KEY": KEY}
        self._cache = str(cache)

    def open(self, place: str | Path, settings: Settings | None = None) -> Registry:
        own = replace(settings or Settings(), cache_dir=self._cache)
        return Registry.open(place, embedder=EMBEDDER, settings=own, environ=self._environ)

    def fill(self, place: str | Path) -> None:
        """Two catalogues that share agents, a source that claims none, and an operator's words of every kind."""
        with self.open(place) as registry:
            for manifest in read_path(str(EXAMPLES), Settings(), source="catalogue"):
                sync(registry, manifest)
            for manifest in read_path(str(EXAMPLES / "bureau-fx.yaml"), Settings(), source="live"):
                sync(registry, replace(manifest, rank=1))
            sync(registry, Manifest(source="nothing yet", namespace="later"))
            registry.operator.set("bureau-fx", pinned=True, tags=["approved", "läuft"])
            registry.operator.set("ledgerleaf", visible_to=["finance"])
            registry.operator.set("harbor-git", hidden=True)
            registry.operator.remove("skylark-travel")

    def routes(self, place: str | Path, settings: Settings | None = None) -> list[object]:
        """What it answers: agents with scores, votes' entities and legs, tools, pinned agents."""
        with self.open(place, settings) as registry:
            found = [registry.route(text, recipe=recipe) for text in REQUESTS for recipe in ("hybrid", "lexical")]
        return [(answer.matches, answer.pinned, answer.revision) for answer in found]


@contextmanager
def richly(folder: Path) -> Iterator[Richly]:
    with fake_openai() as endpoint:
        yield Richly(endpoint, folder / "cache")


def taken_from(source: Path, path: Path) -> Path:
    """The same registry in a file of its own."""
    shutil.copy(source, path)
    shutil.copytree(folder_of(source), folder_of(path))
    return path


def files_of(path: Path) -> Mapping[str, bytes]:
    """The registry's files, by name, without a copy that was made to be read, and what readers share."""
    found = {path, *path.parent.glob(f"{path.name}.*/**/*")} - {*path.parent.glob("*.index/graph-*/**/*")}
    return {str(file): file.read_bytes() for file in found if file.is_file() and file.suffix != ".sqlite-shm"}


# -- programs; the first argument is the pipe to the test ----------------------------------------------


def copy_and_stop_half_way(pipe: Connection, source: str, target: str, settings: Settings, parts: int) -> None:
    """Says `half-way` after so many parts of ROWS rows, and waits there."""
    setattr(migrate, "BATCH_ROWS", ROWS)  # noqa: B010 - a name that it imports
    told: list[int] = []

    def progress(done: int, total: int) -> None:
        told.append(done)
        if len(told) == parts:
            pipe.send("half-way")
            time.sleep(60)

    migrate_at(source, target, settings, progress)
