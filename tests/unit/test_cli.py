"""The commands, run in this process over a real registry of the example catalogue. Output goes to a pipe here."""

import io
import json
import re
import runpy
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
import yaml
from annotated_types import Ge, Le, MaxLen
from typer import Option
from typer.main import get_command

from tests.cli_answers import Answer, run_program
from waygraph.api.cli.app import app, main
from waygraph.api.cli.options import with_option_groups
from waygraph.registry.operations.oversight import ListUsage
from waygraph.registry.operations.request import Name

ROOT = Path(__file__).parents[2]
CATALOG = ROOT / "examples" / "catalog"
HOSTILE = "Reads \x1b[31mred\x1b[0m [bold]mail[/bold] [/] \u202eevil\u202c \x9b2J and\ttabs\nlines" + "x" * 400


type Run = Callable[..., Answer]


@pytest.fixture(scope="session")
def held(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A registry of the example catalogue, for tests that only read."""
    path = tmp_path_factory.mktemp("cli") / "held.grafeo"
    assert main(["--registry", str(path), "ingest", str(CATALOG)]) == 0
    return path


@pytest.fixture
def own(held: Path, tmp_path: Path) -> Path:
    """A copy of it, for tests that write."""
    shutil.copytree(held.with_name("held.grafeo.index"), tmp_path / "own.grafeo.index")
    shutil.copy(held, tmp_path / "own.grafeo")
    return tmp_path / "own.grafeo"


@pytest.fixture
def run(held: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the program on the held registry, or on the one given."""

    def call(*words: str | Path, on: Path = held) -> Answer:
        return run_program(capsys, "--registry", on, *words)

    return call


def catalogue(path: Path, *agents: Mapping[str, object]) -> Path:
    path.write_text(json.dumps({"waygraph": 1, "agents": list(agents)}), encoding="utf-8")
    return path


def agent(key: str, *tools: str, **fields: object) -> dict[str, object]:
    listed = [{"name": tool, "description": f"{tool} of {key}"} for tool in tools]
    return {"id": key, "description": f"what {key} does", "tools": listed, **fields}


def test_route_prints_a_header_and_tab_separated_rows(run: Run) -> None:
    answer = run("route", "book a table for four at a restaurant", "-k", "2")
    assert answer.out.splitlines()[0] == "#\tagent\tscore\ttools"
    assert answer.rows[0][:2] == ["1", "trencher-tables"]
    assert len(answer.rows) == 2


def test_explained_votes_add_up_to_the_score(run: Run) -> None:
    """--explain lists each agent's votes, whose contributions sum to the score of the route."""
    answer = run("route", "book a table for four", "-k", "2", "--explain")
    first, *votes = answer.out.split("\n\n")
    assert len(votes) == 2
    for row, part in zip(first.splitlines()[1:], votes, strict=True):
        title, header, *cast, total = part.splitlines()
        assert title.split(". ")[1] == row.split("\t")[1]
        assert header == "entity\tleg\trank\tscore\tweight\tcontribution\tshare"
        contributions = [float(line.split("\t")[5]) for line in cast]
        assert sum(contributions) == pytest.approx(float(row.split("\t")[2]), abs=1e-3)
        assert total.split("\t")[5] == row.split("\t")[2]


@pytest.mark.parametrize("words", [["route"], ["find"], ["route", "a", "--step", "b", "--by-steps", "default"]])
def test_route_wants_a_text_or_steps(words: list[str], run: Run) -> None:
    answer = run(*words)
    assert answer.status == 2
    assert "--step" in answer.err


def test_a_history_comes_from_a_file_and_from_options(run: Run, tmp_path: Path) -> None:
    """--used and --failed are calls behind the turns of --history; the votes say so, and unknown names are noted."""
    turns = [{"role": "user", "text": "what is the weather in Oslo"}, {"role": "assistant", "text": "It rains."}]
    file = tmp_path / "turns.json"
    file.write_text(json.dumps(turns), encoding="utf-8")
    text = "and now the same for Berlin"
    assert run("route", text, "--history", file).rows[0][1] == "nimbus-desk"
    assert "\tused\t" in run("route", text, "--used", "trencher-tables", "--explain").out
    before, after = (
        [row[1] for row in run("route", text, "--limit", "36", *options).rows].index("trencher-tables")
        for options in ((), ("--used", "trencher-tables"))
    )
    assert after < before
    first = run("find", "book a table for four").rows[0][1]
    assert run("find", "book a table for four", "--failed", first, "--failed", first).rows[0][1] != first
    assert "turns 1" in run("find", text, "--failed", "nowhere/none").err


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("{", "it is no JSON"),
        ("{}", "a list of turns"),
        ('[{"role": "user"}, {"role": "secret"}]', "turn 2 of the history"),
        ("[" + " " * 1024 * 1024 + "]", "WAYGRAPH_MAX_BODY_BYTES"),
        (None, "No such file"),
    ],
)
def test_a_file_that_is_no_history_is_refused(content: str | None, told: str, run: Run, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "turns.json").write_text(content, encoding="utf-8")
    answer = run("route", "book a table", "--history", tmp_path / "turns.json")
    assert answer.status != 0
    assert told in answer.err
    assert "secret" not in answer.err


