"""A registry whose vectors come from an endpoint."""

import json
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from threading import Event

import pytest

from tests.fake_openai import KEY, FakeOpenAI, fake_openai
from waygraph.ingest.sources.files import read_path
from waygraph.ingest.sync import sync
from waygraph.registry import Registry
from waygraph.registry.settings import Settings


@pytest.fixture
def fake() -> Iterator[FakeOpenAI]:
    with fake_openai() as running:
        yield running


type Opens = Callable[[], Registry]


@pytest.fixture
def opened(fake: FakeOpenAI, tmp_path: Path) -> Opens:
    """Opens one registry anew, as another process would."""
    settings = Settings(cache_dir=str(tmp_path / "cache"), openai_retries=0, embedder="openai:local-model")
    environ = {"OPENAI_BASE_URL": fake.url, "OPENAI_API_KEY": KEY}
    return lambda: Registry.open(tmp_path / "tools.grafeo", settings=settings, environ=environ)


def ingest(registry: Registry, file: Path, *keys: str) -> None:
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
