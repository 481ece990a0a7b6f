"""Many at once over one client: threads, tasks, and writers beside readers."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.remote.flaky import flaky, silence
from tests.service import Served, served, until
from waygraph import Query, Registry, Settings
from waygraph.ingest.sources.read import read_path
from waygraph.ingest.sync.apply import sync
from waygraph.registry.model.errors import ServiceUnavailable
from waygraph.registry.remote import transport

CALLERS, EACH = 12, 8


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, catalog: Path) -> Iterator[Served]:
    path = tmp_path_factory.mktemp("shared") / "r.grafeo"
    with Registry.open(path, embedder="none", environ={}) as registry:
        for manifest in read_path(str(catalog), Settings(), source="catalog"):
            sync(registry, manifest)
    with served(path) as running:
        yield running


def query(caller: int, number: int) -> Query:
    return Query(text=f"book table {caller} for {number}", limit=1 + number % 3)


def test_threads_share_one_registry(service: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over fewer sockets than there are threads; everybody gets their own answer."""

    def ask(caller: int) -> None:
        for number in range(EACH):
            asked = query(caller, number)
            assert there.route(asked) == service.registry.route(asked)
            assert there.tool("ledgerleaf__createInvoice").agent_id == "ledgerleaf"

    monkeypatch.setattr(transport, "POOL_SIZE", 3)
    with Registry.open(service.url, environ={}) as there, ThreadPoolExecutor(CALLERS) as threads:
        assert len(list(threads.map(ask, range(CALLERS)))) == CALLERS


def test_tasks_share_one_registry(service: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "POOL_SIZE", 3)

    async def ask() -> None:
        async with Registry.open(service.url) as there:
            asked = [query(caller, number) for caller in range(CALLERS) for number in range(EACH)]
            found = await asyncio.gather(*map(there.route, asked))
            assert found == [service.registry.route(each) for each in asked]

    asyncio.run(ask())


def test_a_call_that_finds_no_free_connection_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "POOL_SIZE", 1)
    settings = Settings(remote_timeout_s=0.1)
    with ExitStack() as stack:
        threads = stack.enter_context(ThreadPoolExecutor(1))
        slow = stack.enter_context(flaky(stack.enter_context(silence())))
        there = stack.enter_context(Registry.open(slow.url, settings=settings, environ={}))
        held = threads.submit(there.operator.forget, "s")
        until(lambda: slow.seen, "the first call is on its way")
        with pytest.raises(ServiceUnavailable, match="all 1 connections are in use"):
            there.status()
        assert not held.done()
    assert isinstance(held.exception(), ServiceUnavailable)
