"""What cleans up files that it does not know: the lock of a registry among them."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults import programs
from tests.faults.processes import child
from tests.faults.soundness import sound_revision
from tests.own_logins import KEY
from waygraph.ingest.logins import oauth, store
from waygraph.ingest.logins.oauth import token_file
from waygraph.ingest.logins.store import LoginFile
from waygraph.ingest.manifest import trust_store
from waygraph.ingest.manifest.trust_store import VouchedSource, vouched_file
from waygraph.registry.access.api_keys import KeyFile
from waygraph.registry.model.errors import RegistryLocked
from waygraph.registry.model.files import lock_of

pytestmark = [pytest.mark.attack, pytest.mark.full]


def change_keys(folder: Path, name: str) -> None:
    KeyFile(folder / "keys.json", lock_timeout_s=0.0).create(name, ["read"])


def change_tokens(folder: Path, name: str) -> None:
    token_file(folder, f"https://{name}.example").keep(token=name)


def change_trust(folder: Path, name: str) -> None:
    vouched_file(folder, "r.grafeo").keep(name, VouchedSource(cards={name: name}))


def change_logins(folder: Path, name: str) -> None:
    LoginFile(folder / "logins.json", KEY).put(name, "agent", f"https://{name}.example", "header", {"key": name})


CHANGES: dict[str, Callable[[Path, str], None]] = {
    "keys.json": change_keys,
    "logins.json": change_logins,
    "tokens.json": change_tokens,
    "vouched.json": change_trust,
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_lock_that_is_unlinked_amid_a_change_loses_nothing(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who comes then makes a lock of its own, and is kept out all the same until the first one has written."""
    path, change, replace = tmp_path / name, CHANGES[name], Path.replace
    for module in (store, oauth, trust_store):
        monkeypatch.setattr(module, "_LOCK_TIMEOUT_S", 0.0)
    refused: list[RegistryLocked] = []

    def meanwhile(self: Path, target: Path) -> Path:
        if target == path and not refused:
            lock_of(path).unlink()
            with pytest.raises(RegistryLocked) as caught:
                change(tmp_path, "second")
            refused.append(caught.value)
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", meanwhile)
    change(tmp_path, "first")
    assert len(refused) == 1
    change(tmp_path, "second")
    assert all(each in path.read_text(encoding="utf-8") for each in ("first", "second"))


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
