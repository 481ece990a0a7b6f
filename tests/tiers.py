"""The tiers of the suite and the order of its work. A pytest plugin.

`make test` leaves out what is marked `full` or `slow`, `make check` what is marked `slow`. What FULL names and every
test of the shared Neo4j is marked `full` here.
"""

import re
from pathlib import Path
from typing import Any, Final

import pytest
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

TESTS: Final = Path(__file__).parent
FULL: Final = tuple(
    """
    live congruence explorer clients faults hosts/test_front_door.py bridge gateway/test_sessions.py
    calling/test_call_command.py calling/test_odd_issuers.py attack/test_logins.py attack/test_login_doors.py
    attack/test_hidden_words.py attack/test_egress.py attack/test_inspection.py rest/test_serving.py
    rest/test_schemathesis.py rest/test_visibility.py rest/test_access.py rest/test_operators.py
    rest/test_browser_sessions.py remote/test_congruence.py remote/test_behind_proxy.py
    unit/test_failing_servers.py unit/test_taxonomy_model.py unit/test_watching.py unit/test_planted_secrets.py
    unit/test_cli_ingesting.py contract/test_cypher_sandbox.py contract/test_embedders.py contract/test_attacks.py
    contract/test_cypher_places.py contract/test_taxonomies.py contract/test_router.py docs/test_readme.py lab
    gateway calling hosts upstream release
    """.split()
)
"""Folders and files that `make test` leaves out, those that take longest first."""
ATTACKS: Final = (
    "contract/test_attacks.py",
    "contract/test_cypher_sandbox.py",
    "calling/test_attacks.py",
    "calling/test_own_logins.py",
    "gateway/test_login_pages.py",
    "gateway/test_hostile_hosts.py",
    "rest/test_visibility.py",
)
"""Files that `make attack` runs beside what is marked `attack`."""
SHARED_SERVER: Final = re.compile(r"neo4j (?:given|\d)")


def needs_shared_server(nodeid: str) -> bool:
    """Whether a parameter names a server of `neo4j_servers`: `tests/contract/test_x.py::test_y[neo4j 5.26]`."""
    return SHARED_SERVER.search(nodeid.partition("[")[2]) is not None


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Spare the fast tier the import of what it leaves out."""
    is_fast = "not full" in str(config.option.markexpr)
    return True if is_fast and _place_in_full(collection_path) < len(FULL) else None


def pytest_itemcollected(item: pytest.Item) -> None:
    if _place(item) <= len(FULL):
        item.add_marker(pytest.mark.full)
    if any(item.path == TESTS / name for name in ATTACKS):
        item.add_marker(pytest.mark.attack)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes longest comes first, so that no worker ends late."""
    items.sort(key=_place)


def _place(item: pytest.Item) -> int:
    """0 for the shared server, then what FULL names, then the rest."""
    if needs_shared_server(item.nodeid):
        return 0
    return 1 + _place_in_full(item.path)


def _place_in_full(path: Path) -> int:
    below = path.relative_to(TESTS) if path.is_relative_to(TESTS) else path
    return next((place for place, name in enumerate(FULL) if below.is_relative_to(name)), len(FULL))


class _ByFileAndServer(LoadScopeScheduling):  # type: ignore[misc]  # untyped base
    """A worker runs a file at a time. One worker runs all tests of the shared Neo4j, which has one database."""

    def _split_scope(self, nodeid: str) -> str:
        return "neo4j" if needs_shared_server(nodeid) else nodeid.partition("::")[0]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    config.option.loadscopereorder = False
    return _ByFileAndServer(config, log)
