"""API keys in a file: made, found, revoked; by many processes, and with nothing secret told."""

import json
import stat
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waygraph.registry.access.api_keys import KEY, LONGEST_LIFE, MAX_NAME_CHARS, KeyFile
from waygraph.registry.access.authenticator import caller_with
from waygraph.registry.model.errors import InvalidSetting, KeysUnusable, StorageFailed, UnknownName

CREATES = """
import sys
from pathlib import Path
from waygraph.registry.access.api_keys import KeyFile
for number in range(int(sys.argv[3])):
    print(KeyFile(Path(sys.argv[1])).create(f"{sys.argv[2]}-{number}", ["read"])[1])
"""


class Clock:
    now_s = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def keys(tmp_path: Path, clock: Clock) -> KeyFile:
    return KeyFile(tmp_path / "keys.json", clock=clock)


def edited(keys: KeyFile, change: Callable[[dict[str, Any]], object]) -> None:
    """Changes the file as somebody with an editor would."""
    document = json.loads(keys.path.read_bytes())
    change(document)
    keys.path.write_text(json.dumps(document), encoding="utf-8")


def test_a_key_is_found_by_its_text(keys: KeyFile) -> None:
    key, text = keys.create("billing", ["write", "route", "route"], ["finance", "ops", "finance"])
    assert (key.name, key.scopes, key.groups, key.everything) == (
        "billing",
        ("route", "write"),
        ("finance", "ops"),
        False,
    )
    assert KEY.fullmatch(text)
    assert text.startswith(f"wg_{key.id}_")
    assert keys.find(text) == key
    assert KeyFile(keys.path).list() == (key,)


def test_keys_are_listed_oldest_first(keys: KeyFile, clock: Clock) -> None:
    made = []
    for name in ("one", "two", "one"):
        made.append(keys.create(name, ["read"])[0])
        clock.now_s += 60
    assert keys.list() == tuple(made)
    assert [key.created_at for key in made] == [f"2027-01-15T08:0{minute}:00+00:00" for minute in range(3)]


def test_the_file_holds_hashes_and_is_its_owners(keys: KeyFile) -> None:
    """Neither key nor secret is in it, and its mode is 0600 however often it is written."""
    for _ in range(2):
        _, text = keys.create("a", ["read"])
        content = keys.path.read_text(encoding="utf-8")
        assert text not in content
        assert text.split("_", 2)[2] not in content
        assert stat.S_IMODE(keys.path.stat().st_mode) == 0o600
    assert keys.caution() == ""


@given(data=st.data())
def test_no_key_with_one_character_changed_is_good(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    keys = KeyFile(tmp_path_factory.mktemp("keys") / "keys.json")
    text, other = (keys.create(name, ["read"])[1] for name in "ab")
    place = data.draw(st.integers(0, len(text) - 1))
    letter = data.draw(st.characters())
    changed = text[:place] + letter + text[place + 1 :]
    assert (keys.find(changed) is not None) == (changed == text)
    assert keys.find(text[:-1]) is None
    assert keys.find(text + letter) is None
    assert keys.find(other[:16] + text[16:]) is None


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"scopes": []}, "at least one scope of route, read, write, cypher, use, admin"),
        ({"scopes": ["read", "root"]}, "scope 'root' is not known; known: route, read, write, cypher, use, admin"),
        ({"name": ""}, "is no name"),
        ({"name": " a"}, "is no name"),
        ({"name": "a\nb"}, "is no name"),
        ({"name": "a\u202eb"}, "is no name"),
        ({"name": "a" * (MAX_NAME_CHARS + 1)}, "is no name"),
        ({"groups": ["ops", ""]}, "is no group"),
        ({"groups": ["ops"], "everything": True}, "not both"),
        ({"expires_in": timedelta()}, "more than nothing"),
        ({"expires_in": timedelta(days=-1)}, "more than nothing"),
        ({"expires_in": LONGEST_LIFE + timedelta(days=1)}, "at most 36500 days"),
    ],
)
def test_what_no_key_can_be_is_refused(keys: KeyFile, arguments: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidSetting, match=told):
        keys.create(**{"name": "a", "scopes": ["read"], **arguments})
    assert not keys.path.exists()


