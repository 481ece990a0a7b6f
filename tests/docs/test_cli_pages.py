"""docs/cli.md has what the help pages say, and docs/json-output.schema.json what the commands print."""

import json
import re
import shutil
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, cast

import pytest
from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

from scripts.cli_reference import command_names, help_page, reference
from scripts.json_shapes import write_schema
from waygraph.api.cli.app import main
from waygraph.registry.access.api_keys import KeyFile

ROOT = Path(__file__).parents[2]
CATALOG = ROOT / "examples" / "catalog"
REFERENCE = ROOT / "docs" / "cli.md"
SHAPES = ROOT / "docs" / "json-output.schema.json"

REQUESTS = ROOT / "examples" / "requests"

OWN = "OWN"
"""Stands for the test's own registry."""

CONVERSATION = '{"id": "x", "turns": [{"role": "user", "text": "hi"}, {"role": "call", "agent": "a", "tool": "b"}]}\n'
KEY_ID = "0123456789ab"
"""The key in the test's own keys file."""

COMMANDS: dict[str, list[list[str]]] = {
    "ingest": [["ingest", str(CATALOG), "/nowhere"], ["ingest", str(CATALOG), "--dry-run"]],
    "route": [["route", "book a table"], ["route", "--step", "book a table", "--step", "pay", "--explain"]],
    "find": [["find", "convert currency"]],
    "agents": [["agents"]],
    "tools": [["tools"], ["tools", "bureau-fx"], ["tools", "fernwise"]],
    "show": [["show", "bureau-fx"]],
    "set": [["set", "bureau-fx", "--pin", "--visible-to", "finance"], ["set", "bureau-fx", "--everyone"]],
    "set-tool": [["set-tool", "harbor-git/merge_pull_request", "--describe", "Merge.", "--pin", "method=squash"]],
    "remove": [["remove", "bureau-fx"]],
    "changes": [["changes", "--since", "2d"]],
    "usage": [["usage"]],
    "approve": [["approve", "bureau-fx"], ["approve", "--all-of", str(CATALOG)]],
    "reject": [["reject", "bureau-fx", "--reason", "odd"], ["reject", "--all-of", str(CATALOG), "--reason", "odd"]],
    "sources": [["sources"]],
    "sources remove": [["sources", "remove", str(CATALOG)]],
    "cypher": [["cypher", "MATCH (a:Agent) RETURN a, a.id, size(a.tags) AS n"]],
    "status": [["status"]],
    "export": [["export"], ["export", "--format", "graphml"]],
    "migrate": [["migrate", OWN, f"{OWN}.copy"]],
    "reindex": [["reindex", "--texts", "plain"]],
    "keys create": [["keys", "create", "billing", "--scope", "read", "--group", "finance", "--expires-in", "90"]],
    "keys list": [["keys", "list"]],
    "keys revoke": [["keys", "revoke", KEY_ID]],
    "logins list": [["logins", "list"]],
    "logins remove": [["logins", "remove", "key:a"]],
    "model list": [["model", "list"]],
    "model pull": [["model", "pull", "onnx:/models/x"]],
    "eval run": [["eval", str(REQUESTS), "--recipe", "lexical", "--recipe", "paper"]],
    "eval table": [["eval", "table", f"{OWN}.lexical.json", f"{OWN}.agents.json"]],
    "eval history": [["eval", "history", f"{OWN}.conversations"]],
    "eval plot": [["eval", "plot", f"{OWN}.lexical.json", "--to", f"{OWN}.plots"]],
    "eval diff": [["eval", "diff", f"{OWN}.lexical.json", f"{OWN}.agents.json"]],
    "lint": [["lint", "bureau-fx"], ["lint", "bureau-fx/convert", "--try", "Change money into another currency."]],
    "generate scalemcp": [["generate", "scalemcp", f"{OWN}.csv", f"{OWN}.dataset", "--instances", "600"]],
    "generate tasks": [["generate", "tasks", f"{OWN}.checkout", str(CATALOG), f"{OWN}.asked"]],
    "generate mutations": [["generate", "mutations", str(CATALOG), f"{OWN}.mutants", "-n", "8"]],
    "generate trajectories": [["generate", "trajectories", str(CATALOG), f"{OWN}.played", "-n", "4"]],
    "generate router-data": [["generate", "router-data", f"{OWN}.conversations", f"{OWN}.samples.jsonl"]],
    "graph link": [["graph", "link"], ["graph", "link", "--nearest", "3"]],
    "graph unlink": [["graph", "unlink"]],
    "learn transitions": [["learn", "transitions", f"{OWN}.conversations"]],
    "learn export": [["learn", "export"]],
    "learn remove": [["learn", "remove"]],
    "taxonomy build": [["taxonomy", "build"], ["taxonomy", "build", "--of", "tools", "--leaf-size", "9"]],
    "taxonomy use": [["taxonomy", "use", "main"]],
    "taxonomy show": [["taxonomy", "show"]],
    "taxonomy status": [["taxonomy", "status"]],
    "taxonomy check": [["taxonomy", "check"]],
    "taxonomy export": [["taxonomy", "export"]],
    "taxonomy remove": [["taxonomy", "remove"]],
    "toolset create": [["toolset", "create", "trip", "--tag", "travel"]],
    "toolset update": [["toolset", "update", "money", "--tool", "ledgerleaf/x", "--clear", "agents"]],
    "toolset apply": [["toolset", "apply", f"{OWN}.toolsets.toml"]],
    "toolset list": [["toolset", "list"]],
    "toolset show": [["toolset", "show", "money"]],
    "toolset remove": [["toolset", "remove", "money"]],
    "doctor": [["doctor"], ["doctor", "--deep"]],
    "connect": [
        ["connect", "cursor", "--file", f"{OWN}.mcp.json"],
        ["connect", "zed", "--file", f"{OWN}.mcp.json", "--write", "--dry-run"],
    ],
}
GROUPS = {"keys", "logins", "model", "eval", "generate", "graph", "learn", "taxonomy", "toolset"}
"""Commands that only hold others."""
SERVES = {"explore", "mcp", "serve", "start", "watch"}
"""Go on until they are stopped: one speaks MCP, two say nothing but where they listen, one a line for each event. And
one asks a person (tests/hosts/test_front_door.py)."""
SHOWN_ELSEWHERE = {
    "call",
    "eval agents",
    "learn embedder",
    "learn ranker",
    "learn suspicion",
    "logins add",
    "taxonomy place",
}
"""They need servers, a language model, torch, lightgbm, minutes, a person, or a model. These tests run them:
tests/calling/test_call_command.py, tests/lab/test_eval_agents.py, test_training.py, test_ranker_training.py and
test_suspicion_training.py there, and
tests/unit/test_cli_keys.py and test_taxonomy_recipe.py."""


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A registry of the example catalogue."""
    path = tmp_path_factory.mktemp("pages") / "held.grafeo"
    assert main(["--registry", str(path), "ingest", str(CATALOG)]) == 0
    assert main(["--registry", str(path), "taxonomy", "build", "--leaf-size", "6"]) == 0
    assert main(["--registry", str(path), "toolset", "create", "money", "--agent", "bureau-fx"]) == 0
    return path


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Recipe → the record of its evaluation on the examples."""
    folder = tmp_path_factory.mktemp("records")
    records = {name: folder / f"{name}.json" for name in ("lexical", "agents")}
    for name, path in records.items():
        assert main(["eval", str(REQUESTS), "--recipe", name, "-o", str(path)]) == 0
    return records


