"""The registry as an object: places, restored and lost files, settings, what it says when nothing comes."""

import errno
import gc
import itertools
import json
import multiprocessing
import os
import shutil
import sqlite3
import sys
import threading
from collections.abc import Iterator
from multiprocessing.synchronize import Event
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

from waygraph import Agent, Filters, Principal, Query
from waygraph.ingest.sources.read import read_path
from waygraph.ingest.sync.apply import sync
from waygraph.registry.index.local.file import current_path, folder_of
from waygraph.registry.model.errors import InvalidSetting, RegistryUnusable, UnknownName
from waygraph.registry.model.files import write_lock
from waygraph.registry.model.settings import Settings
from waygraph.registry.storage.embedded import EmbeddedStore
from waygraph.registry.storage.integrity.examine import examine
from waygraph.registry.storage.local_registry import LocalRegistry


def ingest(registry: LocalRegistry, file: Path, *agents: dict[str, object], source: str = "") -> list[str]:
    """Writes a catalogue and takes it in; the ids it created."""
    file.write_text(json.dumps({"waygraph": 1, "agents": list(agents)}), encoding="utf-8")
    [manifest] = read_path(str(file), Settings(), source=source)
    return list(sync(registry, manifest, allow_mass_removal=True).changes.created_agents)


def agent(key: str, **fields: object) -> dict[str, object]:
    tools = [{"name": "send", "description": f"sends a parcel for {key}"}]
    return {"id": key, "description": f"delivers parcels of {key}", "tools": tools, **fields}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tools.grafeo"


@pytest.fixture
def registry(path: Path) -> Iterator[LocalRegistry]:
    with LocalRegistry.open(path, embedder="none") as opened:
        yield opened


def held(path: Path) -> list[str]:
    with LocalRegistry.open(path, embedder="none") as opened:
        return [found.id for found in opened.agents()]


def test_a_write_after_an_older_file_was_restored_is_published(path: Path, tmp_path: Path) -> None:
    """Once a person says that the older graph holds; till then the index is the better copy, and nothing is written."""
    with LocalRegistry.open(path, embedder="none") as opened:
        ingest(opened, tmp_path / "a.json", agent("alpha"))
    shutil.copy(path, tmp_path / "backup")
    with LocalRegistry.open(path, embedder="none") as opened:
        ingest(opened, tmp_path / "b.json", agent("lost"))
    shutil.copy(tmp_path / "backup", path)
    with LocalRegistry.open(path, embedder="none") as opened:
        with pytest.raises(RegistryUnusable, match=r"at revision 1 .* shows revision 2"):
            ingest(opened, tmp_path / "c.json", agent("gamma"))
        assert [found.id for found in opened.agents()] == ["alpha", "lost"]
        opened.reindex()
        ingest(opened, tmp_path / "c.json", agent("gamma"))
        assert [found.id for found in opened.agents()] == ["alpha", "gamma"]
    assert held(path) == ["alpha", "gamma"]


def test_a_process_that_runs_follows_the_repair_of_the_index(
    path: Path, registry: LocalRegistry, tmp_path: Path
) -> None:
    ingest(registry, tmp_path / "a.json", agent("alpha"))
    assert registry.route("parcels of alpha").matches
    shutil.rmtree(folder_of(path))
    assert registry.route("parcels of alpha").matches


def test_damaged_sources_do_not_stop_an_unchanged_source(path: Path, registry: LocalRegistry, tmp_path: Path) -> None:
    ingest(registry, tmp_path / "a.json", agent("alpha"))
    connection = sqlite3.connect(str(current_path(folder_of(path))))
    connection.execute("UPDATE part SET body = zeroblob(length(body)) WHERE key LIKE 'sources %'")
    connection.commit()
    connection.close()
    ingest(registry, tmp_path / "a.json", agent("alpha"))
    assert [source.agent_ids for source in registry.sources()] == [("alpha",)]


