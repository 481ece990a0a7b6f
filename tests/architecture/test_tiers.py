"""Which tests the fast tier leaves out."""

import pytest

from tests.tiers import FULL, TESTS, needs_shared_server


def test_what_the_fast_tier_leaves_out_is_there() -> None:
    """A file that was renamed would come back into the fast tier unnoticed."""
    assert [name for name in FULL if not (TESTS / name).exists()] == []


@pytest.mark.parametrize(
    ("nodeid", "needs"),
    [
        ("tests/contract/test_index.py::test_x[neo4j 5.26]", True),
        ("tests/congruence/test_congruence.py::test_x[none 1, neo4j given]", True),
        ("tests/contract/test_index.py::test_x[grafeo file]", False),
        ("tests/unit/test_settings.py::test_x[neo4j_password]", False),
        ("tests/faults/test_neo4j.py::test_x[5.26]", False),
    ],
)
def test_a_parameter_says_that_a_shared_server_is_needed(nodeid: str, needs: bool) -> None:
    assert needs_shared_server(nodeid) is needs