def test_a_group_sees_what_it_may(run: Run, own: Path) -> None:
    run("set", "bureau-fx", "--visible-to", "finance", on=own)
    found = {
        groups: [row[1] for row in run("route", "exchange rates", *groups, on=own).rows]
        for groups in ((), ("--group", "finance"), ("--group", "kitchen"))
    }
    assert found[()][0] == found["--group", "finance"][0] == "bureau-fx"
    assert "bureau-fx" not in found["--group", "kitchen"]


def test_agents_and_tools_are_listed_whole(run: Run) -> None:
    written = yaml.safe_load((CATALOG / "bureau-fx.yaml").read_text())["agents"][0]
    agents = run("agents").rows
    assert len(agents) == 36
    assert [row[0] for row in agents] == sorted(row[0] for row in agents)
    assert ["bureau-fx", "mcp_server", "4", "currency, finance", "", written["description"]] in agents
    assert len(run("tools").rows) == 186
    assert [row[0] for row in run("tools", "bureau-fx").rows] == sorted(
        f"bureau-fx/{tool['name']}" for tool in written["tools"]
    )
    assert [row[0] for row in run("agents", "--tag", "currency", "--kind", "mcp_server").rows] == ["bureau-fx"]
    left_out = ("--without-tag", "currency", "--without-kind", "skill", "--without-agent", "crowsnest")
    others = [row for row in agents if row[0] != "crowsnest" and row[1] != "skill"]
    assert run("agents", *left_out).rows == [row for row in others if "currency" not in row[3].split(", ")]
    assert run("route", "rates of currencies", "--without-kind", "robot").status == 2


def test_texts_with_own_weights_are_kept_until_others_are_chosen(run: Run, own: Path) -> None:
    """By reindex and ingest; equal weights are the same texts, others are refused, as is what is no form."""
    assert run("reindex", "--texts", "tdwa:name=1,description=1,agent=2", on=own).status == 0
    assert run("status", "--json", on=own).json["texts"] == "tdwa:name=0.25,description=0.25,agent=0.5"
    assert run("find", "convert money", "-k", "1", on=own).rows[0][1].startswith("bureau-fx/")
    assert run("doctor", "--deep", on=own).status == 0
    again = run("ingest", CATALOG, "--texts", "tdwa:agent=.5,name=.25,description=.25", on=own)
    assert again.status == 0
    refused = run("ingest", CATALOG, "--texts", "tdwa:agent=1", on=own)
    assert (refused.status, "reindex --texts" in refused.err) == (2, True)
    wrong = run("reindex", "--texts", "tdwa:name=1,arguments=2", on=own)
    assert (wrong.status, "the components are name" in wrong.err) == (2, True)


def test_show_tells_what_operators_and_sources_say(run: Run, own: Path) -> None:
    """An agent's page holds its sources, transport, tools, and what an operator set."""
    run("set", "bureau-fx", "--pin", "--tag", "approved", on=own)
    shown = run("show", "bureau-fx", on=own).out
    assert str(CATALOG) in shown
    assert "set by an operator\ntags: approved\npinned" in shown
    assert '"command": "uvx"' in shown
    assert "bureau-fx/convert" in shown


def test_ingest_reports_every_change(run: Run, tmp_path: Path) -> None:
    on, file = tmp_path / "new.grafeo", tmp_path / "agents.json"
    assert run("ingest", catalogue(file, agent("one", "read"), agent("two", "x"), agent("three")), on=on).status == 0
    changed = agent("one", "read", "write")
    changed["tools"][0]["description"] = "deletes everything"  # type: ignore[index]
    answer = run("ingest", catalogue(file, changed, agent("three"), {"id": "four", "tags": 7}), on=on)
    assert answer.status == 0
    assert "updated\tone/read\tdescription" in answer.out
    assert "removed\ttwo\t" in answer.out
    assert "removed\ttwo/x\t" in answer.out
    assert re.search(rf"rejected\t{file}#/agents/2/tags\t\S+", answer.out)
    assert "changed behaviour\ntool\tfields\none/read\tdescription" in answer.out
    assert f"note: 1 record was rejected in {file}" in answer.err


