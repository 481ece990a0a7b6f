"""Lists in parts: what cursors promise, also while the registry changes."""

from collections.abc import Iterator

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.service import Served, agent, assert_good, ingest

PATHS = {"/v1/agents": "agents", "/v1/tools": "tools", "/v1/agents/trencher-tables/tools": "tools"}


def parts(client: httpx2.Client, path: str, noun: str, limit: int) -> Iterator[list[str]]:
    cursor = ""
    while True:
        told = assert_good(client.get(path, params={"limit": limit, "cursor": cursor}))
        yield [each["id"] for each in told[noun]]
        cursor = told["following"]
        if not cursor:
            return


@pytest.mark.parametrize("path", PATHS)
@given(limit=st.integers(1, 250))
@settings(max_examples=15)
def test_the_parts_are_the_whole(example: Served, path: str, limit: int) -> None:
    """Nothing twice, nothing left out, each part but the last full, the last never empty."""
    client = example.client()
    whole = [each["id"] for each in assert_good(client.get(path, params={"limit": 1000}))[PATHS[path]]]
    found = list(parts(client, path, PATHS[path], limit))
    assert [each for part in found for each in part] == whole == sorted(whole)
    assert all(len(part) == limit for part in found[:-1])
    assert 1 <= len(found[-1]) <= limit


def test_what_stays_is_told_once_whatever_changes_meanwhile(blank: Served) -> None:
    """An agent that is there from the first part to the last is told exactly once, also if the one at which the list
    was cut is gone; each part says of which revision it is.
    """
    client = blank.client()
    ingest(client, "s", *(agent(f"a{number}") for number in range(6)))
    first = assert_good(client.get("/v1/agents", params={"limit": 2}))
    ingest(client, "s", *(agent(f"a{number}") for number in (0, 2, 3, 4, 5)), agent("a00"), agent("a25"))
    second = assert_good(client.get("/v1/agents", params={"limit": 2, "cursor": first["following"]}))
    ingest(client, "s", *(agent(f"a{number}") for number in (0, 2, 3, 4, 5)), allow_mass_removal=True)
    third = assert_good(client.get("/v1/agents", params={"limit": 9, "cursor": second["following"]}))
    ids = [each["id"] for part in (first, second, third) for each in part["agents"]]
    assert ids == ["a0", "a1", "a2", "a25", "a3", "a4", "a5"]
    assert first["revision"] < second["revision"] < third["revision"]
    assert third["following"] == ""
