"""`waygraph keys`, in this process, over a file of the test's own."""

import json
from pathlib import Path
from typing import Any

import pytest

from waygraph.api.cli.app import main
from waygraph.registry.access.api_keys import KeyFile


@pytest.fixture(autouse=True)
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WAYGRAPH_DATA_DIR", str(tmp_path))
    return tmp_path / "keys.json"


def said(capsys: pytest.CaptureFixture[str], *words: str, status: int = 0) -> tuple[str, str]:
    """What it prints on stdout and on stderr."""
    capsys.readouterr()
    assert main(["keys", *words]) == status
    told = capsys.readouterr()
    return told.out, told.err


def created(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    return json.loads(said(capsys, "create", *words, "--json")[0])


def test_create_prints_the_key_this_once(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On stdout, with a remark on stderr; the key works, and no other command shows it."""
    out, err = said(capsys, "create", "billing", "--scope", "read", "--scope", "route", "--group", "finance")
    text = next(line.partition("\t")[2] for line in out.splitlines() if line.startswith("key\t"))
    assert "not shown again" in err
    key = KeyFile(file).find(text)
    assert key is not None
    assert (key.name, key.scopes, key.groups, key.expires_at) == ("billing", ("route", "read"), ("finance",), "")
    shown = [said(capsys, *words) for words in (("list",), ("list", "--json"), ("revoke", key.id))]
    assert text.split("_", 2)[2] not in str(shown)
    assert key.sha256 not in str(shown)


def test_json_is_alone_on_stdout(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    key = created(capsys, "bot", "--scope", "cypher", "--everything", "--expires-in", "0.5")
    held = KeyFile(file).find(key["key"])
    assert held is not None
    assert held.everything
    assert held.expires_at == key["expires_at"] > key["created_at"]
    assert created(capsys, "bot", "--scope", "use")["expires_at"] == ""


def test_list_tells_the_state_of_each(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    ids = [created(capsys, name, "--scope", "read")["id"] for name in "ab"]
    said(capsys, "revoke", ids[0])
    listed = json.loads(said(capsys, "list", "--json")[0])["keys"]
    assert [(key["id"], key["name"], key["state"]) for key in listed] == [
        (ids[0], "a", "revoked"),
        (ids[1], "b", "active"),
    ]
    lines = said(capsys, "list")[0].splitlines()
    assert lines[0] == "id\tname\tstate\tscopes\tsees\tcreated\texpires"
    assert [line.split("\t")[:5] for line in lines[1:]] == [
        [ids[0], "a", "revoked", "read", "what is public"],
        [ids[1], "b", "active", "read", "what is public"],
    ]
    file.chmod(0o640)
    assert "chmod 600" in said(capsys, "list")[1]


@pytest.mark.parametrize(
    ("words", "status", "told"),
    [
        (("create", "a"), 2, "Missing option '--scope'"),
        (("create", "a", "--scope", "root"), 2, "known: route, read, write, cypher, use, admin"),
        (("create", "a", "--scope", "read", "--expires-in", "soon"), 2, "'soon' is not a valid"),
        (("create", "a", "--scope", "read", "--expires-in", "1e300"), 2, "no number of days"),
        (("create", "a", "--scope", "read", "--expires-in", "nan"), 2, "no number of days"),
        (("create", "a", "--scope", "read", "--expires-in", "-1"), 2, "more than nothing"),
        (("create", "a", "--scope", "read", "--group", "x", "--everything"), 2, "not both"),
        (("create", " ", "--scope", "read"), 2, "is no name"),
        (("revoke", "000000000000"), 1, "is not known"),
    ],
)
def test_what_cannot_be_is_told(
    file: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], status: int, told: str
) -> None:
    assert told in said(capsys, *words, status=status)[1]
    assert not file.exists()