def test_a_dry_run_plans_and_changes_nothing(run: Run, tmp_path: Path) -> None:
    on = tmp_path / "new.grafeo"
    answer = run("ingest", catalogue(tmp_path / "a.json", agent("one", "read")), "--dry-run", on=on)
    assert "created\tone\t" in answer.out
    assert "created\tone/read\t" in answer.out
    assert not on.exists()


def test_standard_input_is_a_source(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    on, tools = tmp_path / "new.grafeo", {"server": {"name": "mail"}, "tools": [{"name": "send"}]}
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(json.dumps(tools).encode())))
    words = ("ingest", "-", "--source", "postbox", "--namespace", "home", "--kind", "tools-list")
    assert run(*words, on=on).status == 0
    assert run("sources", on=on).rows[0][:4] == ["postbox", "catalogue", "home", "1"]
    assert [row[0] for row in run("tools", on=on).rows] == ["mail/send"]


def test_a_mass_removal_needs_a_word(run: Run, tmp_path: Path) -> None:
    on, file = tmp_path / "new.grafeo", tmp_path / "agents.json"
    run("ingest", catalogue(file, *(agent(f"a{number}") for number in range(5))), on=on)
    catalogue(file, agent("a0"))
    refused = run("ingest", file, on=on)
    assert refused.status == 1
    assert "--allow-mass-removal" in refused.err
    assert run("ingest", file, "--allow-mass-removal", on=on).status == 0
    assert [row[0] for row in run("agents", on=on).rows] == ["a0"]


def test_a_strict_answer_that_is_withheld_names_the_nearest(run: Run) -> None:
    for command in ("route", "find"):
        withheld = run(command, "supernova remnants in dwarf galaxies", "--strict")
        named = run(command, "supernova remnants in dwarf galaxies", "--strict", "--json").json["nearest"]
        assert (withheld.rows, len(named)) == ([], 3)
        assert f"Nearest: {', '.join(named)}." in withheld.err
        assert run(command, "supernova remnants in dwarf galaxies").rows


def test_settings_are_set_and_taken_back(run: Run, own: Path) -> None:
    words = ("--pin", "--hide", "--tag", "b", "--tag", "a", "--visible-to", "ops", "--json")
    said = run("set", "bureau-fx", *words, on=own).json
    rest = {"agent_id": "bureau-fx", "removed": False, "tools": None, "rejections": None, "wishes": None}
    assert said == rest | {"tags": ["a", "b"], "visible_to": ["ops"], "pinned": True, "hidden": True}
    said = run("set", "bureau-fx", "--unpin", "--unhide", "--no-tags", "--everyone", "--json", on=own).json
    assert said == rest | {"tags": [], "visible_to": None, "pinned": False, "hidden": False}


def test_a_source_is_forgotten_with_its_agents(run: Run, own: Path) -> None:
    tools = [row[0] for row in run("tools", on=own).rows]
    answer = run("sources", "remove", CATALOG, on=own)
    assert answer.status == 0
    assert "\nbureau-fx\tconvert" in answer.out
    assert f"agents\t36\ntools\t{len(tools)}\n" in answer.out
    assert run("agents", on=own).rows == []
    assert run("sources", on=own).rows == []