@pytest.fixture
def own(held: Path, evaluated: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it to write to; any folder stands for a model's, so no test needs the network."""
    shutil.copytree(held.with_name("held.grafeo.index"), tmp_path / "own.grafeo.index")
    monkeypatch.setenv("WAYGRAPH_KEYS_FILE", str(held_key(tmp_path / "keys.json")))
    for name in ("pull", "locate"):
        monkeypatch.setattr(f"waygraph.registry.embedding.weights.{name}", lambda spec, _: Path(spec[5:]))
    companies = "".join(f"Firm{n},F{n}X,Trade\n" for n in range(16))
    (tmp_path / "own.grafeo.csv").write_text(f"company,ticker,sector\n{companies}", encoding="utf-8")
    (tmp_path / "own.grafeo.toolsets.toml").write_text("[toolsets.code]\ntags = ['sql']\n", encoding="utf-8")
    (tmp_path / "own.grafeo.checkout" / "tasks" / "git" / "merge").mkdir(parents=True)
    (tmp_path / "own.grafeo.checkout" / "tasks" / "git" / "merge" / "meta.json").write_text("{}")
    (tmp_path / "own.grafeo.conversations").mkdir()
    (tmp_path / "own.grafeo.conversations" / "agents.jsonl").write_text('{"id": "a", "tools": [{"name": "b"}]}\n')
    (tmp_path / "own.grafeo.conversations" / "trajectories.jsonl").write_text(CONVERSATION, encoding="utf-8")
    for name, record in evaluated.items():
        shutil.copy(record, tmp_path / f"own.grafeo.{name}.json")
    return Path(shutil.copy(held, tmp_path / "own.grafeo"))


def held_key(path: Path) -> Path:
    key, _ = KeyFile(path).create("a", ["read"])
    path.write_text(path.read_text(encoding="utf-8").replace(key.id, KEY_ID), encoding="utf-8")
    return path


@cache
def shapes() -> dict[str, Any]:
    """docs/json-output.schema.json, so that an object with a field too many does not fit either."""

    def close(shape: Any) -> Any:
        if isinstance(shape, list):
            return [close(each) for each in shape]
        if not isinstance(shape, dict):
            return shape
        closed = {name: close(each) for name, each in shape.items()}
        return closed | {"additionalProperties": False} if "properties" in shape and "type" in shape else closed

    return cast("dict[str, Any]", close(json.loads(SHAPES.read_text(encoding="utf-8"))))


def misfit(value: Any, name: str, document: Mapping[str, Any] | None = None) -> str:
    """Where the value differs from the shape of that name; empty if it fits."""
    schema = {**(document or shapes()), "$ref": f"#/$defs/{name}"}
    fault = best_match(Draft202012Validator(schema).iter_errors(value))
    return f"{fault.json_path}: {fault.message}" if fault else ""


def printed(capsys: pytest.CaptureFixture[str], registry: Path, *words: str) -> str:
    capsys.readouterr()
    main([*words, "--registry", str(registry)])
    return capsys.readouterr().out


@pytest.mark.parametrize("words", [words for lines in COMMANDS.values() for words in lines], ids=" ".join)
def test_json_has_the_documented_shape(words: list[str], own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With --json a command prints one document, on one line in a pipe, in the shape that the file describes.

    The registry stands behind every one of them.
    """
    name = next(name for name, lines in COMMANDS.items() if words in lines)
    out = printed(capsys, own, *(word.replace(OWN, str(own)) for word in words), "--json")
    assert len(out.splitlines()) == 1
    assert misfit(json.loads(out), name) == ""


def test_a_tool_has_the_documented_shape(held: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tool = json.loads(printed(capsys, held, "show", "bureau-fx/convert", "--json"))
    assert misfit(tool, "Tool") == ""
    assert tool["input_schema"]["required"] == ["from", "to"]


def test_a_change_has_the_documented_shape(own: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "said.yaml"
    for said in ("one", "another"):
        file.write_text(f"waygraph: 1\nagents:\n- {{id: x, description: {said}, tools: [{{name: {said}}}]}}\n")
        printed(capsys, own, "ingest", str(file))
    found = json.loads(printed(capsys, own, "changes", "--json"))
    assert [(each["tool"], each["what"]) for each in found["changes"] if each["source"] == str(file)] == [
        ("one", "removed"),
        ("another", "added"),
        ("", "changed"),
        ("", "added"),
        ("", "added"),
    ]
    assert misfit(found, "changes") == ""


def test_a_wrong_shape_is_noticed() -> None:
    """The comparison itself: a missing field, one too many and a value of another type do not fit."""
    good = {"source": "s", "key": "", "since": "", "reason": "r"}
    assert misfit(good, "Failure") == ""
    for bad in ({"source": "s"}, good | {"x": 1}, good | {"key": 1}, good | {"key": None}, [good]):
        assert misfit(bad, "Failure")


def test_every_command_has_its_shape_tested() -> None:
    """The table of this file holds every command that prints something."""
    assert {" ".join(words) for words in command_names()} - GROUPS - SERVES - SHOWN_ELSEWHERE == set(COMMANDS)


def test_the_reference_is_current() -> None:
    """docs/cli.md is what `python -m scripts.cli_reference` prints."""
    assert REFERENCE.read_text(encoding="utf-8") == reference()


def test_the_shapes_are_current() -> None:
    """The file has the shapes that `python -m scripts.json_shapes` writes, and would notice another."""
    Draft202012Validator.check_schema(shapes())
    text = SHAPES.read_text(encoding="utf-8")
    assert write_schema(text) == text
    assert write_schema(text.replace('"call_name": {"type": "string"}', '"call_name": {"type": "integer"}')) == text


def test_the_list_of_commands_is_whole() -> None:
    """Each command in one line of a terminal of 80 columns, which is not cut."""
    listed = help_page(()).partition("Commands:\n")[2].splitlines()
    assert [line.split()[0] for line in listed] == [words[0] for words in command_names() if len(words) == 1]
    assert [line for line in listed if not re.fullmatch(r"  [\w-]+ +[A-Z].*[^.]\.", line)] == []


def test_every_command_is_documented() -> None:
    """With a row of the page, and those that print JSON with a shape; no other command is."""
    commands = {" ".join(words) for words in command_names()} - GROUPS
    assert set(re.findall(r"^\| `([a-z].*?)` \|", REFERENCE.read_text(encoding="utf-8"), re.M)) == commands
    told = {name for name in shapes()["$defs"] if name[0].islower() and ":" not in name and "--" not in name}
    assert told == commands - SERVES - {"logins add"}


def test_every_option_is_documented() -> None:
    """With all that a help page names, `--json` and `--help` apart."""
    rows = dict(re.findall(r"^\| `([a-z].*?)` \|.*\| (.*) \|$", REFERENCE.read_text(encoding="utf-8"), re.M))
    for words in command_names():
        if (name := " ".join(words)) not in GROUPS:
            options = set(re.findall(r"^  (?:-\w, )?(--[\w-]+)", help_page(words), re.M)) - {"--json", "--help"}
            assert {option for option in options if option not in rows[name]} == set(), name


@pytest.mark.parametrize("words", list(command_names()), ids=" ".join)
def test_the_options_of_the_program_may_stand_behind_every_command(words: tuple[str, ...]) -> None:
    """Also behind those that go on until they are stopped, and in every group."""
    assert main([*words, "--registry", "/nowhere/x.grafeo", "--embedder=none", "--help"]) == 0
