"""Publishing again keeps what did not change: what is published is the same as if nothing had been kept."""

import random
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from tests.sync_graph import entry, new_graph
from waygraph.ingest.manifest.manifest import Manifest
from waygraph.ingest.manifest.records import AgentRecord, Intake, ToolRecord
from waygraph.ingest.sync.apply import sync
from waygraph.registry import Settings
from waygraph.registry.graph.engine import GraphSession
from waygraph.registry.graph.grafeo import GrafeoEngine
from waygraph.registry.graph.read import Vectors, read_state, read_vectors
from waygraph.registry.index.local import generation, incremental, publish
from waygraph.registry.index.local.publish import read_snapshot
from waygraph.registry.model.errors import StorageFailed
from waygraph.registry.storage.local_registry import LocalRegistry

FILES = (generation.STATE, generation.TABLES, generation.NAMES, generation.SOURCES, generation.KEYS, generation.RECORDS)
WORDS = "paint zebra count boxes send mail read page book flight cancel order translate text".split()


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[LocalRegistry]:
    with LocalRegistry.open(tmp_path / "r.grafeo", embedder="none") as opened:
        yield opened


def manifest(chance: random.Random, source: str, agents: int = 6) -> Manifest:
    """Agents by chance, each with tools by chance: some as before, some others, some gone."""
    intake = Intake(where=source, settings=Settings())
    for number in chance.sample(range(agents), chance.randint(agents // 2, agents)):
        tools = [
            ToolRecord(pointer="", name=f"tool_{n}", description=" ".join(chance.choices(WORDS, k=2)))
            for n in range(chance.randint(0, 4))
        ]
        name = f"{source}-{number} {chance.choice(['one', 'two'])}"
        intake.take(AgentRecord(pointer="", key=f"{source}-{number}", name=name, tools=tools))
    return Manifest(source=source, entries=tuple(intake.entries))


def assert_published_whole(path: Path) -> None:
    """Every file of the current generation is what a build from the graph alone gives."""
    folder = generation.folder_of(path)
    published = folder / generation.current_name(folder)
    with closing(GrafeoEngine.open_copy(path)) as engine:
        state = read_state(engine)
        assert state is not None
        snapshot = read_snapshot(engine, state, {})
    fresh = Path(tempfile.mkdtemp(dir=path.parent))
    publish.build_generation(fresh, snapshot)
    for name in FILES:
        assert (published / name).read_bytes() == (fresh / name).read_bytes(), name


@pytest.mark.parametrize("seed", range(3))
def test_what_is_published_is_what_the_graph_holds(registry: LocalRegistry, tmp_path: Path, seed: int) -> None:
    """After each of many writes by one process, with those of another process and of operators between them."""
    chance = random.Random(seed)  # noqa: S311 - not a secret
    for step in range(12):
        act = chance.randrange(5)
        writer = registry
        if act == 0 and step:
            writer = LocalRegistry.open(tmp_path / "r.grafeo", embedder="none")
        if act == 1 and step and (agents := registry.agents()):
            said = chance.choice(agents).id
            registry.operator.set(said, tags=[chance.choice(WORDS)], pinned=chance.random() < 0.3)
        elif act == 2 and step and (agents := registry.agents()):
            registry.put_statuses({chance.choice(agents).id: chance.choice(["online", "failing: it is ill"])})
        else:
            sync(writer, manifest(chance, chance.choice(["a", "b"])), allow_mass_removal=True)
        if writer is not registry:
            writer.close()
        assert_published_whole(tmp_path / "r.grafeo")


def test_what_did_not_change_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From its second publication on a process reads the tools and vectors of what was written alone."""
    read: list[str] = []

    def noted(session: GraphSession, *, agents: Sequence[str], tools: Sequence[str]) -> Vectors:
        read.extend((*agents, *tools))
        return read_vectors(session, agents=agents, tools=tools)

    def fail(_: object) -> None:
        raise AssertionError("all tools were read")

    with LocalRegistry.open(tmp_path / "vectors.grafeo", environ={}) as opened:
        for text in ("one", "two", "three"):
            if text == "three":
                monkeypatch.setattr(publish, "read_vectors", noted)
                monkeypatch.setattr(incremental, "read_tools", fail)
            sync(opened, Manifest(source="a", entries=(entry("x", text), entry("y"))))
    assert read == ["x", "x/run"]


def test_a_failed_write_leaves_nothing_that_is_published_later(
    registry: LocalRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sync whose publication failed half way is whole after the next one."""
    chance = random.Random(7)  # noqa: S311 - not a secret
    for _ in range(3):
        sync(registry, manifest(chance, "a"), allow_mass_removal=True)
    with monkeypatch.context() as broken:

        def fail(*_: object, **__: object) -> None:
            raise OSError("no room")

        broken.setattr(publish, "build_generation", fail)
        with pytest.raises(Exception, match="no room"):
            sync(registry, manifest(chance, "a"), allow_mass_removal=True)
    sync(registry, manifest(chance, "b"), allow_mass_removal=True)
    assert_published_whole(tmp_path / "r.grafeo")


def test_a_generation_whose_copy_of_the_graph_fails_is_not_published(tmp_path: Path) -> None:
    def fail() -> None:
        raise OSError("no room")

    graph = new_graph()
    graph.sync(Manifest(source="a", entries=(entry("x"),)))
    with closing(graph.engine):
        with pytest.raises(StorageFailed, match="no room"):
            publish.publish_graph(tmp_path, graph.engine, (), meanwhile=fail)
        assert publish.published_state(tmp_path) is None


def test_a_large_registry_is_not_kept(registry: LocalRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(incremental, "KEPT_TOOLS", 3)
    chance = random.Random(8)  # noqa: S311 - not a secret
    for _ in range(4):
        sync(registry, manifest(chance, "a"), allow_mass_removal=True)
        assert_published_whole(tmp_path / "r.grafeo")
