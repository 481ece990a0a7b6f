"""Small promises of single pages: figures are those of their records, commands and examples run."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.__main__ import NAMES, PAGES, options_parser
from benchmarks.contributed import install, on_path
from benchmarks.peers.table import BEGIN, END, comparison_markdown
from benchmarks.record import PROJECT
from scripts.cli_reference import command_names, help_page
from tests.docs.pages import DOCS, ROOT, block, blocks, rows
from tests.service import served
from waygraph.ingest.sources.kinds import BUILT_IN_KINDS
from waygraph.ingest.sources.read import read_path
from waygraph.registry.model.settings import Settings
from waygraph_lab.evaluation.record import source_commit


def test_the_comparison_is_that_of_its_record() -> None:
    record = json.loads((PROJECT / "evals" / "peers.json").read_bytes())
    assert f"{BEGIN}\n\n{comparison_markdown(record)}\n\n{END}" in PAGES.page.read_text(encoding="utf-8")


HEAD = ["row", "paper", "state", "command"]
PAPERS = {"Agent-as-a-Graph", "ScaleMCP", "A2X", "ToolACE-MCP", "RFC 0001"}
STATES = ("measured", "estimated", "needs", "works")
"""How a state begins."""
TABLE = rows(ROOT / "evals" / "papers.md")


def test_the_table_has_its_columns() -> None:
    assert TABLE[0] == HEAD
    assert len(TABLE) > 1
    assert {paper for _, paper, _, _ in TABLE[1:]} <= PAPERS
    assert [state for _, _, state, _ in TABLE[1:] if not state.startswith(STATES)] == []


@pytest.mark.parametrize("row", TABLE[1:], ids=[f"{row[1]}: {row[0]}" for row in TABLE[1:]])
def test_the_command_of_a_row_exists(row: list[str]) -> None:
    commands = re.findall(r"`([^`]+)`", row[3])
    assert commands
    for command in commands:
        check_command(command)


def check_command(command: str) -> None:
    """Fails for one that neither `python -m benchmarks` nor `waygraph` knows, with all its options."""
    words = [word for word in shlex.split(command) if not re.fullmatch(r"WAYGRAPH_\w+=\S+", word)]
    if words[:3] == ["python", "-m", "benchmarks"]:
        options = options_parser().parse_args(words[3:])
        assert options.names
        assert set(options.names) <= set(NAMES)
    else:
        assert words[0] == "waygraph", command
        parse_waygraph(words[1:])


def parse_waygraph(words: list[str]) -> None:
    """Fails for a command or an option that there is not. `waygraph eval DIR` is short for `eval run DIR`."""
    known = set(command_names())
    spellings = (tuple(words[:2]), (words[0], "run"), tuple(words[:1]))
    name = next((each for each in spellings if each in known), ())
    assert name, words
    told = help_page(name)
    assert [word for word in words if word.startswith("-") and f"{word} " not in told] == []


@pytest.mark.parametrize("command", ["python -m benchmarks no_such", "waygraph evil DIR", "waygraph eval D --no-such"])
def test_a_command_that_is_not_there_is_noticed(command: str) -> None:
    with pytest.raises((SystemExit, AssertionError)):
        check_command(command)


WEATHER = """\
waygraph: 1
agents:
- id: gale
  description: Wind and waves at sea.
  tools: [{name: wind_at, description: The wind at a place at sea.}]
