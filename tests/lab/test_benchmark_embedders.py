"""Embedders beside each other: the floors' arithmetic, spreads, and that a small set goes the whole way."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

from benchmarks import embedders
from benchmarks.agent_as_a_graph import AGAINST
from benchmarks.floors import HashedWords, LatentWords, words
from benchmarks.published import TABLE_2
from benchmarks.record import as_record
from benchmarks.tables import detail_tables
from benchmarks.world import World
from tests.lab.test_benchmark_papers import write_set
from waygraph.registry.model.settings import load_settings

TEXTS = ("send a letter by mail", "mail a parcel", "the way to the station", "a map of the city, with the station")


def test_words_are_split_where_names_are() -> None:
    assert words("getUserById, list_open-issues") == ["get", "user", "by", "id", "list", "open", "issues"]


def test_hashed_words_are_near_where_words_are_shared() -> None:
    """Of length 1, and of an empty text 0; the same in any order of words."""
    mail, other, way, empty = HashedWords(64).embed(["send mail", "mail send", "a map", ""], "query")
    assert np.allclose(mail, other)
    assert mail @ mail == pytest.approx(1, abs=1e-5)
    assert abs(mail @ way) < 0.5
    assert not empty.any()


def test_latent_words_bring_texts_of_one_subject_together() -> None:
    """A word that stands only beside another is near to it; a word that no text has says nothing."""
    latent = LatentWords.of(TEXTS, components=2)
    letter, parcel, station, unknown = latent.embed(["letter", "parcel", "map", "zebra"], "query")
    assert latent.dimension == 2
    assert letter @ parcel > 0.9 > letter @ station
    assert not unknown.any()
    assert LatentWords.of(TEXTS[:3]).fingerprint != latent.fingerprint


def test_a_small_set_leaves_a_table_with_mean_and_spread(tmp_path: Path) -> None:
    """A row an embedder and method; floors count in no mean; the paper's mean and spread stand beside."""
    write_set(tmp_path / "livemcpbench", steps=True)
    settings = load_settings()
    world = World(settings=settings, environ=os.environ, data=tmp_path, cache=tmp_path / "cache")
    record = json.loads(json.dumps(as_record(embedders.run(world), "a test")))
    rows = record["details"]["rows"]
    names = list(dict.fromkeys(row["embedder"] for row in rows))
    assert names[-2:] == ["LSA of the catalogue", "hashed words"]
    assert set(embedders.MODELS) <= set(names)
    assert [row["method"] for row in rows[:3]] == [AGAINST, "MCP-Zero", "hybrid"]
    assert len(rows) == 3 * len(names)
    assert len({row["fingerprint"] for row in rows}) == len(names)
    tables = detail_tables([record])
    assert f"*the paper's {len(TABLE_2)} models, mean ± sd* | 0.850 ± 0.024 | 0.703 ± 0.038 |" in tables
    assert "hashed words (floor)" in tables


def test_the_mean_and_spread_are_over_models() -> None:
    rows = [{"method": "m", "kind": "model", **dict.fromkeys(embedders.METRICS, value)} for value in (0.5, 0.7)]
    mean, spread = embedders.spreads(rows)["m"]["Recall@5"]
    assert mean == pytest.approx(0.6)
    assert spread == pytest.approx(0.1414, abs=1e-4)
