"""`waygraph keys` and `waygraph logins`, in this process, over a file of the test's own."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.hosts import Place, ingest
from tests.identity_provider import Person, identity_provider
from tests.own_logins import KEY
from tests.protected_server import protected_server
from waygraph.api.cli.app import main
from waygraph.api.cli.render import progress
from waygraph.ingest.logins.store import LoginFile
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


HERE = "http://127.0.0.1:9/mcp"


@pytest.fixture
def logins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LoginFile:
    monkeypatch.setenv("WAYGRAPH_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("WAYGRAPH_LOGIN_KEY", KEY)
    return LoginFile(tmp_path / "logins.json", KEY)


def listed(capsys: pytest.CaptureFixture[str]) -> list[tuple[str, str]]:
    capsys.readouterr()
    assert main(["logins", "list", "--json"]) == 0
    return [(each["caller"], each["agent_id"]) for each in json.loads(capsys.readouterr().out)["logins"]]


def test_logins_are_listed_and_forgotten(
    logins: LoginFile, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the key too. Of one caller at one agent, or at all of them."""
    for caller, agent in (("key:a", "desk"), ("key:a", "wiki"), ("key:b", "desk")):
        logins.put(caller, agent, HERE, "header", {"key": "a-key-that-nobody-sees"})
    monkeypatch.delenv("WAYGRAPH_LOGIN_KEY")
    assert listed(capsys) == [("key:a", "desk"), ("key:a", "wiki"), ("key:b", "desk")]
    assert main(["logins", "list"]) == 0
    told = capsys.readouterr().out
    assert "key:b" in told
    assert "nobody-sees" not in told
    assert main(["logins", "remove", "key:a", "desk"]) == 0
    assert listed(capsys) == [("key:a", "wiki"), ("key:b", "desk")]
    assert main(["logins", "remove", "key:a"]) == 0
    assert listed(capsys) == [("key:b", "desk")]


def test_a_revoked_key_leaves_no_login(logins: LoginFile, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keys = KeyFile(tmp_path / "keys.json")
    gone, kept = (keys.create(name, ["use"])[0] for name in ("gone", "kept"))
    for key in (gone, kept):
        logins.put(f"key:{key.id}", "desk", HERE, "header", {"key": "theirs"})
    assert main(["keys", "revoke", gone.id]) == 0
    assert listed(capsys) == [(f"key:{kept.id}", "desk")]


def test_the_user_of_this_machine_logs_in(
    logins: LoginFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with identity_provider("office") as [office], protected_server(office) as server, Person("ann") as ann:
        header = {"Authorization": f"Bearer {office.issue('ann', server.url)}"}
        config = {"mcpServers": {"desk": {"type": "http", "url": server.url, "headers": header}}}
        (tmp_path / "mcp.json").write_text(json.dumps(config))
        place = Place(tmp_path)
        assert ingest(place, str(tmp_path / "mcp.json")) == 0
        add = ["--registry", str(place.registry), "--embedder", "none", "logins", "add", "desk"]
        assert main(add) == 2, "it is called as the operator"
        (tmp_path / "services.toml").write_text('[[login]]\nagent = "desk"\nby = "oauth"\n')
        monkeypatch.setenv("WAYGRAPH_SERVICES_FILE", str(tmp_path / "services.toml"))
        browse = lambda page: threading.Thread(target=ann.open, args=(page,), daemon=True).start()  # noqa: E731
        monkeypatch.setattr(progress, "open_page", browse)
        assert main(add) == 0
        office.people.clear()
        assert main(add) == 1
        assert "the login was refused (access_denied)" in capsys.readouterr().err
    assert [(login.caller, login.agent_id) for login in logins.list()] == [("local", "desk")]