def test_reindex_takes_the_embedder_as_the_new_one(run: Run, own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """--embedder, or WAYGRAPH_EMBEDDER, names what to embed with from now on, not what the registry has."""
    assert run("--embedder", "none", "reindex", on=own).status == 0
    assert run("status", "--json", on=own).json["dimension"] == 0
    monkeypatch.setenv("WAYGRAPH_EMBEDDER", "none")
    assert run("reindex", "--texts", "plain", on=own).status == 0
    assert run("status", "--json", on=own).json["texts"] == "plain"


def test_statements_are_read_from_a_pipe(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each ends with ; or an empty line; an error does not stop the rest but the exit status tells."""
    typed = "MATCH (a:Agent)\nRETURN count(a) AS n;\n\nRETURN $k AS k\n\nCREATE (n);\nRETURN 'a;b' AS s"
    monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
    answer = run("cypher", "--param", "k=2", "--json")
    assert [json.loads(line)["rows"] for line in answer.out.splitlines()] == [[[36]], [[2]], [["a;b"]]]
    assert answer.status == 1
    assert answer.err.count("error: ") == 1


def test_doctor_says_why_a_registry_cannot_be_opened(run: Run, tmp_path: Path) -> None:
    (tmp_path / "bad.grafeo").write_text("no registry")
    answer = run("doctor", on=tmp_path / "bad.grafeo")
    assert answer.status == 1
    assert "no" in {row[1] for row in answer.rows}
    assert str(tmp_path / "bad.grafeo") in answer.out


BESIDE = "keys.json vouched.json tokens.json logins.json hosts/cursor.takes policy.toml services.toml".split()


@pytest.mark.parametrize("name", BESIDE)
def test_doctor_finds_a_broken_file_beside_the_registry(
    run: Run, own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Without which callers, servers or logins are lost."""
    monkeypatch.setenv("WAYGRAPH_DATA_DIR", str(tmp_path / "data"))
    path = tmp_path / "data" / name
    path.parent.mkdir(parents=True)
    if path.suffix == ".toml":
        path.write_text("")
        monkeypatch.setenv(f"WAYGRAPH_{path.stem.upper()}_FILE", str(path))
    sound = run("doctor", "--json", on=own)
    assert (sound.status, sound.json["ok"]) == (0, True)
    for content in ("{", "[]", '{"version": 99}'):
        path.write_text(content)
        path.chmod(0o600)
        answer = run("doctor", "--json", on=own)
        assert answer.status == 1
        [finding] = [each for each in answer.json["findings"] if not each["ok"]]
        assert finding["check"] == path.name
        assert path.name in finding["detail"]
        assert path.read_text() == content


@pytest.mark.parametrize(
    ("words", "status", "told"),
    [
        (["show", "bureaufx"], 1, "Did you mean 'bureau-fx'?"),
        (["tools", "nobody"], 1, "agent 'nobody' is not known"),
        (["show", "bureau-fx/convrt"], 1, "Did you mean 'bureau-fx/convert'"),
        (["route", "x", "--recipe", "hybird"], 2, "Did you mean 'hybrid'?"),
        (["route", "x", "-k", "0"], 2, "limit must be a whole number"),
        (["find", " "], 2, "a query needs a text"),
        (["sources", "remove", "x"], 1, "source 'x' is not known"),
        (["approve", "nosuch"], 1, "`waygraph approve --all-of SOURCE`"),
        (["--embedder", "openai:text-embedding-3-small", "route", "x"], 1, "reindex"),
        (["model", "pull", "word2vec"], 1, "embedder 'word2vec' is not known"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_an_error_of_ours_is_one_line(words: list[str], status: int, told: str, run: Run) -> None:
    """On stderr, with nothing on stdout; its status tells whether what was asked can be at all."""
    answer = run(*words)
    assert (answer.status, answer.out) == (status, "")
    assert re.fullmatch(r"error: [^\n]+\n", answer.err)
    assert told in answer.err


@pytest.mark.parametrize("command", ["ingest", "watch"])
@pytest.mark.parametrize("words", [["uvx", "mcp-server-time"], ["npx", "-y", "a"], ["sh", "-c", "true"]])
def test_a_program_in_place_of_a_source_gets_the_dashes_named(command: str, words: list[str], run: Run) -> None:
    answer = run(command, *words)
    assert (answer.status, answer.out) == (2, "")
    assert f"waygraph {command} -- {' '.join(words)}" in answer.err


def test_the_last_registry_that_is_named_is_meant(held: Path, run: Run, tmp_path: Path) -> None:
    """That behind the command; behind `--` nothing is ours."""
    assert run("agents", "--registry", str(held), on=tmp_path / "none.grafeo").rows
    assert run("agents", f"--registry={tmp_path / 'none.grafeo'}").status == 1
    answer = run("ingest", "--", "/nowhere/server", "--registry", "x", on=tmp_path / "new.grafeo")
    assert "/nowhere/server" in answer.out + answer.err


def test_an_old_python_says_which_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """In one line, where the rest of the program is syntax that it cannot read; as the package says to installers."""
    monkeypatch.setattr(sys, "version_info", (3, 10, 1))
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(ROOT / "src" / "waygraph" / "__main__.py"), run_name="__main__")
    needed = re.search(r'requires-python = ">=([\d.]+)"', (ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert needed
    assert str(ended.value).startswith(f"error: waygraph needs Python {needed[1]} or newer; this is ")


def test_what_is_not_ours_keeps_its_traceback(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("waygraph.registry.storage.local_registry.LocalRegistry.status", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run("status")


def test_the_registry_may_come_from_the_environment(
    held: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WAYGRAPH_REGISTRY", str(held))
    assert main(["status"]) == 0
    assert str(held) in capsys.readouterr().out
    monkeypatch.delenv("WAYGRAPH_REGISTRY")
    monkeypatch.setenv("WAYGRAPH_DATA_DIR", "/nowhere")
    assert main(["status"]) == 1
    assert "/nowhere/registry.grafeo" in capsys.readouterr().err


def test_a_hostile_description_steers_nothing(run: Run, tmp_path: Path) -> None:
    """In every command that prints it: no escape sequence, no bidi override, no broken row, and nothing cut."""
    on = tmp_path / "new.grafeo"
    bad = {"id": "mail", "description": HOSTILE, "tools": [{"name": "read", "description": HOSTILE}]}
    run("ingest", catalogue(tmp_path / "bad.json", bad), on=on)
    lists = (["agents"], ["tools"], ["find", "mail"])
    commands = (*lists, ["show", "mail"], ["show", "mail/read"], ["export"])
    cypher = ["cypher", "MATCH (a:Agent) RETURN a.description"]
    for words in (*commands[:-1], cypher, *([*words, "--json"] for words in commands[:-1])):
        answer = run(*words, on=on)
        assert answer.status == 0, answer
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", answer.out), words
        assert "x" * 400 in answer.out
        if "--json" not in words:
            assert "[bold]mail[/bold] [/]" in answer.out
            assert "\\u001b[31mred" in answer.out
    assert len(run("tools", on=on).rows) == 1
    assert run("show", "mail", "--json", on=on).json["agent"]["description"] == HOSTILE


def _with_ranges(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str, float]]:
    """Each option that has a least or a most, with its command, and a number that is beyond it."""
    for name in group.list_commands(context := typer.Context(group)):
        command = group.get_command(context, name)
        if hasattr(command, "commands"):
            yield from _with_ranges(command, (*path, name))
            continue
        for option in command.params:
            for end, step in (("min", -1), ("max", 1)):
                limit = getattr(option.type, end, None)
                if limit is not None and option.opts[0].startswith("-"):
                    yield (*path, name), option.opts[0], limit + step


def test_the_range_of_every_option_holds(capsys: pytest.CaptureFixture[str]) -> None:
    ranges = list(_with_ranges(get_command(app)))
    assert len(ranges) >= 10
    for command, option, beyond in ranges:
        assert main([*command, option, str(beyond)]) == 2, (command, option)
        assert f"Invalid value for '{option}'" in capsys.readouterr().err, (command, option)


@dataclass(frozen=True, kw_only=True)
class _FurtherUsage(ListUsage):
    window: str
    """Since when."""
    least_calls: Annotated[int, Ge(1), Le(9)] = 1
    """Only tools with so many calls."""
    tags: Annotated[Sequence[Name], MaxLen(3)] = ()
    """Of agents with these tags."""


def test_a_new_field_of_a_request_is_an_option_of_its_command(capsys: pytest.CaptureFixture[str]) -> None:
    """With its text, limits and default. A parameter of the command itself stands in place of the field's."""
    requests = list[tuple[str, _FurtherUsage]]()

    def usage(agent: Annotated[str, Option(help="Whose tools.")] = "all", *, request: _FurtherUsage) -> None:
        requests.append((agent, request))

    program = typer.Typer(rich_markup_mode=None)
    program.command()(with_option_groups(usage))
    program(["today"], standalone_mode=False)
    program(["today", "--least-calls", "3", "--tag", "a", "--tag", "b", "-k", "7"], standalone_mode=False)
    assert requests == [
        ("all", _FurtherUsage(window="today")),
        ("all", _FurtherUsage(window="today", least_calls=3, tags=["a", "b"], limit=7)),
    ]
    program(["--help"], standalone_mode=False)
    page = " ".join(capsys.readouterr().out.split())
    assert "--least-calls <int range> Only tools with so many calls. [default: 1; 1<=x<=9]" in page
    assert "--tag TAG Of agents with these tags. Repeat." in page
    assert "--agent <str> Whose tools. [default: all]" in page
    assert "Only the tools of this agent." not in page
