"""A registry whose vectors come from an endpoint."""

import json
import shutil
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from threading import Event

import pytest

from tests.fake_openai import FakeOpenAI
from tests.neo4j_fixtures import SERVERS
from tests.places import Place, Servers, new_place
from waygraph.ingest.sources.read import read_path
from waygraph.ingest.sync.apply import sync
from waygraph.registry import writer
from waygraph.registry.index.local.file import folder_of
from waygraph.registry.index.local.graph_agreement import is_behind
from waygraph.registry.index.local.index_upkeep import Publication
from waygraph.registry.model.errors import EmbedderMismatch, StorageFailed
from waygraph.registry.model.settings import Settings
from waygraph.registry.storage.integrity.examine import examine
from waygraph.registry.storage.local_registry import LocalRegistry

type Opens = Callable[[], LocalRegistry]


@pytest.fixture
def opened(fake: FakeOpenAI, tmp_path: Path) -> Opens:
    """Opens one registry anew, as another process would."""
    return opens(Place(tmp_path / "r.grafeo", endpoint_settings(tmp_path)), fake)


@pytest.fixture(params=["grafeo file", *SERVERS])
def opened_anywhere(request: pytest.FixtureRequest, fake: FakeOpenAI, tmp_path: Path, neo4j_servers: Servers) -> Opens:
    """The same in every place that outlives a process."""
    return opens(new_place(request.param, tmp_path, neo4j_servers, endpoint_settings(tmp_path)), fake)


def endpoint_settings(folder: Path) -> Settings:
    return Settings(cache_dir=str(folder / "cache"), openai_retries=0, embedder="openai:local-model")


def opens(place: Place, fake: FakeOpenAI) -> Opens:
    environ = fake.environ
    return lambda: LocalRegistry.open(place.location, settings=place.settings, environ=environ)


def ingest(registry: LocalRegistry, file: Path, *keys: str) -> None:
    agents = [{"id": key, "description": f"delivers parcels of {key}"} for key in keys]
    file.write_text(json.dumps({"waygraph": 1, "agents": agents}))
    [manifest] = read_path(str(file), registry.settings)
    sync(registry, manifest)


def test_a_closed_registry_holds_no_connection(opened: Opens, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The endpoint sees the one that was kept open between questions end."""
    ended, finish = Event(), BaseHTTPRequestHandler.finish

    def note(handler: BaseHTTPRequestHandler) -> None:
        finish(handler)
        ended.set()

    monkeypatch.setattr(BaseHTTPRequestHandler, "protocol_version", "HTTP/1.1")
    monkeypatch.setattr(BaseHTTPRequestHandler, "finish", note)
    registry = opened()
    ingest(registry, tmp_path / "a.json", "alpha")
    assert registry.route("parcels").matches
    assert not ended.wait(0.1)
    registry.close()
    assert ended.wait(5)


OTHER_LENGTH = 64


def test_vectors_of_another_length_are_refused_before_they_are_committed(
    fake: FakeOpenAI, opened_anywhere: Opens, tmp_path: Path
) -> None:
    """Nothing is written, and a question is refused with the same advice."""
    with opened_anywhere() as registry:
        ingest(registry, tmp_path / "a.json", "alpha")
    fake.dimension = OTHER_LENGTH
    with opened_anywhere() as registry:
        with pytest.raises(EmbedderMismatch, match=r"\(48 numbers each\).*\(64 numbers each\).*`waygraph reindex`"):
            ingest(registry, tmp_path / "b.json", "beta")
        with pytest.raises(EmbedderMismatch, match=r"\(64 numbers each\).*`waygraph reindex`"):
            registry.route("parcels")
        assert registry.route("alpha", recipe="lexical").matches
        assert registry.status().state.revision == 1
        folder = folder_of(tmp_path / "r.grafeo")
        assert not (folder.exists() and is_behind(folder))


def test_reindex_takes_the_new_length(fake: FakeOpenAI, opened_anywhere: Opens, tmp_path: Path) -> None:
    with opened_anywhere() as registry:
        ingest(registry, tmp_path / "a.json", "alpha")
    fake.dimension = OTHER_LENGTH
    with opened_anywhere() as registry:
        registry.reindex()
        ingest(registry, tmp_path / "b.json", "beta")
        assert_sound(registry)


def test_a_reindex_that_was_not_published_is_published_with_its_vectors(
    fake: FakeOpenAI, opened: Opens, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of the index before are of the same texts and the same name, yet of another model."""
    with opened() as registry:
        ingest(registry, tmp_path / "a.json", "alpha", "beta")
    fake.dimension = OTHER_LENGTH
    with opened() as registry, monkeypatch.context() as patch:
        patch.setattr(Publication, "publish", _fail)
        with pytest.raises(StorageFailed):
            registry.reindex()
    with opened() as registry:
        assert_sound(registry)


def test_a_registry_of_two_lengths_opens_and_is_mended_by_reindex(
    fake: FakeOpenAI, opened: Opens, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Whether its last write was not published, or its index was removed."""
    monkeypatch.setattr(writer, "refuse_other_length", lambda *_: None)
    with opened() as registry:
        ingest(registry, tmp_path / "a.json", "alpha", "gamma")
    fake.dimension = OTHER_LENGTH
    with opened() as registry:
        ingest(registry, tmp_path / "b.json", "beta")
    shutil.rmtree(folder_of(tmp_path / "r.grafeo"))
    with opened() as registry:
        assert [agent.id for agent in registry.agents()] == ["alpha", "beta", "gamma"]
        assert "[48, 64] numbers: run `waygraph reindex`" in caplog.text
        assert "vectors" in [finding.check for finding in examine(registry, deep=True) if not finding.ok]
        registry.reindex()
        assert_sound(registry)


def _fail(*_: object, **__: object) -> None:
    raise StorageFailed("the disk is full")


def assert_sound(registry: LocalRegistry) -> None:
    assert registry.status().state.dimension == OTHER_LENGTH
    assert registry.route("parcels", recipe="agents").matches
    assert [finding for finding in examine(registry, deep=True) if not finding.ok] == []
