"""`waygraph logins`: whose there are, an end to them, and the one of this machine's own user."""

import json
import threading
from pathlib import Path

import pytest

from tests.gateway.hosts import Place, ingest
from tests.identity_provider import Person, identity_provider
from tests.own_logins import KEY
from tests.protected_server import protected_server
from waygraph.api.cli.app import main
from waygraph.api.cli.render import progress
from waygraph.ingest.logins.store import LoginFile
from waygraph.registry.access.api_keys import KeyFile

HERE = "http://127.0.0.1:9/mcp"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LoginFile:
    monkeypatch.setenv("WAYGRAPH_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("WAYGRAPH_LOGIN_KEY", KEY)
    return LoginFile(tmp_path / "logins.json", KEY)


def listed(capsys: pytest.CaptureFixture[str]) -> list[tuple[str, str]]:
    capsys.readouterr()
    assert main(["logins", "list", "--json"]) == 0
    return [(each["caller"], each["agent_id"]) for each in json.loads(capsys.readouterr().out)["logins"]]


def test_logins_are_listed_and_forgotten(
    file: LoginFile, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the key too. Of one caller at one agent, or at all of them."""
    for caller, agent in (("key:a", "desk"), ("key:a", "wiki"), ("key:b", "desk")):
        file.put(caller, agent, HERE, "header", {"key": "a-key-that-nobody-sees"})
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


def test_a_revoked_key_leaves_no_login(file: LoginFile, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keys = KeyFile(tmp_path / "keys.json")
    gone, kept = (keys.create(name, ["use"])[0] for name in ("gone", "kept"))
    for key in (gone, kept):
        file.put(f"key:{key.id}", "desk", HERE, "header", {"key": "theirs"})
    assert main(["keys", "revoke", gone.id]) == 0
    assert listed(capsys) == [(f"key:{kept.id}", "desk")]


def test_the_user_of_this_machine_logs_in(
    file: LoginFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
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
    assert [(login.caller, login.agent_id) for login in file.list()] == [("local", "desk")]
