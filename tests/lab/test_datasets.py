"""Datasets: what they say is what is judged, and what is wrong with one is told with its place."""

import json
import os
import re
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waygraph.registry.model.errors import InvalidDataset
from waygraph.registry.model.nouns import Turn, TurnRole
from waygraph.registry.model.settings import Settings
from waygraph_lab.datasets.conversations import Trajectory
from waygraph_lab.datasets.decisions import decisions
from waygraph_lab.datasets.read_dataset import read_dataset

ROOT = Path(__file__).parents[2]
SHARED = Path(os.environ.get("WAYGRAPH_BENCH_DATA", ROOT.parent / "shared" / "data"))
AGENTS: list[dict[str, Any]] = [
    {"id": "mail", "description": "Sends letters", "tools": [{"name": "send"}, {"name": "a/b", "inputSchema": {}}]},
    {"id": "Über maps", "name": "Maps", "description": "Finds ways"},
]
QUERY: dict[str, Any] = {
    "id": 1,
    "text": "write to Ada",
    "gold": [["mail", "Über maps"]],
    "gold_tools": [["mail/send", "mail/a/b"], []],
}


def written(folder: Path, agents: Iterable[object], queries: Iterable[object], about: object = None) -> Path:
    for name, records in (("agents.jsonl", agents), ("queries.jsonl", queries)):
        lines = [record if isinstance(record, str) else json.dumps(record) for record in records]
        (folder / name).write_text("\n".join(lines) + "\n\n", encoding="utf-8")
    if about is not None:
        (folder / "dataset.json").write_text(json.dumps(about), encoding="utf-8")
    return folder


def test_a_folder_is_read_as_it_stands(tmp_path: Path) -> None:
    """Ids become those of the registry; alternatives, steps and splits are kept."""
    step = {"text": "find Ada", "gold": [["Über maps"]]}
    about = {"name": "Two", "origin": "here", "license": "CC0"}
    queries = [QUERY, {"id": "b", "text": "go", "steps": [step, {"text": "rest"}], "split": "dev", "note": "own"}]
    dataset = read_dataset(written(tmp_path, AGENTS, queries, about), Settings())
    ids = {entry.key: entry.agent.id for entry in dataset.catalogue.entries}
    assert (dataset.name, dataset.origin, dataset.license) == ("Two", "here", "CC0")
    assert dataset.size == {"agents": 2, "tools": 2, "questions": 2, "steps": 2}
    (first,) = dataset.queries("questions")  # the other one has no gold
    assert first.gold == (frozenset(ids.values()),)
    assert first.gold_tools == (frozenset({"mail/send", "mail/a/b"}),)
    (only,) = dataset.queries("steps", split="dev")
    assert (only.id, only.texts, only.gold) == ("b.1", ("find Ada",), (frozenset({ids["Über maps"]}),))
    assert dataset.queries("steps", split="test") == ()


def test_the_checksum_is_that_of_the_files(tmp_path: Path) -> None:
    """It changes with a letter; another one than the dataset states is refused."""
    first = read_dataset(written(tmp_path, AGENTS, [QUERY]), Settings()).checksum
    assert read_dataset(written(tmp_path, AGENTS, [QUERY], {"checksum": first}), Settings()).checksum == first
    with pytest.raises(InvalidDataset, match=rf"dataset\.json: checksum is {first}, the files have "):
        read_dataset(written(tmp_path, AGENTS, [{**QUERY, "text": "write to Bob"}]), Settings())


@pytest.mark.parametrize("prefix", ["", "sha256:"])
def test_a_checksum_of_the_bytes_alone_is_taken(tmp_path: Path, prefix: str) -> None:
    """As `cat agents.jsonl queries.jsonl | sha256sum` prints it."""
    folder = written(tmp_path, AGENTS, [QUERY])
    plain = sha256(b"".join((folder / name).read_bytes() for name in ("agents.jsonl", "queries.jsonl"))).hexdigest()
    assert read_dataset(written(tmp_path, AGENTS, [QUERY], {"checksum": prefix + plain}), Settings()).questions


