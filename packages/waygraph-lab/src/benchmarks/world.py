"""What is handed to every benchmark: places, settings, and registries over them."""

import json
import re
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.catalogue import catalogue
from benchmarks.record import PROJECT
from waygraph.ingest.manifest.records import Manifest
from waygraph.ingest.sources.read import read_path
from waygraph.ingest.sync.apply import sync
from waygraph.registry.embedding.factory import open_embedder
from waygraph.registry.model.settings import DEFAULT_EMBEDDER, Settings
from waygraph.registry.storage.local_registry import LocalRegistry
from waygraph_lab.datasets.read_dataset import read_dataset
from waygraph_lab.datasets.trials import Bench
from waygraph_lab.evaluation.answer_lines import AnswerLines
from waygraph_lab.evaluation.asking import Asking, KeptLines, metered
from waygraph_lab.evaluation.dataset import Dataset
from waygraph_lab.evaluation.record import Record, record_of
from waygraph_lab.evaluation.run import Trial

if TYPE_CHECKING:
    from waygraph.registry.embedding.embedder import Embedder, Progress
    from waygraph.registry.model.nouns import TextForm

FLOAT32 = f"{DEFAULT_EMBEDDER}?precision=float32"
PRECISIONS: Mapping[str, str] = {"int8": DEFAULT_EMBEDDER, "float32": FLOAT32}
EXAMPLES, NATURAL = OWN = ("examples", "natural_requests")
"""The data sets of the project's own requests: to an invented catalogue, and to public servers."""
QUICK_QUESTIONS = 20
DATA_VARIABLE = "WAYGRAPH_BENCH_DATA"


