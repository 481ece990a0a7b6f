"""What cleans up files that it does not know: the lock of a registry among them."""

from pathlib import Path

import pytest

from tests.faults import programs
from tests.faults.processes import child
from tests.faults.soundness import sound_revision
from waygraph.registry.model.files import lock_of

pytestmark = [pytest.mark.attack, pytest.mark.full]


def test_a_lock_that_is_unlinked_keeps_others_out(tmp_path: Path) -> None:
    """The second writer waits as it would have, and the first one's commit stands."""
    path = tmp_path / "r.grafeo"
    with child(programs.ingest_once, path, 1) as writer:
        assert writer.hear() == ("done", "1")
    with child(programs.hold_the_write_lock, path) as holder:
        assert holder.hear() == "holding"
        lock_of(path).unlink()
        with child(programs.ingest_with_patience, path, 2, 0.5) as other:
            (kind, _), _ = other.hear()
        assert kind == "RegistryLocked"
        holder.tell("go on")
    assert sound_revision(path) == 1
