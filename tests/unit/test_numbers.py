"""Numbers from outside: one check, and what a program does that is handed one that is none."""

import json
import math
from pathlib import Path

import pytest

from waygraph.api.cli.app import main
from waygraph.ingest.execution.services import load_services
from waygraph.registry.access.policy import load_policy
from waygraph.registry.model.errors import InvalidDataset, InvalidSetting
from waygraph.registry.model.numbers import EXACT, read_digits, read_number, read_whole
from waygraph.registry.model.settings import Settings
from waygraph_lab.datasets.conversations import read_call_counts
from waygraph_lab.evaluation.record import KIND, read_record
from waygraph_lab.training.ranker import FEATURES, Ranker

NO_NUMBERS: list[object] = [
    math.nan,
    math.inf,
    -math.inf,
    True,
    False,
    10**400,
    -(10**400),
    10**5_000,
    None,
    "7",
    [7],
    {},
]
HUGE = [json.dumps(10**400), "1e999", "-Infinity", "NaN", "true", '"3"', "null", "[1]"]
"""As JSON writes what is no number in range."""
NOW = "2026-07-01T00:00:00+00:00"


@pytest.mark.parametrize("value", NO_NUMBERS, ids=lambda value: type(value).__name__)
def test_what_is_no_number_is_none(value: object) -> None:
    assert read_number(value) is None
    assert read_whole(value, 0) is None


def test_bounds_belong_to_what_is_taken() -> None:
    taken = (read_number(0, 0, 1), read_number(1, 0, 1), read_whole(5.0, 5), read_whole(EXACT, 0), read_number(-1e308))
    assert taken == (0.0, 1.0, 5, EXACT, -1e308)
    assert (read_number(1.01, 0, 1), read_whole(4.5, 0), read_whole(EXACT + 1, 0)) == (None, None, None)


@pytest.mark.parametrize("text", ["", "-1", "+1", "1.0", " 1", "\u0663", "9" * 17, "9" * 5_000, "1_0"])
def test_only_short_ascii_digits_are_a_number(text: str) -> None:
    assert read_digits(text) is None
    assert (read_digits("0012"), read_digits("7", 0, 6)) == (12, None)


def ranker_file(folder: Path, **parts: str) -> str:
    """A ranker whose parts are these texts of JSON."""
    whole = {
        "name": '"mine"',
        "embedder": '"none"',
        "texts": '"plain"',
        "scale": "1.0",
        "node": "0",
        "threshold": "0.5",
        "leaf": "1.0",
    } | parts
    trees = '{{"scale": {scale}, "features": [[{node}]], "thresholds": [[{threshold}]], "leaves": [[{leaf}, 0]]}}'
    head = '{{"name": {name}, "embedder": {embedder}, "texts": {texts}, "features": {known}, '
    head += '"levels": {{"agents": {trees}}}}}'
    path = folder / "ranker.json"
    path.write_text(head.format(**whole, known=json.dumps(FEATURES), trees=trees.format(**whole)))
    return str(path)


def test_a_sound_ranker_is_opened(tmp_path: Path) -> None:
    assert Ranker.open(ranker_file(tmp_path)).name == "mine"


@pytest.mark.parametrize("number", HUGE)
@pytest.mark.parametrize("part", ["scale", "node", "threshold", "leaf"])
def test_a_ranker_with_another_number_is_refused(tmp_path: Path, part: str, number: str) -> None:
    with pytest.raises(InvalidSetting, match="is no ranker"):
        Ranker.open(ranker_file(tmp_path, **{part: number}))


@pytest.mark.parametrize("part", [{"node": "-1"}, {"node": "0.5"}, {"node": "900"}, {"leaf": "1e300"}, {"name": "7"}])
def test_a_ranker_out_of_range_is_refused(tmp_path: Path, part: dict[str, str]) -> None:
    with pytest.raises(InvalidSetting, match="is no ranker"):
        Ranker.open(ranker_file(tmp_path, **part))


def count_file(folder: Path, count: str, at: str = NOW) -> Path:
    path = folder / "counts.jsonl"
    path.write_text(f'{{"first": "a/x", "next": "b/y", "before": "", "count": {count}, "last_at": {json.dumps(at)}}}\n')
    return path


@pytest.mark.parametrize("count", [*HUGE, "0", "-2", "1e13"])
def test_a_count_that_is_none_is_refused_by_its_line(tmp_path: Path, count: str) -> None:
    with pytest.raises(InvalidDataset, match=r"counts.jsonl:1: "):
        read_call_counts(count_file(tmp_path, count), Settings(), NOW)
    assert read_call_counts(count_file(tmp_path, "2.5"), Settings(), NOW)[0].count == 2.5


@pytest.mark.parametrize("at", ["9999-12-31T23:59:59+00:00", "2026-07-03", "soon", "", "0001-01-01T00:00:00+14:00x"])
def test_a_count_of_a_time_to_come_is_refused(tmp_path: Path, at: str) -> None:
    """Beside it every other count would have faded to nothing."""
    with pytest.raises(InvalidDataset):
        read_call_counts(count_file(tmp_path, "1", at), Settings(), NOW)


