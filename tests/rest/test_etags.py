"""ETags: of a revision, as the caller sees it."""

from collections.abc import Iterator

import httpx2
import pytest

from tests.service import Served, agent, assert_careful, assert_good, assert_problem, ingest, served
from waygraph.registry.errors import UnknownName

PATHS = (
    "/v1/agents",
    "/v1/agents/open",
    "/v1/agents/open/tools",
    "/v1/tools",
    "/v1/tools/open/look",
    "/v1/tools/open__look",
    "/v1/sources",
    "/v1/changes",
    "/v1/status",
    "/.well-known/ai-catalog.json",
)


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


@pytest.mark.parametrize("path", ["/v1/agents/none", "/v1/agents/none/tools", "/v1/tools/open/none"])
def test_of_what_is_not_there_nobody_has_an_answer(filled: Served, path: str) -> None:
    assert_problem(filled.admin().get(path, headers={"If-None-Match": "*"}), 404, UnknownName)


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


def test_a_catalogue_of_the_service_alone_has_a_tag_of_its_own(filled: Served) -> None:
    """Of a stranger, and of a key that may not read: it is not the tag of what a key without groups sees."""
    path = "/.well-known/ai-catalog.json"
    told = [tag(each, path) for each in (filled.client(), filled.caller("route"), filled.caller("read"))]
    assert told[0] == told[1] != told[2]


def test_what_is_not_there_has_no_tag(filled: Served) -> None:
    assert "etag" not in filled.admin().get("/v1/agents/nobody").headers


def test_a_tag_of_another_life_is_another() -> None:
    """A registry in memory begins at revision 1 each time: what it is told by is more than the number."""
    tags = []
    for _ in range(2):
        with served() as service:
            client = service.client()
            ingest(client, "s", agent("open", "look"))
            tags.append(tag(client, "/v1/agents"))
    assert tags[0] != tags[1]