def test_the_first_tool_of_a_name_is_kept(tmp_path: Path) -> None:
    """Public data sets list some tools twice; the second is told as cut."""
    twice = {**AGENTS[0], "tools": [*AGENTS[0]["tools"], {**AGENTS[0]["tools"][0], "description": "another"}]}
    catalogue = read_dataset(written(tmp_path, [twice, *AGENTS[1:]], [QUERY]), Settings()).catalogue
    assert catalogue.entries == read_dataset(written(tmp_path, AGENTS, [QUERY]), Settings()).catalogue.entries
    assert [cut.where.partition("#")[2] for cut in catalogue.cut] == ["/tools/2"]


INVALID: list[tuple[list[Any], list[Any], str]] = [
    ([*AGENTS, "{"], [QUERY], r"agents\.jsonl:3: is not JSON"),
    ([*AGENTS, "[]"], [QUERY], r"agents\.jsonl:3: expected an object, found list"),
    ([*AGENTS, {"name": "no id"}], [QUERY], r"agents\.jsonl:3.*agent id"),
    ([*AGENTS, AGENTS[0]], [QUERY], r"agents\.jsonl:3: a second agent 'mail'"),
    ([{**AGENTS[0], "tools": [{"name": ""}]}], [QUERY], r"agents\.jsonl:1.*tool name"),
    ([{**AGENTS[0], "descripton": "x"}], [QUERY], r"agents\.jsonl:1: .*'descripton'; did you mean 'description'"),
    (AGENTS, [QUERY, QUERY], r"queries\.jsonl:2: a second query '1'"),
    (AGENTS, [{**QUERY, "golds": [["mail"]]}], r"queries\.jsonl:1: unknown field 'golds'; did you mean 'gold'"),
    (AGENTS, [{**QUERY, "steps": [{"text": "a", "gold_tool": []}]}], r":1, step 1: unknown field 'gold_tool'"),
    (AGENTS, ["", "", "no"], r"queries\.jsonl:3: is not JSON"),
    (AGENTS, [{**QUERY, "id": None}], r"queries\.jsonl:1: a query needs an id"),
    (AGENTS, [{**QUERY, "split": ["dev"]}], r"queries\.jsonl:1: split: expected a name"),
    (AGENTS, [{**QUERY, "gold": []}], r"queries\.jsonl:1: gold_tools without gold"),
    (AGENTS, [{**QUERY, "text": " "}], r"queries\.jsonl:1: a query needs a text"),
    (AGENTS, [{**QUERY, "gold": ["mail"]}], r"queries\.jsonl:1: gold: expected a list of lists"),
    (AGENTS, [{**QUERY, "gold": [[]]}], r"queries\.jsonl:1: gold: an item names no agent"),
    (AGENTS, [{**QUERY, "gold": [["mial"]]}], r"queries\.jsonl:1: gold agent 'mial' is not in the catalogue"),
    (AGENTS, [{**QUERY, "gold_tools": [["mail/x"]]}], r"queries\.jsonl:1: gold tool 'mail/x' is not in"),
    (AGENTS, [{**QUERY, "steps": [{"text": "a", "gold": [["x"]]}]}], r"queries\.jsonl:1, step 1: gold agent 'x'"),
]


def test_what_is_wrong_is_reported_with_its_line(tmp_path: Path) -> None:
    """Nothing is judged by half: an unknown gold id is an error, not a miss."""
    wrong = []
    for agents, queries, message in INVALID:
        try:
            read_dataset(written(tmp_path, agents, queries), Settings())
        except InvalidDataset as error:
            wrong += [] if re.search(message, str(error)) else [(message, str(error))]
        else:
            wrong.append((message, "was read"))
    assert wrong == []


USER: dict[str, Any] = {"role": "user", "text": "write to Ada"}
CALL: dict[str, Any] = {"role": "call", "agent": "mail", "tool": "send", "arguments": {"to": "Ada"}, "result": "sent"}
TALK: list[Any] = [USER, CALL, {"role": "assistant", "text": "Done."}, {"role": "user", "text": "and to Bob"}, CALL]


def written_talks(folder: Path, trajectories: Iterable[object], about: object = None) -> Path:
    written(folder, AGENTS, [], about)
    (folder / "queries.jsonl").unlink()
    lines = "\n".join(json.dumps(trajectory) for trajectory in trajectories)
    (folder / "trajectories.jsonl").write_text(lines, encoding="utf-8")
    return folder


