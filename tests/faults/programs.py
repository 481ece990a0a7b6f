"""What the child processes of these trials do. The first argument is the pipe to the test."""

import os
import random
import resource
import shutil
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.faults.fleet import entry, manifest, number_in
from waygraph.ingest.manifest.records import Manifest
from waygraph.ingest.sync.apply import sync
from waygraph.registry.graph.grafeo import GrafeoEngine, GrafeoTransaction
from waygraph.registry.graph.read import read_graph_view, read_state, read_tools
from waygraph.registry.index.local import index_upkeep
from waygraph.registry.index.local.file import IndexFile, folder_of
from waygraph.registry.model.errors import RegistryError, WaygraphError
from waygraph.registry.model.nouns import Route
from waygraph.registry.model.settings import Settings
from waygraph.registry.storage.integrity.examine import examine_at
from waygraph.registry.storage.local_registry import LocalRegistry

EMBEDDER = "none"


@dataclass(frozen=True)
class Damage:
    """How many times and in which ways to damage a file."""

    seed: int
    rounds: int
    kinds: tuple[str, ...] = ("flip", "zero", "cut")


def opened(path: Path | str, *, embedder: str = EMBEDDER, write_timeout_s: float = 30.0) -> LocalRegistry:
    return LocalRegistry.open(path, embedder=embedder, settings=Settings(write_timeout_s=write_timeout_s), environ={})


def ingest_on(pipe: Connection, path: Path | str, first: int, last: int, embedder: str = EMBEDDER) -> None:
    """Ingests the manifests one after the other and acknowledges each by its number."""
    with opened(path, embedder=embedder) as registry:
        for number in range(first, last + 1):
            report = sync(registry, manifest(number))
            assert report.revision == number
            pipe.send(number)


def ingest_and_stay(pipe: Connection, path: Path, last: int, first: int = 1) -> None:
    """The same, and then keeps the graph."""
    with opened(path) as registry:
        for number in range(first, last + 1):
            pipe.send(sync(registry, manifest(number)).revision)
        pipe.recv()


def sync_in_rounds(pipe: Connection, place: str, source: str, rounds: int) -> None:
    """Syncs a source of its own so many times, each time with other content; tells each revision."""
    with opened(place) as registry:
        for number in range(1, rounds + 1):
            pipe.send(sync(registry, rival(source, number), allow_mass_removal=True).revision)


def rival(source: str, number: int) -> Manifest:
    """Agents of this source alone, a changing number of them."""
    entries = (entry(f"{source}{place}", number, 2 + number % 3) for place in range(3 + number % 4))
    return Manifest(source=source, namespace=source, entries=tuple(entries))


def sync_in_threads(pipe: Connection, path: Path, sources: tuple[str, ...], first: int) -> None:
    """Each source in a thread of its own, again and again; acknowledges each write by its source and number."""
    telling = threading.Lock()

    def work(source: str) -> None:
        for number in range(first, first + 1000):
            sync(registry, rival(source, number), allow_mass_removal=True)
            with telling:
                pipe.send((source, number))

    with opened(path) as registry:
        workers = [threading.Thread(target=work, args=(source,)) for source in sources]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()


def ingest_and_stop_before_publishing(pipe: Connection, path: Path, number: int) -> None:
    """Says `publishing` when the graph is committed and nothing of the index is written yet, and waits there."""
    _wait_at(index_upkeep, "publish_changes" if number > 1 else "publish_whole", pipe, "publishing")
    ingest_on(pipe, path, number, number)


def ingest_and_stop_before_pointing(pipe: Connection, path: Path, number: int) -> None:
    """Says `pointing` when all of the new revision is written but not yet shown, and waits there."""
    place, name = (IndexFile, "put_header") if number > 1 else (index_upkeep, "sync_path")
    _wait_at(place, name, pipe, "pointing")
    ingest_on(pipe, path, number, number)


def ingest_and_tell_of_the_commit(pipe: Connection, path: Path, number: int) -> None:
    """Says `committing` at the last moment before the engine commits, and goes on."""
    commit = GrafeoTransaction.commit

    def telling(transaction: GrafeoTransaction) -> None:
        pipe.send("committing")
        commit(transaction)

    GrafeoTransaction.commit = telling  # type: ignore[method-assign, assignment]
    ingest_on(pipe, path, number, number)


def _wait_at(place: Any, name: str, pipe: Connection, word: str) -> None:
    real = getattr(place, name)

    def waiting(*args: Any, **kwargs: Any) -> Any:
        pipe.send(word)
        time.sleep(60)
        return real(*args, **kwargs)

    setattr(place, name, waiting)


def hold_the_write_lock(pipe: Connection, path: Path) -> None:
    """Holds the registry alone until it is told to go on, or killed."""
    with opened(path) as registry, registry.writing():
        pipe.send("holding")
        pipe.recv()


def ingest_with_patience(pipe: Connection, path: Path, number: int, write_timeout_s: float) -> None:
    """One ingest; tells how it ended and how long it took."""
    started = time.monotonic()
    try:
        with opened(path, write_timeout_s=write_timeout_s) as registry:
            told: object = sync(registry, manifest(number)).revision
    except RegistryError as error:
        told = (type(error).__name__, str(error))
    pipe.send((told, time.monotonic() - started))


