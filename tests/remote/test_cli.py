"""`waygraph --registry http://…`: each command says what it says on the registry itself."""

import io
import json
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.cli_answers import Answer, run_program
from tests.service import Served, served
from waygraph import Settings
from waygraph.ingest.sources.read import read_path
from waygraph.ingest.sync.apply import sync
from waygraph.registry.registry import Registry

AGENT = {"id": "gale", "description": "wind at sea", "tools": [{"name": "wind_at", "description": "the wind"}]}
OTHER = {"id": "squall", "description": "gusts at sea", "tools": [{"name": "gust_at", "description": "the gust"}]}


type Run = Callable[..., Answer]


@pytest.fixture(autouse=True)
def _without_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the services here; which embedder this machine prefers is nothing to a service."""
    monkeypatch.setenv("WAYGRAPH_EMBEDDER", "none")


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory, catalog: Path) -> Path:
    path = tmp_path_factory.mktemp("held") / "held.grafeo"
    with Registry.open(path, embedder="none", environ={}) as registry:
        for manifest in read_path(str(catalog), Settings(), source="catalog"):
            sync(registry, manifest)
    return path


def copied(held: Path, folder: Path) -> Path:
    shutil.copytree(held.with_name(f"{held.name}.index"), folder / "r.grafeo.index")
    return Path(shutil.copy(held, folder / "r.grafeo"))


@pytest.fixture
def here(held: Path, tmp_path: Path) -> Path:
    """A registry in a file."""
    (tmp_path / "here").mkdir()
    return copied(held, tmp_path / "here")


@pytest.fixture
def there(held: Path, tmp_path: Path) -> Iterator[Served]:
    """The same one, kept by a service."""
    (tmp_path / "there").mkdir()
    with served(copied(held, tmp_path / "there")) as service:
        yield service


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def call(on: object, *words: object) -> Answer:
        return run_program(capsys, "--registry", on, *words)

    return call


LOOKING: tuple[tuple[str, ...], ...] = (
    ("route", "book a table for four"),
    ("route", "book a table for four", "--explain", "-k", "2"),
    ("route", "--step", "find a flight", "--step", "tell the team", "--limit", "3"),
    ("route", "send a mail", "--tag", "mail", "--kind", "mcp_server"),
    ("route", "send a mail", "--recipe", "lexical", "--agent-weight", "2"),
    ("route", "send a mail", "--recipe", "hybird"),
    ("route", "send a mail", "--agent-weight", "-1"),
    ("find", "convert currency", "--agent", "bureau-fx", "-k", "1"),
    ("find", "convert currency", "--recipe", "agents"),
    ("agents",),
    ("agents", "--tag", "food", "--kind", "mcp_server"),
    ("tools",),
    ("tools", "ledgerleaf"),
    ("tools", "ledgerlaef"),
    ("show", "ledgerleaf"),
    ("show", "ledgerleaf/listOverdue"),
    ("show", "ledgerleaf__createInvoice"),
    ("show", "ledgerlaef"),
    ("sources",),
    ("changes",),
    ("changes", "--since", "2d", "--agent", "ledgerleaf", "-k", "3"),
    ("usage", "--sort", "errors", "--agent", "ledgerleaf"),
    ("changes", "--since", "yesterday"),
    ("route", "send a mail", "--reachable"),
    ("find", "send a mail", "--reachable", "-k", "2"),
    ("status",),
    ("cypher", "MATCH (a:Agent) RETURN a.id AS id ORDER BY id LIMIT $n", "--param", "n=3"),
    ("cypher", "MATCH (a:Agent) DELETE a"),
    ("cypher", "MATCH (a"),
    ("export",),
    ("export", "--format", "graphml"),
    ("export", "--format", "html"),
)


def test_looking_is_the_same(run: Run, here: Path, there: Served) -> None:
    for words in LOOKING:
        for more in ((), ("--json",)):
            answer = run(there.url, *words, *more)
            assert answer.steady == run(here, *words, *more).steady, words
            assert answer.out or answer.err


def test_operating_is_the_same(run: Run, here: Path, there: Served) -> None:
    """What operators say is kept there; afterwards both registries are the same."""
    for words in (
        ("set", "harbor-git", "--pin", "--tag", "approved"),
        ("set", "kindred-hr", "--visible-to", "people"),
        ("set", "kindred-hr", "--everyone", "--json"),
        ("set", "nobody", "--hide"),
        ("remove", "bazaar-lane"),
        ("remove", "bazaar-lan"),
        ("set", "bazaar-lane", "--restore"),
        ("sources", "remove", "nobody's"),
        ("export",),
        ("sources", "remove", "catalog", "--json"),
        ("agents",),
    ):
        assert run(there.url, *words).steady == run(here, *words).steady, words


def test_statements_from_a_pipe_ask_the_service(
    run: Run, here: Path, there: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = "MATCH (a:Agent) RETURN a.id AS id ORDER BY id LIMIT $n;\nMATCH (a;\nRETURN 1 AS one\n"
    said = []
    for place in (there.url, here):
        monkeypatch.setattr(sys, "stdin", io.StringIO(lines))
        said.append(run(place, "cypher", "--param", "n=2").steady)
    assert said[0] == said[1]
    assert said[0].status == 1
    assert "one" in said[0].out


@pytest.fixture
def blank() -> Iterator[Served]:
    with served() as service:
        yield service


@pytest.fixture
def files(tmp_path: Path) -> Path:
    folder = tmp_path / "files"
    folder.mkdir()
    write(folder / "a.json", AGENT)
    (folder / "b.yaml").write_text("waygraph: 1\nagents:\n- {id: squall, description: gusts}\n", encoding="utf-8")
    return folder


def write(path: Path, *agents: object) -> Path:
    path.write_text(json.dumps({"waygraph": 1, "agents": list(agents)}), encoding="utf-8")
    return path


def same_report(run: Run, blank: Served, new: Path, *words: object) -> Any:
    """What both say of an ingest, apart from the name of the source."""
    one, other = (run(place, "ingest", *words, "--json") for place in (blank.url, new))
    strip = re.compile(rf"{re.escape(socket.gethostname())}:(?=/|stdin)")
    assert replace(one, out=strip.sub("", one.out), err=strip.sub("", one.err)).steady == other.steady
    return one.json


def test_files_are_read_here_and_kept_there(run: Run, blank: Served, files: Path, tmp_path: Path) -> None:
    """A folder, a glob, one file; its source is named by this machine and the path."""
    new = tmp_path / "new.grafeo"
    told = same_report(run, blank, new, files)
    assert told["sources"][0]["report"]["source"] == f"{socket.gethostname()}:{files}"
    assert told["sources"][0]["report"]["agents"]["created"] == ["gale", "squall"]
    same_report(run, blank, new, f"{files}/*.json", "--namespace", "other")
    same_report(run, blank, new, files / "a.json", files / "nothing.json", files / "b.yaml")
    assert run(blank.url, "agents").steady == run(new, "agents").steady
    assert any(name.endswith(":" + str(files)) for name in run(blank.url, "sources").out.split())


def test_what_cannot_be_read_here_counts_as_rejected_there(
    run: Run, blank: Served, files: Path, tmp_path: Path
) -> None:
    """Nothing that it may hold is removed: the agent of the file that is no text any more stays."""
    new = tmp_path / "new.grafeo"
    same_report(run, blank, new, files)
    (files / "b.yaml").write_bytes(b"\xff\xfe\x00")
    [told] = same_report(run, blank, new, files)["sources"]
    assert told["report"]["rejected"] == [{"where": f"{files}/b.yaml#", "reason": "is not UTF-8 text (byte 0)"}]
    assert told["report"]["agents"]["removed"] == []
    assert "squall" in run(blank.url, "agents").out
    assert same_report(run, blank, new, files / "b.yaml")["sources"][0]["report"] is None


def test_most_of_a_source_goes_only_if_that_is_meant(run: Run, blank: Served, files: Path, tmp_path: Path) -> None:
    new, more = tmp_path / "new.grafeo", tmp_path / "more"
    more.mkdir()
    write(more / "m.json", OTHER | {"id": "more"})
    few = write(tmp_path / "few.json", AGENT, OTHER, OTHER | {"id": "third"})
    same_report(run, blank, new, few)
    write(few, AGENT)
    told = same_report(run, blank, new, few, more)
    assert "would lose 2 of its 3 agents" in told["sources"][0]["error"]
    assert told["sources"][1]["report"]["agents"]["created"] == ["more"]
    same_report(run, blank, new, few, "--allow-mass-removal")


@pytest.mark.parametrize(
    "words",
    [
        ("reindex",),
        ("reindex", "--texts", "plain"),
        ("doctor",),
        ("doctor", "--deep"),
        ("serve",),
        ("keys", "list"),
        ("keys", "create", "x", "--scope", "route"),
        ("keys", "revoke", "x"),
        ("ingest", "x.json", "--questions", "2"),
        ("migrate", "a.grafeo", "b.grafeo"),
    ],
)
def test_what_a_service_does_not_offer_needs_the_registry(run: Run, blank: Served, words: tuple[str, ...]) -> None:
    answer = run(blank.url, *words)
    assert (answer.status, answer.out) == (1, "")
    assert answer.err == (
        f"error: {blank.url} is a service, and this needs the registry itself: run it where the registry is, "
        "with a file or neo4j:// as its place.\n"
    )


def test_the_key_comes_from_the_environment(
    run: Run, files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without one the service does not answer; with one it decides what may be done."""
    with served(auth=True, folder=tmp_path) as service:
        refused = run(service.url, "agents").err
        assert refused.startswith("error: ")
        assert "WAYGRAPH_API_KEY" in refused
        monkeypatch.setenv("WAYGRAPH_API_KEY", service.key(everything=True))
        assert run(service.url, "ingest", files).status == 0
        assert run(service.url, "agents").out.count("\n") == 3
        monkeypatch.setenv("WAYGRAPH_API_KEY", service.key("route", everything=True))
        assert run(service.url, "route", "wind").status == 0
        answer = run(service.url, "agents")
    assert (answer.status, answer.out) == (1, "")
    assert "the scope 'read'" in answer.err


def test_the_program_itself(there: Served, here: Path) -> None:
    """As a process of its own, its warnings errors; another location imports no HTTP client."""
    program = [sys.executable, "-W", "error", "-m", "waygraph.api.cli.app", "--registry", there.url, "route", "a table"]
    told = subprocess.run(program, capture_output=True, text=True, check=True)
    assert told.stdout.startswith("#\tagent\tscore\ttools\n")
    script = (
        "import sys; from waygraph.api.cli.app import main; "
        f"main(['--registry', {str(here)!r}, 'agents']); main(['--registry', {str(here)!r}, 'ingest', 'nothing']); "
        "sys.exit('httpx2' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, check=False).returncode == 0
