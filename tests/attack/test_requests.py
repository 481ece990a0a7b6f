"""Requests that two readers could read differently, and writers that look for what they may not see."""

from collections.abc import Iterator

import pytest

from tests.service import Served, agent, assert_problem, ingest, manifest, served
from waygraph.api.rest.middleware import MAX_HEAD_BYTES
from waygraph.registry.model.errors import NotAllowed

pytestmark = pytest.mark.attack


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(auth=True, folder=tmp_path_factory.mktemp("keys")) as running:
        ingest(running.admin(), "own", agent("closed", "look", visible_to=["few"]))
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


def test_a_rehearsal_tells_no_more_than_the_write(service: Served) -> None:
    """Of an agent that the writer does not see: the same words, and none of its texts."""
    writer = service.caller("read", "write", groups=("many",))
    wanted = manifest("s", agent("closed", "look"))
    answers = [
        assert_problem(writer.post("/v1/manifests", json={**wanted, "dry_run": rehearses}), 403, NotAllowed)
        for rehearses in (True, False)
    ]
    assert answers[0]["detail"] == answers[1]["detail"]
    assert "few" not in str(answers)
