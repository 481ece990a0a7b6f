"""The comparison with other libraries, without any of them: owners, turns, records, and processes that are real."""

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from math import inf
from pathlib import Path

import pytest

from benchmarks.peers.__main__ import Comparison, make_record
from benchmarks.peers.adapters import NumpyTools, NumpyToolsAndAgents, RegistryPeer
from benchmarks.peers.contenders import HYBRID, Contender, contender_named
from benchmarks.peers.measure import Account, Effort, row
from benchmarks.peers.peer import (
    called_names,
    described_tools,
    distinct_owners,
    owners_of,
    write_catalogue_file,
)
from benchmarks.peers.process import PeerFailed, PeerProcess
from benchmarks.peers.table import comparison_markdown
from benchmarks.peers.vectors import Vectors
from benchmarks.world import with_cache
from waygraph.ingest.manifest.records import Manifest
from waygraph.registry.model.changes import AgentEntry
from waygraph.registry.model.nouns import Agent, Tool
from waygraph.registry.model.settings import load_settings
from waygraph_lab.evaluation.dataset import Asked

FAKE, BREAKING, NOT_INSTALLED = (f"tests.lab.fake_peer:{name}" for name in ("ByLetters", "Breaking", "NotInstalled"))


def entry(agent: str, description: str, **tools: str) -> AgentEntry:
    return AgentEntry(
        key=agent,
        agent=Agent(id=agent, name=agent.title(), description=description, tags=("t",)),
        tools=tuple(
            Tool(id=f"{agent}/{name}", agent_id=agent, name=name, call_name=f"{agent}__{name}", description=text)
            for name, text in tools.items()
        ),
    )


CATALOGUE = Manifest(
    source="tiny",
    entries=(
        entry("sky", "Weather", forecast="Tells the weather of the coming days", read="Reads a weather station"),
        entry("desk", "Files and folders", read="Reads the text of a file on disk", write="Writes a file to disk"),
        entry("purse", "Money", convert="Converts dollars to euros"),
    ),
)


@pytest.fixture
def vectors(tmp_path: Path) -> Vectors:
    return Vectors(with_cache(load_settings(), tmp_path / "cache"))


def test_a_tool_counts_for_its_owner_once() -> None:
    """Owners come in the order of their best tools, without repeats, cut at the limit."""
    owners = owners_of(CATALOGUE)
    tools = ["desk/read", "desk/write", "sky/read", "desk/read", "purse/convert"]
    assert distinct_owners(tools, owners, 5) == ["desk", "sky", "purse"]
    assert distinct_owners(tools, owners, 2) == ["desk", "sky"]


def test_names_are_prefixed_where_two_agents_share_one() -> None:
    """A peer that knows a tool by name alone still tells `read` of one agent from `read` of another."""
    names = called_names(CATALOGUE, always_prefixed=False)
    assert (names["sky/read"], names["sky/forecast"]) == ("sky__read", "forecast")
    assert called_names(CATALOGUE, always_prefixed=True)["sky/forecast"] == "sky__forecast"
    assert len(set(names.values())) == len(names)
    assert described_tools(CATALOGUE)["purse/convert"] == "convert: Converts dollars to euros"
    assert described_tools(CATALOGUE, prefixed=True)["purse/convert"] == "purse__convert: Converts dollars to euros"


def test_numpy_finds_the_owner_of_the_nearest_text(vectors: Vectors) -> None:
    """By real vectors; every agent comes once, and one without tools only where agents are searched too."""
    tools = NumpyTools(vectors)
    tools.ingest(CATALOGUE)
    assert sorted(tools.ask("will it rain tomorrow", 5)) == ["desk", "purse", "sky"]
    assert tools.ask("save this text to disk", 1) == ["desk"]
    assert vectors.documents == 5
    both = NumpyToolsAndAgents(vectors)
    both.ingest(replace(CATALOGUE, entries=(*CATALOGUE.entries, entry("muse", "Writes poems and songs"))))
    assert both.ask("write me a poem", 1) == ["muse"]
    assert both.ask("dollars to euros", 1) == ["purse"]