def ingest_with_little_room(pipe: Connection, path: Path, number: int, most_bytes: int) -> None:
    """One ingest in which no file may grow beyond `most_bytes`; tells how it ended."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))
    pipe.send(_attempt(path, number))


def ingest_once(pipe: Connection, path: Path | str, number: int) -> None:
    pipe.send(_attempt(path, number))


def _attempt(path: Path | str, number: int) -> tuple[str, str]:
    try:
        with opened(path) as registry:
            return "done", str(sync(registry, manifest(number)).revision)
    except BaseException as error:  # noqa: BLE001 - the test judges which
        return type(error).__name__, str(error)


def route_on(pipe: Connection, path: Path | str, threads: int, embedder: str) -> None:
    """Routes with so many threads until told to stop; then tells answers given, revisions seen, and what was mixed."""
    watch = Watch()
    with opened(path, embedder=embedder) as registry:
        workers = [threading.Thread(target=watch.route, args=(registry,)) for _ in range(threads)]
        for worker in workers:
            worker.start()
        pipe.send(os.getpid())
        pipe.recv()
        watch.stop.set()
        for worker in workers:
            worker.join()
    pipe.send((watch.answers, sorted(watch.revisions), watch.faults))


class Watch:
    """Threads that route and compare every text of an answer with its revision."""

    def __init__(self) -> None:
        self.stop = threading.Event()
        self.answers = 0
        self.revisions: set[int] = set()
        self.faults: list[str] = []

    def route(self, registry: LocalRegistry) -> None:
        asks: list[Callable[[], tuple[int, set[int], int]]] = [
            lambda: _told(registry.route("moors ship")),
            lambda: _told_by_tools(registry),
        ]
        is_last = False
        while not is_last and len(self.faults) < 10:
            is_last = self.stop.wait(0.005)  # what was written before it was told to stop is still seen
            for ask in asks:
                try:
                    revision, told, found = ask()
                except Exception as error:  # noqa: BLE001 - every one is a finding
                    self.faults.append(repr(error))
                    continue
                self.answers += 1
                self.revisions.add(revision)
                if told != {revision} or not found:
                    self.faults.append(f"revision {revision}: {found} matches speak of {sorted(told)}")


def _told(route: Route) -> tuple[int, set[int], int]:
    texts = [match.agent.description for match in route.matches]
    texts += [tool.description for match in route.matches for tool in match.tools]
    return route.revision, set(map(number_in, texts)), len(route.matches)


def _told_by_tools(registry: LocalRegistry) -> tuple[int, set[int], int]:
    found = registry.find_tools("moors ship")
    texts = [match.tool.description for match in found.matches] + [m.agent.description for m in found.matches]
    return found.revision, set(map(number_in, texts)), len(found.matches)


def read_damaged(pipe: Connection, read: Callable[[Path], object], path: Path, files: list[Path], plan: Damage) -> None:
    """Damages one of the files at a time, reads everything, puts the file back; tells each damage and its outcome."""
    chance, right = random.Random(plan.seed), read(path)  # noqa: S311
    folder, sound = folder_of(path), path.with_name("sound.index")
    shutil.copytree(folder, sound)
    for _ in range(plan.rounds):
        file = chance.choice(files)
        whole = file.read_bytes()
        kind, at = chance.choice(plan.kinds), chance.randrange(len(whole))
        pipe.send(f"{file.name}: {kind} at {at}")
        _replace(file, damaged(whole, kind, at, chance))
        try:
            pipe.send("right" if read(path) == right else noticed(path))
        except WaygraphError as error:
            pipe.send(type(error).__name__)
        except BaseException as error:  # noqa: BLE001 - a panic is no Exception
            pipe.send(f"foreign: {error!r}")
        _replace(file, whole)
        if folder in file.parents:  # what was built anew goes
            shutil.rmtree(folder)
            shutil.copytree(sound, folder)


def damaged(whole: bytes, kind: str, at: int, chance: random.Random) -> bytes:
    match kind:
        case "flip":
            return whole[:at] + bytes([whole[at] ^ chance.randrange(1, 256)]) + whole[at + 1 :]
        case "zero":
            return whole[:at] + bytes(len(whole[at : at + 64])) + whole[at + 64 :]
        case _:
            return whole[:at]


def noticed(path: Path) -> str:
    """What the doctor says, of a copy, to data that was read and is not what it was."""
    with TemporaryDirectory() as place:
        copy = Path(place) / path.name
        shutil.copy(path, copy)
        shutil.copytree(folder_of(path), folder_of(copy))
        findings = examine_at(copy, deep=True, environ={})
    return "found by the doctor" if any(not finding.ok for finding in findings) else "unnoticed"


def _replace(file: Path, content: bytes) -> None:
    """Under a new inode, as a copy that came back damaged: who has the old one mapped keeps it."""
    fresh = file.with_name(f"{file.name}.damaged")
    fresh.write_bytes(content)
    fresh.replace(file)
    shutil.rmtree(file.with_name(f"{file.name}.wal"), ignore_errors=True)


def read_graph(path: Path) -> object:
    """All that the graph file holds."""
    engine = GrafeoEngine.open(path)
    try:
        held = read_graph_view(engine)
        return read_state(engine), dict(held.agents), held.claims, read_tools(engine)
    finally:
        engine.close()


def read_index(path: Path) -> object:
    """All that the index answers, every file of it read."""
    with opened(path) as registry:
        asked = [registry.route(text) for text in ("moors ship 3", "tool5", "harbours")]
        found = registry.find_tools("moors ship")
        return [*(a.matches for a in asked), found.matches, registry.agents(), registry.tools(), registry.sources()]
