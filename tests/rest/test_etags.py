"""ETags: of a revision, as the caller sees it."""

from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.service import Served, agent, assert_careful, assert_good, ingest, served

PATHS = (
    "/v1/agents /v1/agents/open /v1/tools?agent=open /v1/tools /v1/tools/open/look /v1/tools/open__look /v1/map "
    "/v1/graph?around=agent:open /v1/sources /v1/changes /v1/status /.well-known/ai-catalog.json "
    "/.well-known/ard.json"
).split()


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(auth=True, folder=tmp_path_factory.mktemp("keys")) as service:
        ingest(service.admin(), "s", agent("open", "look"), agent("closed", "look", visible_to=["g"]))
        yield service


def tag(client: httpx2.Client, path: str) -> str:
    response = client.get(path)
    assert_good(response)
    assert response.headers["cache-control"] == "private, no-cache"
    assert set(response.headers["vary"].split(", ")) == {"Authorization", "X-API-Key"}
    value = response.headers["etag"]
    assert value.startswith('"')
    assert value.endswith('"')
    return str(value)


def status(client: httpx2.Client, path: str, if_none_match: str) -> int:
    return client.get(path, headers={"If-None-Match": if_none_match}).status_code


@pytest.mark.parametrize("path", PATHS)
def test_what_is_known_is_not_told_again(filled: Served, path: str) -> None:
    """304 without a body, with the headers that a good answer has; also in a list of tags, and as a weak one."""
    client = filled.admin()
    known = tag(client, path)
    response = client.get(path, headers={"If-None-Match": known})
    assert (response.status_code, response.content) == (304, b"")
    assert response.headers["etag"] == known
    assert_careful(response)
    assert [status(client, path, each) for each in (f'"other", {known}', f"W/{known}", f'W/"o" ,W/{known}')] == [
        304
    ] * 3
    assert [status(client, path, each) for each in ('"other"', "", known.strip('"'), f'"x{known[1:]}')] == [200] * 4


@pytest.mark.parametrize("path", PATHS)
def test_whoever_has_any_answer_is_told_none(filled: Served, path: str) -> None:
    """`*` stands for every tag (RFC 9110, 13.1.2), but only by itself, and only where there is an answer."""
    client = filled.admin()
    known = tag(client, path)
    response = client.get(path, headers={"If-None-Match": "*"})
    assert (response.status_code, response.content) == (304, b"")
    assert response.headers["etag"] == known
    assert_careful(response)
    assert status(client, path, '*, "other"') == 200


@pytest.mark.parametrize("path", PATHS)
def test_a_change_makes_another_tag(filled: Served, path: str) -> None:
    client = filled.admin()
    before = tag(client, path)
    assert_good(client.patch("/v1/agents/open", json={"tags": [path]}))
    assert tag(client, path) != before
    assert status(client, path, before) == 200


@pytest.mark.parametrize("path", PATHS)
def test_tags_tell_apart_what_callers_see(filled: Served, path: str) -> None:
    """Two keys of the same groups have the same tag, in whatever order; others have others."""
    first, second = filled.caller(groups=("g", "h")), filled.caller(groups=("h", "g"))
    others = [filled.admin(), filled.caller(), *(filled.caller(groups=(each,)) for each in ("g", "gh", "everything"))]
    tags = [tag(each, path) for each in (first, *others)]
    assert tag(second, path) == tags[0]
    assert len(set(tags)) == len(tags)


def test_a_source_that_nobody_sees_who_asks_changes_no_tag(tmp_path: Path) -> None:
    with served(auth=True, folder=tmp_path) as service:
        admin = service.admin()
        ingest(admin, "s", agent("open", "look"))
        ingest(admin, "corp", agent("secret", visible_to=["board"]))
        alice, board = service.caller(groups=("staff",)), service.caller(groups=("board",))
        known, known_to_board = tag(alice, "/v1/sources"), tag(board, "/v1/sources")
        ingest(admin, "corp", agent("secret", visible_to=["board"]))
        assert status(alice, "/v1/sources", known) == 304
        assert status(board, "/v1/sources", known_to_board) == 200
