"""Datasets: what they say is what is judged, and what is wrong with one is told with its place."""

import json
import os
import re
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from waygraph.ingest.datasets.read_dataset import read_dataset
from waygraph.registry.model.errors import InvalidDataset
from waygraph.registry.model.settings import Settings

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


KNOWN = {
    "livemcpbench": ({"agents": 70, "tools": 527, "questions": 95, "steps": 268}, (95, 212)),
    "a2x/ToolRet_clean": ({"agents": 1839, "tools": 0, "questions": 1714, "steps": 0}, (1714, 0)),
    "a2x/ToolRet_clean_CN": ({"agents": 1839, "tools": 0, "questions": 1714, "steps": 0}, (1714, 0)),
    "a2x/publicMCP": ({"agents": 1387, "tools": 0, "questions": 50, "steps": 0}, (50, 0)),
    "a2x/publicMCP_CN": ({"agents": 1387, "tools": 0, "questions": 50, "steps": 0}, (50, 0)),
}


@pytest.mark.parametrize("folder", KNOWN)
def test_known_datasets_are_read_whole(folder: str) -> None:
    if not (SHARED / folder).is_dir():
        pytest.skip("no shared data: WAYGRAPH_BENCH_DATA names its folder")
    dataset = read_dataset(SHARED / folder, Settings())
    sizes, judged = KNOWN[folder]
    assert dataset.size == sizes
    assert (len(dataset.queries("questions")), len(dataset.queries("steps"))) == judged