def data_folder(environ: Mapping[str, str]) -> Path:
    """Of the shared data sets, where no option names it."""
    return Path(environ.get(DATA_VARIABLE) or PROJECT.parent / "shared" / "data")


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """`data` is the folder of shared data sets, `examples` the project's own; `cache` keeps what is slow to make."""

    settings: Settings
    environ: Mapping[str, str]
    data: Path
    cache: Path
    examples: Path = PROJECT / "examples"
    quick: bool = False
    configured: str = ""
    """The embedder that the user has chosen, if any: some benchmarks measure it beside the default one."""
    model: str = ""
    """`openai:MODEL`, which may be asked, though it costs money. Empty: none may."""
    sizes: tuple[int, ...] = ()
    """Numbers of tools, ascending, in place of a benchmark's own."""
    rounds: int = 0
    """How often, in place of a benchmark's own number; 0: that."""
    base: str = ""
    """A commit that is measured beside this checkout. Empty: none is."""
    jobs: int = 4
    """Queries at a time that a model is asked for."""
    lines: Path | None = None
    """The folder of files with a line a query that a model was asked for. None: one in the cache."""

    @property
    def models(self) -> Sequence[str]:
        """Those of `model`, which may be several, with commas between."""
        return [spec for spec in self.model.split(",") if spec]

    @contextmanager
    def asking(self, name: str) -> Iterator[Asking]:
        """For a benchmark that asks a model. At the end it is told what was asked, and where the lines are.

        Raises QueryFailed if a query failed: the next run asks it alone.
        """
        kept = KeptLines(self.line_file(name))
        asking = Asking(lines=kept, at_once=self.jobs)
        with keeping(name, kept, kept.file):
            yield asking
        asking.refuse_failures()

    @contextmanager
    def paid_bench(self, name: str) -> Iterator[Bench]:
        """As `bench`, for trials that ask a model: their lines are kept, and told of as `asking` does."""
        lines = AnswerLines(self.line_file(name))
        with keeping(name, lines, self.line_file(name)):
            yield replace(self.bench, lines=lines, at_once=self.jobs, keeps_free=False)

    def line_file(self, name: str) -> Path:
        return (self.lines or self.cache / "lines") / f"{name}.jsonl"

    @property
    def embedders(self) -> Mapping[str, str]:
        """Name → spec: the default model in both precisions, and what is configured."""
        known = PRECISIONS.values()
        return {**PRECISIONS, **({} if self.configured in ("", *known) else {self.configured: self.configured})}

    def embedder(self, spec: str = DEFAULT_EMBEDDER) -> "Embedder":
        """The bare embedder: no cache of queries or documents."""
        opened = open_embedder(spec, self.settings, self.environ)
        assert opened is not None
        return opened

    @property
    def spec(self) -> str:
        """The embedder of a benchmark that measures one: what is configured, else the default one."""
        return self.configured or DEFAULT_EMBEDDER

    def record_name(self, name: str, fingerprint: str) -> str:
        """A benchmark's record of another embedder stands beside that of the default one."""
        return name if self.spec == DEFAULT_EMBEDDER else f"{name}_{re.sub(r'[^A-Za-z0-9.-]+', '-', fingerprint)}"

    @property
    def bench(self) -> Bench:
        """Where trials on a dataset are run."""
        return Bench(settings=self.settings, environ=self.environ, watching=report_part)

    def record(self, dataset: Dataset, trials: Sequence[Trial]) -> Record:
        """Of every trial's outcome, in the order of the trials. Raises NotReranked."""
        outcomes = sorted(self.bench.outcomes(dataset, trials), key=lambda outcome: trials.index(outcome.trial))
        return record_of(dataset, [outcome.refuse_failures() for outcome in outcomes], {})

    def has(self, name: str) -> bool:
        return self._folder_of(name).is_dir()

    def dataset(self, name: str) -> Dataset:
        """A data set by its folder, or one of `OWN`; only its first questions if quick. Raises InvalidDataset."""
        dataset = read_dataset(self._folder_of(name), self.settings)
        return replace(dataset, questions=dataset.questions[:QUICK_QUESTIONS]) if self.quick else dataset

    def _folder_of(self, name: str) -> Path:
        return self.examples / ("requests" if name == EXAMPLES else name) if name in OWN else self.data / name

    @contextmanager
    def registry_of(
        self, manifests: Iterable[Manifest], *, texts: "TextForm", embedder: str = DEFAULT_EMBEDDER
    ) -> Iterator[LocalRegistry]:
        """A registry in a file, gone at the end."""
        with (
            scratch_folder() as folder,
            LocalRegistry.open(
                folder / "bench.grafeo", embedder=embedder, settings=self.settings, environ=self.environ
            ) as registry,
        ):
            for manifest in manifests:
                sync(registry, manifest, texts=texts, progress=show_progress("embedding"))
            yield registry

    @contextmanager
    def registry_of_tools(self, tools: int) -> Iterator[LocalRegistry]:
        """A registry of an invented catalogue; its vectors are kept in the benchmark's own cache folder."""
        here = replace(self, settings=with_cache(self.settings, self.cache))
        with scratch_folder() as folder:
            manifests = read_path(str(write_catalogue(folder, tools)), here.settings)
            with here.registry_of(manifests, texts="contextual") as registry:
                yield registry


@contextmanager
def keeping(
    name: str, lines: KeptLines | AnswerLines, file: Path, what: str = "queries were not asked again"
) -> Iterator[None]:
    """Closes the lines at the end of a benchmark's work, and tells what was asked, how much was kept, and where."""
    with metered() as meter:
        try:
            yield
        finally:
            lines.close()
            print(f"{name}: {meter.text}; {lines.kept} {what}; the lines are in {file}", file=sys.stderr)


@contextmanager
def report_part(part: str) -> Iterator["Progress"]:
    yield show_progress(part)


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


def show_progress(what: str, every_s: float = 2.0) -> "Progress":
    """Tells of progress on stderr, at most once in `every_s`."""
    last = time.monotonic()

    def show(done: int, total: int) -> None:
        nonlocal last
        if time.monotonic() - last >= every_s:
            last = time.monotonic()
            print(f"{what}: {done} of {total}", file=sys.stderr)

    return show