def test_a_key_of_a_toolset_keeps_to_it(keys: KeyFile) -> None:
    plain, _ = keys.create("a", ["read"])
    key, text = keys.create("b", ["route", "use"], toolset="money")
    assert (key.toolset, plain.toolset) == ("money", "")
    assert keys.list() == KeyFile(keys.path).list() == (plain, key)
    found = keys.find(text)
    assert found is not None
    assert caller_with(found).toolset == "money"
    for scopes, toolset in ((["read"], "money"), (["use", "admin"], "money"), (["use"], "a\nb")):
        with pytest.raises(InvalidSetting):
            keys.create("c", scopes, toolset=toolset)


def test_a_key_expires(keys: KeyFile, clock: Clock) -> None:
    key, text = keys.create("a", ["read"], expires_in=timedelta(days=2))
    assert key.expires_at == "2027-01-17T08:00:00+00:00"
    clock.now_s += 2 * 86_400 - 1
    assert keys.find(text) == key
    assert keys.state(key) == "active"
    clock.now_s += 1
    assert keys.find(text) is None
    assert keys.state(key) == "expired"
    assert keys.list() == (key,)


def test_a_revoked_key_is_found_no_more(keys: KeyFile, clock: Clock) -> None:
    key, text = keys.create("a", ["read"])
    other, other_text = keys.create("b", ["read"])
    clock.now_s += 60
    ended = keys.revoke(key.id)
    assert ended.revoked_at == "2027-01-15T08:01:00+00:00"
    assert keys.state(ended) == "revoked"
    assert keys.find(text) is None
    assert keys.find(other_text) == other
    clock.now_s += 60
    assert keys.revoke(key.id) == ended
    assert keys.list() == (ended, other)


def test_a_revocation_counts_at_once_for_other_readers(keys: KeyFile) -> None:
    """A service that holds the file sees what another process writes with its next request; new keys too."""
    service = KeyFile(keys.path)
    assert service.list() == ()
    for number in range(50):
        key, text = keys.create(f"k{number}", ["read"])
        assert service.find(text) == key
        keys.revoke(key.id)
        assert service.find(text) is None


def test_no_error_or_repr_tells_a_secret(keys: KeyFile) -> None:
    """Of a key that is unknown, revoked, or given where an id is expected; nor does the noun show its hash."""
    key, text = keys.create("a", ["read"])
    secret = text.split("_", 2)[2]
    unknown = "wg_" + "0" * 12 + "_" + secret
    told = [repr(key), str(key), repr(keys), repr(keys.list())]
    for attempt in (unknown, secret, text[4:]):
        with pytest.raises(UnknownName) as refused:
            keys.revoke(attempt)
        told.append(str(refused.value))
    assert [said for said in told if secret[13:] in said or text in said or key.sha256 in said] == []


def test_a_damaged_file_is_told_without_its_content(keys: KeyFile) -> None:
    keys.create("a", ["read"])
    edited(keys, lambda document: document["keys"][0].update(sha256="HUSH" * 20))
    with pytest.raises(KeysUnusable, match="keys/0/sha256") as refused:
        keys.list()
    assert "HUSH" not in str(refused.value)
    assert refused.value.__cause__ is None