"""


def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Its examples, one after the other: what the first one sends, the others find."""
    (tmp_path / "weather.yaml").write_text(WEATHER, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    with served() as service:
        monkeypatch.setenv("URL", service.url)
        names: dict[str, object] = {}
        for block in blocks(DOCS / "rest.md", "python"):
            exec(compile(block, "docs/rest.md", "exec"), names)  # noqa: S102 - that is what is tested
        names["registry"].close()  # type: ignore[attr-defined]
    assert capsys.readouterr().out == "1 ('gale',)\ngale ['gale__wind_at']\n['gale', 'gale']\n"


SHELL = shutil.which("sh") or "sh"
WAYGRAPH = Path(sys.executable).with_name("waygraph")
PAIR = re.compile(r"```sh\n(?P<lines>.*?)```\n\n```json\n(?P<answer>.*?)```", re.DOTALL)
PAGE = (DOCS / "rest.md").read_text(encoding="utf-8")

needs_curl = pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not there to run the page's lines")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, root: Path) -> Iterator[str]:
    """The address of a service over the example catalogue, as the page starts it."""
    folder = tmp_path_factory.mktemp("rest")
    command = [str(WAYGRAPH), "--registry", str(folder / "r.grafeo")]
    subprocess.run([*command, "ingest", "examples/catalog"], cwd=root, check=True, capture_output=True)
    # The page makes a key: other services would ask for it.
    environ = {**os.environ, "WAYGRAPH_DATA_DIR": str(folder / "data")}
    with (folder / "log").open("w") as log:
        running = subprocess.Popen([*command, "serve", "--port", "0"], cwd=root, stderr=log, env=environ)
    try:
        yield address_in(folder / "log")
    finally:
        running.terminate()
        assert running.wait(30) == 0


def address_in(log: Path) -> str:
    """What the service prints when it listens."""
    for _ in range(600):
        if found := re.search(r"http://\S+", log.read_text()):
            return found.group()
        time.sleep(0.05)
    raise AssertionError(log.read_text())


@needs_curl
def test_the_page_is_true(service: str) -> None:
    """Its lines run in their order, and each answer has at least what the page shows of it."""
    shown = [(match["lines"], json.loads(match["answer"])) for match in PAIR.finditer(PAGE)]
    assert len(shown) == PAGE.count("```sh\n") > 8
    for lines, answer in shown:
        done = subprocess.run(
            [SHELL, "-ec", lines], env={**os.environ, "URL": service}, capture_output=True, text=True, check=True
        )
        assert lacking(json.loads(done.stdout), answer) == "", lines


def lacking(told: Any, shown: Any, at: str = "") -> str:
    """The first place where an answer has not what is shown of it; empty if there is none."""
    if isinstance(shown, dict):
        parts = [(told.get(key, "(nothing)"), value, f"{at}.{key}") for key, value in shown.items()]
    elif isinstance(shown, list):
        if len(told) < len(shown):
            return f"{at}: {told}"
        parts = [(one, other, f"{at}[{place}]") for place, (one, other) in enumerate(zip(told, shown, strict=False))]
    else:
        return "" if told == shown else f"{at}: {told!r}, not {shown!r}"
    return next(filter(None, (lacking(*part) for part in parts)), "")


def test_what_is_lacking_is_seen() -> None:
    assert lacking({"a": [1, {"b": 2}], "c": 3}, {"a": [1, {"b": 2}]}) == ""
    assert lacking({"a": [1]}, {"a": [1, 2]}) != ""
    assert lacking({"a": {"b": 1}}, {"a": {"b": 2}}) == ".a.b: 1, not 2"
    assert lacking({}, {"a": None}) != ""


SOURCES, EXTENDING = DOCS / "sources.md", DOCS / "library.md"


def test_the_kind_on_the_page_works_from_its_package(tmp_path: Path) -> None:
    """Its document is told from the content; a bad bot and a bad command cost themselves."""
    document = block(EXTENDING, "json", '"bots"')
    module, project = block(EXTENDING, "python", "BOTS = Kind("), block(EXTENDING, "toml", "waygraph.kinds")
    points = tomllib.loads(project)["project"]["entry-points"]["waygraph.kinds"]
    (tmp_path / "site").mkdir()
    install(tmp_path / "site", "acme", {value.partition(":")[0]: module for value in points.values()}, points)
    bots = json.loads(document)
    bots["bots"] += [5, {"handle": "deck", "commands": [7, {"name": "swab"}]}]
    path = tmp_path / "bots.json"
    path.write_text(json.dumps(bots), encoding="utf-8")
    with on_path(tmp_path / "site"):
        [manifest] = read_path(str(path), Settings())
    assert {entry.key: [tool.name for tool in entry.tools] for entry in manifest.entries} == {
        "harbour": ["book", "leave"],
        "galley": [],
        "deck": ["swab"],
    }
    assert [rejected.where.rpartition("#")[2] for rejected in manifest.rejected] == ["/bots/2", "/bots/3/commands/0"]
    [harbour] = [entry for entry in manifest.entries if entry.key == "harbour"]
    assert json.loads(harbour.tools[0].input_schema)["properties"] == {"ship": {"type": "string"}}


def test_every_kind_is_on_the_page() -> None:
    told = " ".join(cells[0] for cells in rows(SOURCES))
    assert [kind.name for kind in BUILT_IN_KINDS if f"`{kind.name}`" not in told] == []


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository with one committed file."""
    git = shutil.which("git")
    if git is None:
        pytest.skip("there is no git on this machine")
    folder = tmp_path / "project"
    (folder / "registry").mkdir(parents=True)
    (folder / "registry" / "a.py").write_text("one\n", encoding="utf-8")
    (folder / "evals").mkdir()
    (folder / "evals" / "a.json").write_text("{}\n", encoding="utf-8")
    author = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    for words in (["init", "-q"], ["add", "."], [*author, "commit", "-q", "-m", "first"]):
        subprocess.run([git, "-C", folder, *words], check=True)
    return folder


def test_a_checkout_has_its_commit(checkout: Path) -> None:
    """Short, and `+changes` once a tracked file differs; one that is not tracked and a record do not count."""
    commit = source_commit(checkout)
    assert len(commit) >= 7
    assert set(commit) <= set("0123456789abcdef")
    (checkout / "new.py").write_text("two\n", encoding="utf-8")
    (checkout / "evals" / "a.json").write_text("[]\n", encoding="utf-8")
    assert source_commit(checkout) == commit
    (checkout / "registry" / "a.py").write_text("two\n", encoding="utf-8")
    assert source_commit(checkout) == f"{commit}+changes"


def test_a_hook_of_another_checkout_changes_nothing(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = source_commit(checkout)
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "absent"))
    assert source_commit(checkout) == commit != ""


def test_what_lies_inside_of_another_project_has_none(checkout: Path, tmp_path: Path) -> None:
    """A folder of a repository is not its root: an installed package does not carry its host's commit."""
    assert source_commit(checkout / "registry") == ""
    (tmp_path / "plain").mkdir()
    assert source_commit(tmp_path / "plain") == ""
    assert source_commit(tmp_path / "absent") == ""