def test_a_file_system_without_hard_links_is_enough(
    registry: LocalRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    ingest(registry, tmp_path / "a.json", agent("alpha"))
    [before] = registry.sources()
    monkeypatch.setattr(os, "link", refuse)
    ingest(registry, tmp_path / "a.json", agent("alpha"))
    [after] = registry.sources()
    assert after.seen_at > before.seen_at
    assert [match.agent.id for match in registry.route("parcels of alpha").matches] == ["alpha"]
    assert [finding for finding in examine(registry, deep=True) if not finding.ok] == []


def test_a_registry_is_where_its_file_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative path means the folder in which it was opened, and a symbolic link the file that it leads to."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    with LocalRegistry.open("tools.grafeo", embedder="none") as opened:
        ingest(opened, tmp_path / "a.json", agent("alpha"))
        monkeypatch.chdir(tmp_path / "elsewhere")
        ingest(opened, tmp_path / "b.json", agent("beta"))
    link = tmp_path / "elsewhere" / "link.grafeo"
    link.symlink_to(tmp_path / "tools.grafeo")
    assert held(link) == held(tmp_path / "tools.grafeo") == ["alpha", "beta"]


def test_cypher_runs_beside_a_writer(registry: LocalRegistry, tmp_path: Path) -> None:
    ingest(registry, tmp_path / "a.json", agent("alpha"))
    failed: list[Exception] = []
    done = threading.Event()

    def ask() -> None:
        while not done.is_set():
            try:
                registry.operator.cypher("MATCH (a:Agent) RETURN a.id")
            except Exception as error:  # noqa: BLE001 - told below
                failed.append(error)

    asking = threading.Thread(target=ask)
    asking.start()
    for number in range(12):
        registry.operator.set("alpha", tags=[f"t{number}"])
        registry.status()
    done.set()
    asking.join()
    assert failed == []


def _run_at(line: int, code: CodeType, other: threading.Thread) -> Any:
    """A tracer that starts another thread once so many lines of a function were reached.

    It waits for that only a moment: the function may hold what the other thread needs.
    """
    reached = itertools.count()

    def within(frame: FrameType, event: str, arg: object) -> Any:
        if event == "line" and next(reached) == line:
            other.start()
            other.join(0.5)
        return within

    return lambda frame, event, arg: within if frame.f_code is code else None  # noqa: ARG005


@pytest.mark.parametrize("line", range(5))
def test_a_reader_is_never_given_an_index_older_than_its_question(
    path: Path, registry: LocalRegistry, tmp_path: Path, line: int
) -> None:
    """Wherever the reader is while another thread of its process opens what was just published."""
    with LocalRegistry.open(path, embedder="none") as writer:
        ingest(writer, tmp_path / "a.json", agent("alpha"))
        assert registry.agents(principal=Principal())
        writer.operator.set("alpha", visible_to=["board"])
    seen: list[list[Agent]] = []
    other = threading.Thread(target=registry.agents)

    def read() -> None:
        sys.settrace(_run_at(line, EmbeddedStore.index.__code__, other))
        seen.append(registry.agents(principal=Principal()))

    reader = threading.Thread(target=read)
    reader.start()
    reader.join()
    other.join()
    assert seen == [[]]


def _wait(hold: Event) -> None:
    hold.wait(30)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_keeps_no_lock(path: Path) -> None:
    context = multiprocessing.get_context("fork")
    hold = context.Event()
    with write_lock(path, 1):
        child = context.Process(target=_wait, args=(hold,))
        child.start()
    with write_lock(path, 0.5):
        assert child.is_alive()
    hold.set()
    child.join()


@pytest.mark.parametrize("groups", [[], "ops", [""], ["ops", " "]])
def test_no_group_is_not_everyone(registry: LocalRegistry, tmp_path: Path, groups: list[str]) -> None:
    """An empty list of groups, or an empty name in it, is refused: it must not open an agent to all."""
    ingest(registry, tmp_path / "a.json", agent("alpha", visible_to=["ops"]))
    with pytest.raises(InvalidSetting, match="visible_to"):
        registry.operator.set("alpha", visible_to=groups)
    assert registry.agents(principal=Principal()) == []
    registry.operator.set("alpha", visible_to=["dev"])
    registry.operator.set("alpha", everyone=True)
    assert registry.agents()[0].visible_to == ("ops",)


def test_setting_what_is_set_changes_nothing(registry: LocalRegistry, tmp_path: Path) -> None:
    ingest(registry, tmp_path / "a.json", agent("alpha"))
    registry.operator.set("alpha", pinned=True)
    before = registry.status().state.revision
    registry.operator.set("alpha", pinned=True)
    assert registry.status().state.revision == before
    registry.operator.set("alpha")
    assert registry.status().state.revision == before


def test_an_empty_answer_hints_at_nothing_hidden(registry: LocalRegistry, tmp_path: Path) -> None:
    """Whoever may see no agent is told that there is none; a filter that none passes is named as the cause."""
    ingest(registry, tmp_path / "a.json", agent("alpha", visible_to=["ops"]))
    assert "holds no agent" in registry.route("parcels", principal=Principal()).reason
    asked = Query(text="parcels", filters=Filters(tags=("none-such",)))
    assert registry.route(asked).reason == "no agent passes the filters"
    with pytest.raises(UnknownName) as caught:
        registry.tool("alpha/send", principal=Principal())
    assert caught.value.nearest == ()


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({}, {}),
        ({"type": "stdio"}, {"type": "stdio"}),
        ({"url": "https://h.example/?app=slack"}, {"url": "https://h.example/?app=github"}),
        ({"command": "run", "env": {"APP": "slack"}}, {"command": "run", "env": {"APP": "github"}}),
    ],
)
def test_equal_references_do_not_make_two_agents_one(
    registry: LocalRegistry, tmp_path: Path, first: dict[str, object], second: dict[str, object]
) -> None:
    """A transport proves identity only if it says where, and nothing in it was replaced that may differ."""
    ingest(registry, tmp_path / "a.json", agent("alpha", transport=first))
    ingest(registry, tmp_path / "b.json", agent("beta", transport=second))
    assert [found.id for found in registry.agents()] == ["alpha", "beta"]


