"""Files that are whole or absent, one writer at a time, and what is remembered of texts."""

import stat
from pathlib import Path

import pytest

from waygraph.registry.atomic import PRIVATE, write_atomically, write_named
from waygraph.registry.errors import RegistryLocked
from waygraph.registry.file_lock import write_lock
from waygraph.registry.remembering import LONGEST_KEPT, remembered


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664, 0o755])
def test_a_named_file_keeps_its_mode(tmp_path: Path, mode: int) -> None:
    """Who could read it before can after, and nobody else."""
    file = tmp_path / "record.json"
    file.write_text("old", encoding="utf-8")
    file.chmod(mode)
    write_named(file, "new")
    assert (file.read_text("utf-8"), stat.S_IMODE(file.stat().st_mode)) == ("new", mode)


def test_a_private_file_is_its_owners(tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    write_atomically(file, b"secret", mode=PRIVATE)
    assert stat.S_IMODE(file.stat().st_mode) == PRIVATE


@pytest.mark.parametrize(
    ("setting", "advice"), [("", "Try again."), ("WAYGRAPH_X_S", "Try again, or raise WAYGRAPH_X_S.")]
)
def test_who_waits_in_vain_is_told_what_helps(tmp_path: Path, setting: str, advice: str) -> None:
    """A setting is named only where there is one."""
    file = tmp_path / "held"
    with write_lock(file, 0), pytest.raises(RegistryLocked) as caught, write_lock(file, 0, setting=setting):
        pass
    assert str(caught.value).endswith(advice)


def test_what_was_made_of_a_long_text_is_not_kept() -> None:
    made: list[int] = []

    @remembered
    def length(text: str) -> int:
        made.append(len(text))
        return len(text)

    short, long = "x" * LONGEST_KEPT, "x" * (LONGEST_KEPT + 1)
    assert [length(short), length(short), length(long), length(long)] == [len(short), len(short), len(long), len(long)]
    assert made == [len(short), len(long), len(long)]
