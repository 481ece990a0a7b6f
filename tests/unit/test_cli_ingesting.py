"""`waygraph ingest` of what is alive: commands, configurations of hosts, addresses; here and for a service."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli_answers import Answer, run_program
from tests.mcp_stubs import TIDE_TABLES
from tests.service import served
from waygraph.registry.model.changes import Document
from waygraph.registry.registry import Registry
from waygraph.registry.remote.calls import IngestReports
from waygraph.registry.remote.remote_registry import RemoteRegistry

type Run = Callable[..., Answer]


@pytest.fixture
def program(tmp_path: Path) -> Path:
    file = tmp_path / "tide_tables.py"
    file.write_text(TIDE_TABLES)
    return file


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.setenv("WAYGRAPH_EMBEDDER", "none")

    def call(*words: object, on: object = tmp_path / "r.grafeo") -> Answer:
        return run_program(capsys, "--registry", on, *words)

    return call


def test_what_stands_after_dashes_is_started_and_asked(run: Run, program: Path) -> None:
    """Its options are its own; how it went is told on stderr, one line a server."""
    answer = run("ingest", "--json", "--", sys.executable, "-u", program)
    assert (answer.status, answer.report["tools"]["created"]) == (0, ["tide_tables/tides"])
    assert "tide_tables: 1 tool in" in answer.err
    assert run("find", "high water", "--json").status == 0


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (["front-desk.py"], "python front-desk.py"),
        (["python", "front-desk.py"], "python front-desk.py"),
        (["catalog.txt", "python", "a desk.py"], "python 'a desk.py'"),
        (["desk.js"], "node desk.js"),
        (["catalog.txt"], ""),
    ],
)
def test_a_program_is_told_to_stand_after_dashes(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], command: str
) -> None:
    """Once, by the whole command."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
    for name in ("front-desk.py", "a desk.py", "desk.js", "catalog.txt"):
        Path(name).write_text("print('no JSON')")
    answer = run("ingest", *words)
    assert answer.status == (2 if command else 1)
    assert answer.err.count("waygraph ingest -- ") == bool(command)
    assert f"`waygraph ingest -- {command}`" in answer.err or not command


@pytest.mark.parametrize("verb", ["ingest", "watch"])
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--header", "X-Key: s3cret"), "error: headers: meant for an address, and none is named"),
        (("--oauth",), "error: oauth: meant for an address, and none is named"),
        (("--env", "TIDE_KEY=s3cret"), "error: env: meant for a command, and none is named"),
    ],
)
def test_an_option_that_no_source_takes_is_refused(
    run: Run, catalog: Path, verb: str, words: tuple[str, ...], said: str
) -> None:
    """Nothing is ingested as if it had been heeded; its value is not repeated."""
    assert run("ingest", catalog).status == 0
    before = run("status").out
    answer = run(verb, *words, catalog)
    assert answer.status == 1
    assert said in answer.err
    assert "s3cret" not in answer.err + answer.out
    assert run("status").out == before