def record_file(folder: Path, **numbers: str) -> Path:
    whole = {"judged": "3", "p50_ms": "1.5", "weight": "1", "mean": "0.5", "rank": "1"} | numbers
    text = """{{"kind": "{kind}", "dataset": {{"name": "d", "checksum": "c"}}, "outcomes": [{{
        "name": "n", "by": "b", "split": "", "texts": "plain", "embedder": "none", "withheld": 0,
        "judged": {judged}, "p50_ms": {p50_ms}, "tools": {{}}, "agents": {{"MRR": [0.1, {mean}, 0.9]}},
        "recipe": {{"name": "hybrid", "agent_weight": {weight}, "tool_weight": 1}},
        "queries": [{{"id": "q", "text": "t", "gold": [["a"]], "agents": ["a"],
                      "votes": {{"a": [["name", "a", {rank}, 0.5]]}}}}]}}]}}""".replace(
        "[0.1, {mean}, 0.9]", "[{mean}, {mean}, {mean}]"
    )
    path = folder / "record.json"
    path.write_text(text.format(kind=KIND, **whole))
    return path


@pytest.mark.parametrize("number", HUGE)
@pytest.mark.parametrize("part", ["judged", "p50_ms", "weight", "mean", "rank"])
def test_a_record_with_another_number_is_refused(tmp_path: Path, part: str, number: str) -> None:
    assert read_record(record_file(tmp_path))
    with pytest.raises(InvalidDataset):
        read_record(record_file(tmp_path, **{part: number}))


def commands(folder: Path, number: str) -> dict[str, list[str]]:
    """Commands that read a file, or an argument, with the number in it."""
    ranker = ranker_file(folder, leaf=number)
    schema = {"type": "object", "properties": {"n": {"maximum": "?", "minLength": "?", "default": "?"}}}
    agent = {"id": "a", "name": "a", "rank": "?", "tools": [{"name": "t", "description": "d", "inputSchema": schema}]}
    text = json.dumps({"waygraph": 1, "agents": [agent]}).replace('"?"', number)
    (folder / "agents.json").write_text(text)
    (folder / "history.json").write_text(f'[{{"role": "user", "text": {number}}}]')
    keys = {"waygraph_keys": 1, "keys": [{"id": "0" * 12, "name": "k", "created_at": "?"}]}
    (folder / "keys.json").write_text(json.dumps(keys).replace('"?"', number))
    (folder / "tools.json").write_text(f'{{"toolsets": {{"mine": {{"tools": {number}, "agents": ["a"]}}}}}}')
    (folder / "tools.toml").write_text(f"[toolsets.mine]\nagents = ['a']\ntools = {number}\n")
    (folder / "policy.toml").write_text(f"strict = {number}\n")
    return {
        "rerank": ["route", "find", "--rerank", f"ranker:{ranker}"],
        "learn": ["learn", "transitions", str(count_file(folder, number))],
        "report": ["eval", "table", str(record_file(folder, p50_ms=number))],
        "history": ["route", "find", "--history", str(folder / "history.json")],
        "limit": ["route", "find", "--limit", number],
        "pin": ["set-tool", "a/t", "--pin", f"n={number}"],
        "params": ["cypher", "MATCH (a:Agent) WHERE a.id = $n RETURN a.id", "--param", f"n={number}"],
        "toolsets": ["toolset", "apply", str(folder / "tools.json")],
        "toolsets in TOML": ["toolset", "apply", str(folder / "tools.toml")],
        "days": ["keys", "create", "k", "--scope", "read", "--expires-in", number],
    }


@pytest.mark.parametrize("number", ["1e999", "-Infinity", "NaN", json.dumps(10**400), "9" * 5_000, "[" * 3_000])
def test_no_number_ends_a_command_with_a_traceback(
    tmp_path: Path, number: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever it makes of it: `main` returns a status, and what it writes is for a person."""
    monkeypatch.setenv("WAYGRAPH_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("WAYGRAPH_EMBEDDER", "none")
    sound = {"waygraph": 1, "agents": [{"id": "a", "name": "a", "tools": [{"name": "t", "description": "d"}]}]}
    (tmp_path / "sound.json").write_text(json.dumps(sound))
    assert main(["ingest", str(tmp_path / "sound.json")]) == 0
    for name, words in commands(tmp_path, number).items():
        assert main(words) in (0, 1, 2), name
        written = capsys.readouterr()
        assert "Traceback" not in written.out + written.err, name
        assert "No such" not in written.err, name
    assert main(["ingest", str(tmp_path / "agents.json"), "--source", "other"]) in (0, 1)
    assert "Traceback" not in capsys.readouterr().err
    for read in (load_policy, load_services):
        with pytest.raises(InvalidSetting):
            read(str(tmp_path / "policy.toml"))
    monkeypatch.setenv("WAYGRAPH_KEYS_FILE", str(tmp_path / "keys.json"))
    assert main(["keys", "list"]) == 1
    assert "Traceback" not in capsys.readouterr().err
