"""Requests that two readers could read differently."""

from collections.abc import Iterator

import pytest

from tests.service import Served, served
from waygraph.api.rest.middleware import MAX_HEAD_BYTES

pytestmark = pytest.mark.attack


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(auth=True, folder=tmp_path_factory.mktemp("keys")) as running:
        yield running


HEADS = (
    (b"Host: localhost\r\nHost: localhost\r\n", b"400"),
    (b"Host: localhost\r\nhost: evil.example\r\n", b"400"),
    (b"Host: localhost\r\n" + b"a: b\r\n" * (MAX_HEAD_BYTES // 5), b"431"),
)


@pytest.mark.parametrize(("head", "status"), HEADS, ids=("two hosts", "another host", "many short ones"))
def test_a_strange_head_is_refused(service: Served, head: bytes, status: bytes) -> None:
    said = service.raw(b"GET /healthz HTTP/1.1\r\n" + head + b"\r\n")
    assert said.startswith(b"HTTP/1.1 " + status), said[:300]