def test_a_variable_of_ours_reaches_the_command_and_not_the_graph(
    run: Run, program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server says what it got; the registry keeps the variable's name."""
    monkeypatch.setenv("TIDE_KEY", "planted-s3cret")
    program.write_text(
        TIDE_TABLES.replace('instructions="Tides at harbours."', 'instructions=str(len(os.environ["TIDE_KEY"]))')
    )
    program.write_text("import os\n" + program.read_text())
    assert run("ingest", "--env", "TIDE_KEY", "--", sys.executable, program).status == 0
    with Registry.open(tmp_path / "r.grafeo") as registry:
        [agent] = registry.agents()
    assert agent.description == str(len("planted-s3cret"))
    assert json.loads(agent.transport)["env"] == {"TIDE_KEY": "${TIDE_KEY}"}
    for file in tmp_path.rglob("*"):
        assert not file.is_file() or b"planted-s3cret" not in file.read_bytes()


@pytest.fixture
def home(tmp_path: Path, program: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of a person who has a configuration of Cursor with one server."""
    folder = tmp_path / "home"
    (folder / ".cursor").mkdir(parents=True)
    servers = {"tides": {"command": sys.executable, "args": [str(program)]}}
    (folder / ".cursor" / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.chdir(folder)
    for name in ("APPDATA", "XDG_CONFIG_HOME", "CLAUDE_CONFIG_DIR"):
        monkeypatch.delenv(name, raising=False)
    return folder


def test_what_is_held_of_a_server_that_is_not_asked_stays(run: Run, home: Path) -> None:
    """`--no-connect` looks, and touches nothing that the server told before."""
    config = home / ".cursor" / "mcp.json"
    assert run("ingest", config).status == 0
    again = run("ingest", config, "--no-connect", "--json").report
    assert (again["tools"]["removed"], again["agents"]["unchanged"], again["tools"]["unchanged"]) == ([], 1, 1)
    assert len(json.loads(run("tools", "--json").out)["tools"]) == 1


def test_servers_are_asked_here_for_a_registry_that_a_service_keeps(run: Run, program: Path, tmp_path: Path) -> None:
    """The service gets what they said, and never a command; what failed is counted there and removes nothing."""
    config = tmp_path / "mcp.json"
    tides = {"command": sys.executable, "args": [str(program)]}
    missing = {"command": "no-such-program-anywhere"}
    config.write_text(json.dumps({"mcpServers": {"tides": tides, "missing": missing}}))
    with served(tmp_path / "there.grafeo") as service:
        answer = run("ingest", config, "--json", on=service.url)
        assert answer.report["tools"]["created"] == ["tides/tides"]
        [fault] = answer.report["rejected"]
        assert (answer.status, fault["where"]) == (0, f"{config}#/mcpServers/missing")
        assert "command not found" in fault["reason"]
        config.write_text(json.dumps({"mcpServers": {"missing": missing}}))
        assert run("ingest", config, "--json", on=service.url).status == 1
        listed = json.loads(run("agents", "--json", on=service.url).out)["agents"]
    assert [agent["id"] for agent in listed] == ["tides"]


def test_a_source_that_gives_nothing_and_says_why_is_a_failure(run: Run, program: Path, tmp_path: Path) -> None:
    """Of its servers none answered: exit status 1, each is named, what is held of them stays. Beside one that did
    answer, and of a source that names none, 0.
    """
    config, missing = tmp_path / "mcp.json", {"command": "no-such-program-anywhere"}
    unset = {"command": sys.executable, "env": {"KEY": "${WAYGRAPH_TEST_IS_NOT_SET}"}}
    for tides, status in (({"command": sys.executable, "args": [str(program)]}, 0), (missing, 1)):
        config.write_text(json.dumps({"mcpServers": {"tides": tides, "missing": missing, "unset": unset}}))
        answer = run("ingest", config)
        assert answer.status == status, answer.err
        assert "not set in the environment: WAYGRAPH_TEST_IS_NOT_SET" in answer.out
    assert f"error: 3 records were rejected in {config}, and none was taken" in answer.err
    assert [agent["id"] for agent in json.loads(run("agents", "--json").out)["agents"]] == ["tides"]
    empty = tmp_path / "empty.json"
    empty.write_text('{"mcpServers": {}}')
    assert run("ingest", empty).status == 0


def test_an_entry_of_waygraph_s_own_is_left_out(run: Run, home: Path) -> None:
    """Of what is started, and a line says so."""
    config = home / ".cursor" / "mcp.json"
    others = json.loads(config.read_text())["mcpServers"]
    own = {"waygraph": {"command": "uvx", "args": ["waygraph", "mcp"]}}
    config.write_text(json.dumps({"mcpServers": {**others, **own}}))
    answer = run("ingest", config, "--json")
    [note] = answer.report["cut"]
    assert (answer.report["agents"]["created"], note["where"]) == (["tides"], str(config))


def test_for_a_service_a_folder_starts_nothing_and_sends_no_values(
    run: Run, program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a configuration that waits the service gets references, as of one whose servers were asked."""
    sent, take = list[Document](), RemoteRegistry.take

    def note_documents(self: RemoteRegistry, documents: list[Document], **options: Any) -> IngestReports:
        sent.extend(documents)
        return take(self, documents, **options)

    monkeypatch.setattr(RemoteRegistry, "take", note_documents)
    folder = tmp_path / "got"
    folder.mkdir()
    tides = {"command": sys.executable, "args": [str(program)], "env": {"TOKEN": "planted-s3cret"}}
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": {"tides": tides}}))
    with served(tmp_path / "there.grafeo") as service:
        for dry_run in ((), ("--dry-run",)):
            report = run("ingest", folder, "--json", *dry_run, on=service.url).report
            assert [each["where"] for each in report["cut"]] == [str(folder / "mcp.json")]
        assert (report["agents"]["unchanged"], report["tools"]["unchanged"]) == (1, 0)
        started = run("ingest", folder, "--start", "--json", on=service.url).report
        assert started["tools"]["created"] == ["tides/tides"]
        again = run("ingest", folder, "--json", on=service.url).report
        assert (again["cut"], again["tools"]["unchanged"]) == ([], 1)
    assert "TOKEN" in sent[0].text
    assert not any("planted-s3cret" in document.text for document in sent)


@pytest.mark.parametrize("on", ["", "the service"])
def test_the_endpoint_of_a_service_is_left_out(run: Run, program: Path, tmp_path: Path, on: str) -> None:
    """It is known when it answers, and unasked where the registry is that of the service."""
    config = tmp_path / "mcp.json"
    with served(tmp_path / "there.grafeo") as service:
        tides = {"command": sys.executable, "args": [str(program)]}
        config.write_text(json.dumps({"mcpServers": {"tides": tides, "tools": {"url": f"{service.url}/mcp"}}}))
        place = service.url if on else tmp_path / "here.grafeo"
        report = run("ingest", config, "--json", on=place).report
        assert (report["agents"]["created"], [each["where"] for each in report["cut"]]) == (["tides"], [str(config)])
        named = run("ingest", f"{service.url}/mcp", on=place)
    assert (named.status, "gateway" in named.err) == (1, True)
