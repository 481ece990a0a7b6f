"""Random harm to the log of a registry that is written: nothing that was acknowledged is lost in silence."""

import random
import shutil
from pathlib import Path

import pytest

from tests.faults import programs
from tests.faults.fleet import manifest
from tests.faults.processes import child
from tests.faults.programs import opened
from tests.faults.soundness import sound_revision
from tests.faults.test_lost_log import HARMS
from waygraph.ingest.sync.apply import sync
from waygraph.registry.model.errors import RegistryUnusable
from waygraph.registry.model.settings import Settings
from waygraph.registry.storage.migrate import repair_at


@pytest.mark.parametrize("rounds", [2, pytest.param(120, marks=pytest.mark.slow)])
def test_a_killed_writer_with_a_harmed_log_is_refused_or_whole(tmp_path: Path, rounds: int) -> None:
    """The index shows the last acknowledged revision; the graph goes on from it, or a repair makes it anew."""
    chance = random.Random(23)  # noqa: S311
    for number in range(rounds):
        path, last = tmp_path / f"{number}" / "r.grafeo", chance.randint(1, 6)
        path.parent.mkdir()
        with child(programs.ingest_and_stay, path, last) as writer:
            assert [writer.hear() for _ in range(last)] == [*range(1, last + 1)]
            writer.kill()
        chance.choice(HARMS)(path)
        with opened(path) as registry:
            agents = registry.agents()
            assert registry.status().state.revision == last
            try:
                sync(registry, manifest(last + 1))
            except RegistryUnusable:
                assert registry.agents() == agents
                assert repair_at(str(path), Settings()) is not None
                sync(registry, manifest(last + 1))
            assert registry.status().state.revision == last + 1
        shutil.rmtree(path.parent)


@pytest.mark.parametrize("rounds", [3, pytest.param(200, marks=pytest.mark.slow)])
def test_a_process_outlives_any_harm_to_its_log(tmp_path: Path, rounds: int) -> None:
    """Each write after a harm is acknowledged, and there when the registry is opened anew."""
    path, chance, revision = tmp_path / "r.grafeo", random.Random(29), 0  # noqa: S311
    for _ in range(rounds):
        with opened(path) as registry:
            for _ in range(chance.randint(1, 3)):
                revision += 1
                assert sync(registry, manifest(revision)).revision == revision
                chance.choice(HARMS)(path)
        assert sound_revision(path) == revision