def test_nothing_goes_while_a_file_of_the_folder_cannot_be_read(registry: LocalRegistry, tmp_path: Path) -> None:
    """What an unreadable file held stays; a file that holds no agents at all stops no removal."""
    folder = tmp_path / "agents"
    folder.mkdir()
    for key in ("a", "b", "c"):
        (folder / f"{key}.json").write_text(json.dumps({"waygraph": 1, **agent(key)}))
    (folder / "package.json").write_text('{"private": true}')

    def again() -> list[str]:
        [manifest] = read_path(str(folder), Settings())
        report = sync(registry, manifest)
        assert bool(report.notice) == manifest.partial
        return [found.id for found in registry.agents()]

    assert again() == ["a", "b", "c"]
    (folder / "b.json").write_text("{")
    os.remove(folder / "c.json")
    assert again() == ["a", "b", "c"]
    (folder / "b.json").write_text(json.dumps({"waygraph": 1, **agent("b")}))
    assert again() == ["a", "b"]


def test_an_index_is_opened_once_whatever_is_written(path: Path, tmp_path: Path) -> None:
    """Readers of later revisions share the file, and let go of it when the registry is closed."""
    gc.disable()
    try:
        with LocalRegistry.open(path, embedder="none") as registry:
            for number in range(4):
                ingest(registry, tmp_path / "a.json", agent("a"), agent("b", tags=[f"t{number}"]), source="a")
                for principal in (None, Principal()):
                    assert registry.route("send a parcel", principal=principal).matches
                    assert registry.find_tools(Query(text="parcels of b"), principal=principal).matches
                with pytest.raises(UnknownName):
                    registry.agent("nobody")
            ends = (".sqlite", ".sqlite-shm", ".sqlite-wal", ".vectors")
            assert set(open_files(path)) == {f"index-00000001{end}" for end in ends}
        assert open_files(path) == []
    finally:
        gc.enable()


def open_files(path: Path) -> list[str]:
    """Of the index, by this process."""
    links = [os.readlink(link) for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    return [Path(link).name for link in links if link.startswith(str(folder_of(path)))]