def test_each_call_of_a_conversation_is_a_question(tmp_path: Path) -> None:
    """Its text is what the user said last; all turns before it are its history."""
    failed = {**CALL, "tool": "a/b", "result": "ERROR: gone"}
    talks = [
        {"id": "t", "turns": [*TALK, failed, {**CALL, "outcome": "failed"}, CALL], "split": "dev", "group": "g"},
        {"id": 2, "turns": [USER, CALL]},
        {"id": 3, "turns": [USER]},
    ]
    files = [json.dumps(agent) for agent in AGENTS]
    seen = sha256(("\n".join(files) + "\n\n" + "\n".join(map(json.dumps, talks))).encode()).hexdigest()
    dataset = read_dataset(written_talks(tmp_path, talks, {"checksum": f"sha256:{seen}"}), Settings())
    *asked, other = dataset.queries("questions")
    assert [(each.id, *each.texts, len(each.history)) for each in asked] == [
        ("t.2", "write to Ada", 1),
        ("t.5", "and to Bob", 4),
        ("t.6", "and to Bob", 5),
        ("t.7", "and to Bob", 6),
        ("t.8", "and to Bob", 7),
    ]
    assert (asked[2].gold, asked[2].gold_tools) == ((frozenset({"mail"}),), (frozenset({"mail/a/b"}),))
    first, said, *calls = asked[-1].history[1:]
    assert (first, said) == (Turn(role="call", tool="mail/send", result="sent"), Turn(role="assistant", text="Done."))
    assert [(call.tool, call.outcome) for call in calls[-2:]] == [("mail/a/b", "failed"), ("mail/send", "failed")]
    assert (other.id, [question.group for question in dataset.questions]) == ("2.2", [*["g"] * 5, "2"])
    assert dataset.draw(2) == dataset.draw(2) != dataset
    assert next(each.id for each in dataset.draw(1, split="dev").queries("questions")).startswith("t.")


NO_TALK: list[tuple[object, str]] = [
    ({"id": "t", "turns": "hello"}, r"trajectories\.jsonl:1: turns: expected a list"),
    ({"turns": []}, r":1: a trajectory needs an id"),
    ({"id": "t", "turns": [], "splt": "dev"}, r":1: unknown field 'splt'; did you mean 'split'"),
    ({"id": "t", "turns": [], "group": 1}, r":1: group: expected a name"),
    ([], r":1: expected an object, found list"),
    ({"id": "t", "turns": [USER, "hello"]}, r":1, turn 2: expected an object, found str"),
    ({"id": "t", "turns": [{**USER, "role": "usr"}]}, r":1, turn 1: role 'usr'; expected one of user, assistant, call"),
    ({"id": "t", "turns": [{"text": "hello"}]}, r":1, turn 1: role None; expected one of"),
    ({"id": "t", "turns": [{"role": "user", "text": " "}]}, r":1, turn 1: a turn of the role user needs a text in 'te"),
    (
        {"id": "t", "turns": [USER, {**CALL, "agent": "mial"}]},
        r"turn 2: tool 'send' of agent 'mial' is not .*; did you mean mail/send\?",
    ),
    (
        {"id": "t", "turns": [USER, {**CALL, "tool": "sent"}]},
        r"turn 2: tool 'sent' of agent 'mail' is not in the catal",
    ),
    (
        {"id": "t", "turns": [USER, {**CALL, "agent": "mial", "tool": None}]},
        r"turn 2: agent 'mial' is not in the catalogue",
    ),
    (
        {"id": "t", "turns": [USER, {"role": "call", "agent": "mail"}]},
        r"turn 2: a turn of the role call needs a text in",
    ),
    ({"id": "t", "turns": [USER, {**CALL, "result": ["sent"]}]}, r"turn 2: result: expected a text, found list"),
    ({"id": "t", "turns": [USER, {**CALL, "outcome": "fine"}]}, r"turn 2: outcome 'fine'; expected one of ok, failed"),
    ({"id": "t", "turns": [USER, {**CALL, "outcom": "ok"}]}, r"turn 2: unknown field 'outcom'; did you mean 'outcome'"),
    ({"id": "t", "turns": [CALL, USER]}, r":1, turn 1: a call before any word of the user"),
]