DAMAGES: dict[str, Callable[[dict[str, Any]], object]] = {
    "newer": lambda d: d.update(waygraph_keys=2),
    "no version": lambda d: d.pop("waygraph_keys"),
    "unknown field": lambda d: d.update(more=1),
    "no list": lambda d: d.update(keys={}),
    "twice": lambda d: d["keys"].append(d["keys"][0]),
    "field missing": lambda d: d["keys"][0].pop("revoked_at"),
    "unknown field of a key": lambda d: d["keys"][0].update(allowed_from="10.0.0.0/8"),
    "unknown scope": lambda d: d["keys"][0].update(scopes=["root"]),
    "no scope": lambda d: d["keys"][0].update(scopes=[]),
    "no hash": lambda d: d["keys"][0].update(sha256=""),
    "hash and line": lambda d: d["keys"][0].update(sha256=d["keys"][0]["sha256"] + "\n"),
    "no id": lambda d: d["keys"][0].update(id="../../etc"),
    "no boolean": lambda d: d["keys"][0].update(everything="yes"),
    "everything and groups": lambda d: d["keys"][0].update(everything=True, groups=["ops"]),
    "empty group": lambda d: d["keys"][0].update(groups=[""]),
    "no time": lambda d: d["keys"][0].update(expires_at="soon"),
    "no zone": lambda d: d["keys"][0].update(expires_at="2027-01-01T00:00:00"),
    "name of two lines": lambda d: d["keys"][0].update(name="a\nb"),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_file_is_an_error_and_no_key_is_good(
    keys: KeyFile, damage: Callable[[dict[str, Any]], object]
) -> None:
    """Neither reading nor writing goes on with what is not understood in full; nothing is overwritten."""
    _, text = keys.create("a", ["read"])
    assert keys.find(text)
    edited(keys, damage)
    broken = keys.path.read_bytes()
    for attempt in (lambda: keys.find(text), keys.list, lambda: keys.create("b", ["read"]), lambda: keys.revoke("a")):
        with pytest.raises(KeysUnusable, match=r"keys\.json"):
            attempt()
    assert keys.path.read_bytes() == broken


@given(st.binary(max_size=12), st.floats(0.0, 1.0))
def test_no_damage_makes_a_key(tmp_path_factory: pytest.TempPathFactory, bytes_: bytes, where: float) -> None:
    """Some bytes anywhere in the file: it is refused, or still holds only keys that were made."""
    keys = KeyFile(tmp_path_factory.mktemp("keys") / "keys.json")
    key, text = keys.create("a", ["read"], ["ops"])
    whole = keys.path.read_bytes()
    place = int(where * len(whole))
    keys.path.write_bytes(whole[:place] + bytes_ + whole[place + len(bytes_) :])
    try:
        found = keys.find(text)
    except KeysUnusable:
        return
    assert found is None or (found.id, found.sha256) == (key.id, key.sha256)


def test_a_file_that_is_gone_is_an_error(keys: KeyFile) -> None:
    assert keys.list() == ()
    _, text = keys.create("a", ["read"])
    keys.path.rename(keys.path.with_name("aside"))
    fresh = KeyFile(keys.path)
    assert (fresh.list(), fresh.find(text), fresh.exists()) == ((), None, False)
    service = KeyFile(keys.path.with_name("aside"))
    assert service.find(text)
    keys.path.with_name("aside").unlink()
    with pytest.raises(KeysUnusable, match="it is gone"):
        service.find(text)


def test_a_file_that_everybody_may_write_is_refused(keys: KeyFile) -> None:
    """Also in a service that read it before; one that others may only read is told of."""
    _, text = keys.create("a", ["read"])
    assert keys.find(text)
    keys.path.chmod(0o644)
    assert "chmod 600" in keys.caution()
    assert keys.find(text)
    keys.path.chmod(0o602)
    with pytest.raises(KeysUnusable, match="everybody may write"):
        keys.find(text)


def test_a_write_that_fails_leaves_the_file(keys: KeyFile, monkeypatch: pytest.MonkeyPatch) -> None:
    _, text = keys.create("a", ["read"])

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("waygraph.registry.model.files.os.fsync", full)
    with pytest.raises(StorageFailed, match="No space left"):
        keys.create("b", ["read"])
    monkeypatch.undo()
    assert [key.name for key in keys.list()] == ["a"]
    assert keys.find(text)
    assert [path.name for path in keys.path.parent.iterdir() if path.is_dir()] == []


def test_processes_that_create_lose_no_key(keys: KeyFile) -> None:
    program = [sys.executable, "-c", CREATES, str(keys.path)]
    running = [
        subprocess.Popen([*program, name, "10"], stdout=subprocess.PIPE, text=True) for name in ("one", "two", "three")
    ]
    texts = [text for process in running for text in process.communicate()[0].split()]
    assert [process.returncode for process in running] == [0, 0, 0]
    assert len(keys.list()) == len(set(texts)) == 30
    assert [text for text in texts if keys.find(text) is None] == []
