"""Which known name was meant."""

import pytest

from waygraph.registry.model.errors import likeness, nearest


@pytest.mark.parametrize(
    ("name", "meant"),
    [("calender", ["calendar"]), ("mpas", ["maps"]), ("zzz", []), ("", []), ("calendar" * 10_000, [])],
)
def test_the_nearest_is_what_shares_most_letters_in_order(name: str, meant: list[str]) -> None:
    assert nearest(name, ["maps", "calendar", "mail"]) == meant


def test_equal_ones_come_by_name_and_no_more_than_wanted() -> None:
    assert nearest("tool", {"toolz", "tools", "toola", "other"}, 2) == ["toola", "tools"]
    assert nearest("abcd", ["ab"], least=0.9) == []


def test_likeness_is_the_share_of_letters_in_the_same_order() -> None:
    assert (likeness("ab", "ab"), likeness("ab", "cd")) == (1.0, 0.0)
    assert likeness("abcd", "ab") == pytest.approx(2 / 3)