def test_what_is_wrong_with_a_conversation_is_reported_with_line_and_turn(tmp_path: Path) -> None:
    wrong = []
    for trajectory, message in NO_TALK:
        try:
            read_dataset(written_talks(tmp_path, [trajectory]), Settings())
        except InvalidDataset as error:
            wrong += [] if re.search(message, str(error)) else [(message, str(error))]
        else:
            wrong.append((message, "was read"))
    assert wrong == []
    with pytest.raises(InvalidDataset, match=r":2: a second trajectory 't'"):
        read_dataset(written_talks(tmp_path, [{"id": "t", "turns": []}] * 2), Settings())
    with pytest.raises(InvalidDataset, match="the files have"):
        read_dataset(written_talks(tmp_path, [{"id": "t", "turns": TALK}], {"checksum": "sha256:0"}), Settings())


TURNS = st.sampled_from(("user", "assistant", "call"))


@given(st.lists(TURNS, max_size=12))
def test_no_history_looks_ahead(roles: list[TurnRole]) -> None:
    """It holds each turn before the call, in order, and nothing else."""
    every: list[TurnRole] = ["user", *roles]
    turns = tuple(Turn(role=role, text=str(at), tool=f"a/{at}") for at, role in enumerate(every))
    found = list(decisions(Trajectory(id="t", turns=turns)))
    assert [decision.need.gold_tools for decision in found] == [
        (frozenset({turn.tool}),) for turn in turns if turn.role == "call"
    ]
    for decision in found:
        (tool,) = decision.need.gold_tools[0]
        at = int(tool.removeprefix("a/"))
        said = max(place for place in range(at) if turns[place].role == "user")
        assert decision.need.text == str(said)
        assert [int(turn.text) for turn in decision.need.history] == [*range(at)]


KNOWN = {
    "livemcpbench": ({"agents": 70, "tools": 527, "questions": 95, "steps": 268}, (95, 212)),
    "a2x/ToolRet_clean": ({"agents": 1839, "tools": 0, "questions": 1714, "steps": 0}, (1714, 0)),
    "a2x/ToolRet_clean_CN": ({"agents": 1839, "tools": 0, "questions": 1714, "steps": 0}, (1714, 0)),
    "a2x/publicMCP": ({"agents": 1387, "tools": 0, "questions": 50, "steps": 0}, (50, 0)),
    "a2x/publicMCP_CN": ({"agents": 1387, "tools": 0, "questions": 50, "steps": 0}, (50, 0)),
    "trajectories/api-bank": ({"agents": 26, "tools": 52, "questions": 463, "steps": 0}, (463, 0)),
    "trajectories/traject-dev": ({"agents": 128, "tools": 525, "questions": 4155, "steps": 0}, (4155, 0)),
}


@pytest.mark.parametrize("folder", KNOWN)
def test_known_datasets_are_read_whole(folder: str) -> None:
    if not (SHARED / folder).is_dir():
        pytest.skip("no shared data: WAYGRAPH_BENCH_DATA names its folder")
    dataset = read_dataset(SHARED / folder, Settings())
    sizes, judged = KNOWN[folder]
    assert dataset.size == sizes
    assert (len(dataset.queries("questions")), len(dataset.queries("steps"))) == judged


def test_requests_for_training_name_one_tool_each() -> None:
    """Of a server whose id the tool's begins with; none stands twice. The tools are there, where the data are."""
    path = ROOT / "packages" / "waygraph-lab" / "data" / "typed_requests" / "queries.jsonl"
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    pairs = [(agent, tool) for row in rows for [agent], [tool] in zip(row["gold"], row["gold_tools"], strict=True)]
    assert all(tool.startswith(f"{agent}/") for agent, tool in pairs)
    assert len(pairs) == len(rows) == len({row["id"] for row in rows}) == len({row["text"].lower() for row in rows})
    assert len({agent for agent, _ in pairs}) >= 800
    if not (SHARED / "training" / "toucan").is_dir():
        pytest.skip("no shared data: WAYGRAPH_BENCH_DATA names its folder")
    agents = (SHARED / "training" / "toucan" / "agents.jsonl").read_text(encoding="utf-8").splitlines()
    known = {f"{agent['id']}/{tool['name']}" for agent in map(json.loads, agents) for tool in agent["tools"]}
    assert {tool for _, tool in pairs} <= known
