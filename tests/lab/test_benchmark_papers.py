"""The paper's methods against their formulas, and that small sets go all the way from files to tables."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from benchmarks import a2x, agent_as_a_graph, code_rounds, livemcpbench, right_tool, token_table
from benchmarks.agent_as_a_graph import AGAINST, reference_gaps
from benchmarks.gateway.host import open_host
from benchmarks.gateway.tokens import Counter
from benchmarks.methods import (
    ALGORITHM_1,
    MCP_ZERO,
    MCP_ZERO_EVERYWHERE,
    Q_RETRIEVAL,
    SCALEMCP,
    UNIFIED,
    WRRF,
    mcp_zero,
    unified,
)
from benchmarks.published import REFERENCE, TABLE_1, TABLE_3
from benchmarks.record import as_record
from benchmarks.tables import BEGIN, END, Pages, detail_tables, figures, render_pages
from benchmarks.world import World
from waygraph import Settings
from waygraph.ingest.sources.read import read_path
from waygraph.ingest.sync.apply import sync
from waygraph.registry.catalog.tool_formats import definitions
from waygraph.registry.model.nouns import Query, Route
from waygraph.registry.model.settings import load_settings
from waygraph.registry.registry import Registry
from waygraph_lab.evaluation.compare import Table
from waygraph_lab.evaluation.run import by_recipe, vary_recipe

ROOT = Path(__file__).parents[2]
REQUESTS = ("make it cosy in the living room", "convert dollars to euros", "why is this SELECT slow", "书店在哪里")
EVERY = 1000


@pytest.fixture(scope="module")
def registry() -> Iterator[Registry]:
    """The example catalogue, plain texts, the default model."""
    with Registry.open(":memory:", settings=Settings(), environ={}) as opened:
        for manifest in read_path(str(ROOT / "examples" / "catalog"), Settings()):
            sync(opened, manifest, texts="plain")
        yield opened


def ids(route: Route) -> list[str]:
    return [match.agent.id for match in route.matches]


def cosines(registry: Registry, text: str) -> tuple[dict[str, float], dict[str, float]]:
    """Of each agent with the text, and of its best tool."""
    query = Query(text=text, limit=EVERY)
    agents = registry.route(query, recipe=vary_recipe(Q_RETRIEVAL, depth=EVERY))
    tools: dict[str, float] = {}
    for match in registry.find_tools(query, recipe=vary_recipe(SCALEMCP, depth=EVERY)).matches:
        tools[match.agent.id] = max(match.votes[0].score, tools.get(match.agent.id, -1.0))
    return {match.agent.id: match.votes[0].score for match in agents.matches}, tools


@pytest.mark.parametrize("text", REQUESTS)
def test_mcp_zero_is_its_formula(registry: Registry, text: str) -> None:
    """(s_server × s_tool) × max of both, over the five best servers; or over all of them."""
    server, tool = cosines(registry, text)
    scores = {name: server[name] * tool[name] * max(server[name], tool[name]) for name in tool}
    five = sorted(server, key=lambda name: -server[name])[:5]
    expected = sorted((name for name in five if name in tool), key=lambda name: -scores[name])
    query = Query(text=text, limit=10)
    assert ids(mcp_zero(registry, query, MCP_ZERO)) == expected
    best = sorted(tool, key=lambda name: -scores[name])[:10]
    assert ids(MCP_ZERO_EVERYWHERE(registry, query, MCP_ZERO)) == best


@pytest.mark.parametrize("text", REQUESTS)
@pytest.mark.parametrize("weights", [(1.0, 1.0), (1.5, 1.0), (1.0, 3.0)])
def test_reading_n_nodes_together_is_algorithm_1_but_for_the_last_ones(
    registry: Registry, text: str, weights: tuple[float, float]
) -> None:
    query = Query(text=text, limit=5)
    together = unified(registry, query, vary_recipe(UNIFIED, weights=weights))
    apart = by_recipe(registry, query, vary_recipe(ALGORITHM_1, weights=weights))
    assert ids(together) == ids(apart)
    assert [match.score for match in together.matches] == pytest.approx([match.score for match in apart.matches])


def test_standard_wrrf_sums_over_two_lists_of_agents(registry: Registry) -> None:
    """Equation 2: α_A / (60 + rank by its own vector) + α_T / (60 + rank by its best tool's)."""
    query = Query(text=REQUESTS[0], limit=3)
    server, tool = cosines(registry, query.text)
    route = registry.route(query, recipe=vary_recipe(WRRF, weights=(2.0, 1.0), depth=EVERY))
    places = [
        {name: place for place, name in enumerate(sorted(found, key=lambda n: -found[n]), start=1)}
        for found in (server, tool)
    ]
    for match in route.matches:
        expected = 2 / (60 + places[0][match.agent.id]) + 1 / (60 + places[1][match.agent.id])
        assert match.score == pytest.approx(expected)


def write_set(folder: Path, *, steps: bool) -> None:
    """Two agents and two questions, in the product's own format."""
    folder.mkdir(parents=True)
    mail, maps = {"id": "mail", "description": "Sends letters"}, {"id": "maps", "description": "Finds ways"}
    if steps:
        mail["tools"] = [{"name": "send", "description": "Sends a letter to somebody"}]  # type: ignore[assignment]
        maps["tools"] = [{"name": "route", "description": "The shortest way between two places"}]  # type: ignore[assignment]
    asked = [("write a letter", "mail", "send"), ("how do I get to the station", "maps", "route")]
    needs = [
        {"text": text, "gold": [[agent]], "gold_tools": [[f"{agent}/{tool}"]] if steps else []}
        for text, agent, tool in asked
    ]
    queries = [{"id": str(at), **need, "steps": [need] if steps else []} for at, need in enumerate(needs)]
    for name, records in (("agents", [mail, maps]), ("queries", queries)):
        lines = "\n".join(json.dumps(record) for record in records)
        (folder / f"{name}.jsonl").write_text(lines + "\n", encoding="utf-8")
    (folder / "dataset.json").write_text('{"name": "LiveMCPBench"}' if steps else "{}", encoding="utf-8")


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Of the benchmarks over public sets, on sets of two questions, and on the project's own."""
    data = tmp_path_factory.mktemp("data")
    write_set(data / "livemcpbench", steps=True)
    for name in a2x.SETS:
        write_set(data / "a2x" / name, steps=False)
    world = World(settings=load_settings(), environ=os.environ, data=data, cache=data / "cache", quick=True)
    found = [benchmark.run(world) for benchmark in (livemcpbench, agent_as_a_graph, a2x, right_tool)]
    return [json.loads(json.dumps(as_record(result, "a test"))) for result in found]


def test_a_small_set_leaves_whole_records(records: list[dict[str, Any]]) -> None:
    """Every method at both ways of asking, by both precisions; every weight; each set by every recipe."""
    recipes, paper, services, tools = records
    assert [row["method"] for row in recipes["details"]["united"]].count("hybrid") == 2
    found = [row for row in recipes["details"]["tools"]["steps"] if row["method"] == "hybrid"]
    assert [(row["queries"], row["R@1"]) for row in found] == [(2, 1.0), (2, 1.0)]
    for held in paper["details"]["embedders"].values():
        for by in ("steps", "questions"):
            table = Table.from_json(held["methods"][by])
            assert [row.method for row in table.rows][-2:] == [AGAINST, "hybrid"]
            assert table.rows[-2].estimates["Recall@1"].value == 1.0
        assert set(Table.from_json(held["sweep"]).sweeps) == {"Algorithm 1", "Algorithm 1, N together", "standard wRRF"}
        assert len(reference_gaps(held)) == 28
        assert held["agent_nodes"].keys() == {"(1, 1)", "(1.5, 1)"}
        assert 0 <= held["agent_nodes"]["(1, 1)"] <= held["agent_nodes"]["(1.5, 1)"] <= 1
    assert [held["dataset"] for held in services["details"]["tables"]] == list(a2x.SETS)
    sets = [
        (row["K"], row["Hit"], row["Precision"])
        for row in services["details"]["set_sizes"]
        if row["method"] == "hybrid"
    ]
    assert sets == [(7, 1.0, 0.5), (7, 1.0, 0.5), (25, 1.0, 0.5), (25, 1.0, 0.5)]
    assert [row["queries"] for row in tools["details"]["rows"]] == [2, 20, 20]
    assert all(low <= gain <= high for gain, low, high in (row["gain"] for row in tools["details"]["rows"]))


def test_records_become_pages_and_pictures(records: list[dict[str, Any]], tmp_path: Path) -> None:
    """Tables show what was measured with what was published, and figures name what they are drawn from."""
    places = Pages(page=tmp_path / "page.md", readme=tmp_path / "readme.md", figures=tmp_path)
    for path in (places.page, places.readme):
        path.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n", encoding="utf-8")
    made = render_pages(records, places)
    page, readme, details = made[places.page], made[places.readme], detail_tables(records)
    assert "| MCP-Zero |" not in page
    assert f"({TABLE_1['MCP-Zero']['Recall@5']:g})" in details
    assert f"({TABLE_3[1.5, 1]['Algorithm 1']['Recall@5']:g})" in details
    assert f"| {REFERENCE['MCP-Zero']['Recall@1']:.3f} / 1.000 / 1.000" in details.replace("MCP-Zero |", "|")
    assert "*the paper's taxonomy (no K)*" in details
    assert "| ToolRet_clean | 7 | hybrid | 1.000 | 1.000 | 0.500 |" in details
    assert "| agent's best 0.5 | " in details
    held = Table.from_json(records[1]["details"]["embedders"]["int8"]["methods"]["steps"])
    hybrid = held.rows[-1].estimates["Recall@1"].value
    assert f"| LiveMCPBench steps, Recall@1 | {hybrid:.3f} | 1.000 |" in readme
    assert all(text.startswith("before\n") and text.endswith("after\n") and "old" not in text for text in made.values())
    assert [kinds for _, kinds in figures(records)] == [("recall", "latency"), ("weights",)]


def test_code_needs_two_rounds_whatever_its_calls_are(tmp_path: Path) -> None:
    """Both ways come to the same answers, of the same servers; each round sends all turns before it."""
    pytest.importorskip("pydantic_monty")
    world = World(settings=load_settings(), environ=os.environ, data=tmp_path, cache=tmp_path / "cache", quick=True)
    rows = code_rounds.run(world).details["rows"]
    assert [(row["rounds, use_tool"], row["rounds, run_code"]) for row in rows] == [(6, 2)] * 5
    assert all(row["once, use_tool"] < row["sent, use_tool"] for row in rows)
    assert code_rounds.Tally(base=100, turns=[(10, 5), (3, 0)]).sent == 100 + 10 + 100 + 15 + 3


def test_retrieval_pays_from_some_number_of_tools_on() -> None:
    """The RFC's own figures: 14,400 tokens saved of 15,000 a call, as soon as there are more than two tools."""
    row = token_table.row_of("the RFC", 50, 15_000, 300, 300, "1 tool, schema")
    assert (row["a schema"], row["saved a call"], row["break-even a call, tools"]) == (300, 14_400, 2.0)
    assert (row["static, a task"], row["retrieval, a task"], row["break-even a task, tools"]) == (30_000, 1_500, 2.5)
    less = token_table.row_of("few", 2, 600, 300, 300, "1 tool, schema")
    assert less["saved a call"] == 0


def test_the_table_of_tokens_counts_what_is_listed_and_found(tmp_path: Path) -> None:
    """Over the example catalogue, served: the static list is all tools, and what is found is far less."""
    counter = Counter(vocabulary="characters", count=len)
    world = World(settings=load_settings(), environ=os.environ, data=tmp_path, cache=tmp_path / "cache")
    manifests = list(read_path(str(ROOT / "examples" / "catalog"), Settings()))
    with open_host(world, manifests) as host:
        one, five = anyio.run(token_table.measure, "examples", host, counter, REQUESTS)
        with host.open_registry() as opened:
            whole = json.dumps(definitions(opened.tools(), "mcp"), ensure_ascii=False, separators=(",", ":"))
    assert one["static list"] == five["static list"] == len(whole)
    assert 0 < one["found"] < five["found"] < len(whole)
    assert one["find_tools"] == five["find_tools"] > 500
    assert one["saved a call"] == pytest.approx(len(whole) - one["find_tools"] - one["found"], abs=1)
    table = token_table.tables_of({"vocabulary": "characters", "rows": [one, five]})
    assert "| *the RFC* | 50 | 300 | 15,000 | 1 tool, schema | 300 | 300 | 14,400 |" in table
