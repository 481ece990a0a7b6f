"""The file of names of a generation."""

import random
from pathlib import Path

import pytest

from waygraph.registry.index.local.local_index import Names, write_names

AWKWARD = [
    "",
    "a",
    "ab",
    'a"',
    'a":[7],',
    "a\\",
    "a\n",
    "é",
    "中文",
    "🙂",
    "\ud800",
    "}",
    "~",
    "\x7f",
    "a/b",
    "a" * 5000,
]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "names.json"


def some_names(seed: int) -> dict[str, list[int]]:
    chance = random.Random(seed)  # noqa: S311 - not a secret
    letters = 'abcz/中é"\\'
    made = {"".join(chance.choices(letters, k=chance.randint(1, 6))) for _ in range(chance.randint(0, 300))}
    return {
        name: chance.choices(range(9000), k=chance.randint(1, 4))
        for name in sorted(made, key=lambda _: chance.random())
    }


@pytest.mark.parametrize("seed", range(8))
def test_each_name_gives_its_rows(file: Path, seed: int) -> None:
    names = some_names(seed)
    write_names(file, names)
    rows = Names(file).rows
    assert {name: list(rows(name)) for name in names} == names
    assert [name for name in some_names(seed + 100) if name not in names and rows(name)] == []


def test_names_that_look_like_the_file_s_own_marks(file: Path) -> None:
    """Quotes, braces, line ends, half of a surrogate pair, a name that another begins with."""
    for name in AWKWARD:
        write_names(file, {other: [row] for row, other in enumerate(AWKWARD) if other != name})
        assert list(Names(file).rows(name)) == []
    write_names(file, {name: [row] for row, name in enumerate(AWKWARD)})
    assert [list(Names(file).rows(name)) for name in AWKWARD] == [[row] for row in range(len(AWKWARD))]


@pytest.mark.parametrize("kept", [0, 1, 2, 40, -1])
def test_a_file_that_is_cut_short_is_damage(file: Path, kept: int) -> None:
    write_names(file, some_names(5))
    file.write_bytes(file.read_bytes()[:kept])
    with pytest.raises(ValueError):
        Names(file)


def test_a_line_that_is_damaged_is_damage(file: Path) -> None:
    write_names(file, {"one": [1], "two": [2]})
    file.write_bytes(file.read_bytes().replace(b"[2]", b"[2}"))
    rows = Names(file).rows
    assert list(rows("one")) == [1]
    with pytest.raises(ValueError):
        rows("two")