def test_no_vector_of_a_query_is_remembered(vectors: Vectors, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same text asked twice is embedded twice, by Waygraph as by the others: times are comparable."""
    from waygraph.registry.embedding.onnx import OnnxEmbedder

    embedded: list[str] = []
    embed = OnnxEmbedder.embed

    def counting(self: OnnxEmbedder, texts: list[str], role: str, **options: object) -> object:
        embedded.extend(texts if role == "query" else [])
        return embed(self, texts, role, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(OnnxEmbedder, "embed", counting)
    for peer in (RegistryPeer(vectors, recipe="hybrid"), NumpyTools(vectors)):
        peer.ingest(CATALOGUE)
        embedded.clear()
        assert peer.ask("dollars to euros", 1) == peer.ask("dollars to euros", 1) == ["purse"]
        assert embedded == ["dollars to euros"] * 2


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.json"
    write_catalogue_file(CATALOGUE, path)
    return path


@pytest.fixture
def process(tiny: Path, tmp_path: Path) -> Iterator[PeerProcess]:
    with PeerProcess(FAKE, tiny, tmp_path / "cache", os.environ) as running:
        yield running


def test_a_peer_answers_from_a_process_of_its_own(process: PeerProcess) -> None:
    """Agents, times and memory come back for every text, whatever the peer prints meanwhile."""
    said = process.ask(["read it", "convert", "nothing"], 5)
    assert said["agents"] == [["sky", "desk"], ["purse"], []]
    assert len(said["ms"]) == 3
    assert all(ms > 0 for ms in said["ms"])
    assert said["memory"]["VmRSS"] > 1
    assert process.told["texts"] == process.told["newly_embedded"] == 0
    assert process.told["ingest_s"] > 0


def test_a_peer_that_breaks_says_why(tiny: Path, tmp_path: Path) -> None:
    """The reason is its process's last line, also when asked again, or the name of what is not installed."""
    with PeerProcess(BREAKING, tiny, tmp_path / "cache", os.environ) as running:
        for texts in (["read"] * 6, ["read"]):
            with pytest.raises(PeerFailed) as failure:
                running.ask(texts, 5)
            assert failure.value.reason.endswith("RuntimeError: out of tools")
    with pytest.raises(PeerFailed, match="not installed: No module named 'that_library'"):
        PeerProcess(NOT_INSTALLED, tiny, tmp_path / "cache", os.environ)


ASKED = (
    Asked(id="1", texts=("a",), gold=(frozenset("xy"),), gold_tools=()),
    Asked(id="2", texts=("b",), gold=(frozenset("z"),), gold_tools=()),
)


def account(name: str, agents: dict[int, list[str]], times_ms: dict[int, list[float]], failed: str = "") -> Account:
    return Account(
        contender=Contender(name=name, adapter="", package=name, settings="as it is"),
        told={"ingest_s": 2.0, "vectors_s": 0.5, "texts": 7, "newly_embedded": 0},
        rounds=1,
        agents=agents,
        times_ms=times_ms,
        memory={"VmRSS": 50.0, "RssAnon": 20.0},
        failed=failed,
    )


def test_a_row_respects_alternatives_and_compares_with_the_same_texts() -> None:
    """Any agent of a gold set is right; the ratio divides by the reference's p50 over the texts both were asked."""
    reference = account("waygraph", {0: ["x"], 1: ["z"]}, {0: [2.0], 1: [10.0]})
    whole = row(account("peer", {0: ["y"], 1: ["a", "z"]}, {0: [4.0], 1: [4.0]}), ASKED, reference, 9)
    assert (whole["R@1"], whole["R@5"], whole["fewer"], whole["p50_ratio"]) == (0.5, 1.0, 2, 2.0)
    part = row(account("peer", {1: ["z"]}, {1: [5.0]}), ASKED, reference, 9)
    assert (part["R@1"], part["fewer"], part["p50_ratio"], part["texts_asked"]) == (None, None, 0.5, 1)


def test_a_small_run_leaves_a_whole_record(tmp_path: Path) -> None:
    """Real processes at both sizes; who fails is in the record with the reason, and the others are measured."""
    data = livemcpbench(tmp_path / "data")
    settings = with_cache(load_settings(), tmp_path / "cache")
    names = (FAKE, BREAKING, NOT_INSTALLED)
    effort = Effort(budget_s=0.05, whole_below_ms=inf)
    result = Comparison(
        folder=data,
        settings=settings,
        environ=os.environ,
        contenders=(contender_named(HYBRID), *map(contender_named, names)),
        efforts=(effort, effort),
        padded_tools=12,
    ).result()
    record = json.loads(json.dumps(make_record(result)))
    rows = {(one["name"], one["tools"]): one for one in record["details"]["rows"]}
    assert set(rows) == {(name, tools) for name in (HYBRID, *names) for tools in (3, 12)}
    assert rows[HYBRID, 3]["R@1"] == rows[HYBRID, 12]["R@1"] == 1.0
    assert rows[FAKE, 3]["R@1"] == 0.5
    assert "out of tools" in rows[BREAKING, 3]["failed"]
    assert "not installed" in rows[NOT_INSTALLED, 12]["failed"]
    assert rows[HYBRID, 12]["texts_embedded"] > rows[HYBRID, 3]["texts_embedded"] > 0
    assert record["versions"]["waygraph"]
    assert str(tmp_path) not in json.dumps(record)
    assert "| out of tools" not in comparison_markdown(record)


def livemcpbench(folder: Path) -> Path:
    """Two servers with three tools, and two questions of a step each."""
    folder.mkdir()
    servers = [
        server("weather", forecast="Tells tomorrow's weather", station="Lists stations"),
        server("bank", convert="Converts dollars to euros"),
    ]
    tasks = [task("convert dollars to euros", "bank", "convert"), task("the weather tomorrow", "weather", "forecast")]
    (folder / "tools.json").write_text(json.dumps(servers))
    (folder / "steps_aligned.json").write_text(json.dumps(tasks))
    return folder


def server(key: str, **tools: str) -> dict[str, object]:
    told = [{"name": name, "description": text, "inputSchema": {"type": "object"}} for name, text in tools.items()]
    config = {"mcpServers": {key: {"command": "x"}}}
    return {"name": key, "description": f"A {key} server", "config": config, "tools": {key: {"tools": told}}}


def task(text: str, agent: str, tool: str) -> dict[str, object]:
    needs = [{"annotated": tool, "tool": tool, "agents_any_of": [agent]}]
    return {"index": text, "question": text, "tools": needs, "steps": [{"step": 1, "text": text, "tools": needs}]}
