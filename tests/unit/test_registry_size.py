"""What registries of a size take: measured on real ones, and estimated only where the measurements allow it."""

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from waygraph.registry.model.settings import Settings
from waygraph.registry.storage.integrity.size import ESTIMATED_TOOLS, QUANTITIES, NotMeasured, estimate, measure_sizes


def test_a_line_is_followed() -> None:
    assert estimate([(500, 6.0), (2_000, 9.0), (5_000, 15.0)], 100_000) == pytest.approx(205.0)


@pytest.mark.parametrize(
    "points",
    [
        [(500, 6.0), (2_000, 9.0)],
        [(500, 6.0), (500, 7.0), (500, 8.0)],
        [(500, 6.0), (2_000, 6.0), (5_000, 6.0)],
        [(500, 9.0), (2_000, 6.0), (5_000, 3.0)],
        [(500, 1.0), (2_000, 9.0), (5_000, 5.0)],
    ],
    ids=["two sizes", "one size", "flat", "falling", "scattered"],
)
def test_what_is_not_sound_is_not_estimated(points: Sequence[tuple[int, float]]) -> None:
    assert estimate(points, 100_000) is None


def test_real_registries_are_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By commands, each in a process of its own, in a folder that is gone afterwards."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    sizes = measure_sizes(Settings(), "none", os.environ, sizes=(30,))
    (measured,) = sizes.measurements
    assert measured.tools == 30
    assert measured.vectors_mib == 0
    assert all(getattr(measured, name) > 0 for name in QUANTITIES if name != "vectors_mib")
    assert [each.tools for each in sizes.estimates] == list(ESTIMATED_TOOLS)
    assert all(getattr(each, name) is None for each in sizes.estimates for name in QUANTITIES)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("embedder", "said"), [("openai:m", "endpoint"), ("onnx:no/such-model", "no/such-model")])
def test_an_embedder_that_cannot_be_used_is_named(embedder: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(NotMeasured, match=said):
        measure_sizes(Settings(cache_dir=str(tmp_path)), embedder, os.environ, sizes=(10,))
