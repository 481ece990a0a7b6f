"""Counts of what was called after what: chains, fading, files that tell of them, and the commands that learn."""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from tests.sync_graph import entry
from waygraph.api.cli.app import app
from waygraph.api.mcp.gateway import CallCounter, open_counter
from waygraph.ingest.manifest.records import Manifest
from waygraph.ingest.sources.read import read_path
from waygraph.ingest.sync.apply import sync
from waygraph.registry.access.visibility import Caller
from waygraph.registry.graph.read import read_transitions
from waygraph.registry.index.call_graph import (
    MOST_ALIKE,
    CallGraph,
    NextTools,
    fits_of,
    given_names,
    keep_best,
    near_tools,
    required_names,
)
from waygraph.registry.model.errors import InvalidDataset, InvalidSetting
from waygraph.registry.model.nouns import Agent, Principal, Query
from waygraph.registry.model.settings import Settings
from waygraph.registry.model.transitions import (
    HALF_LIFE_DAYS,
    Transition,
    add_transitions,
    count_transitions,
    keep_largest,
    owner_of,
)
from waygraph.registry.operators.transition_counts import forget_transitions
from waygraph.registry.storage.local_registry import LocalRegistry
from waygraph_lab.datasets.conversations import read_call_counts

START, LATER = "2026-01-01T00:00:00+00:00", "2026-01-31T00:00:00Z"
AGENTS = {name: Agent(id=name, name=name, visible_to=("crew",) if name == "w" else ()) for name in "abcw"}


def counted(*conversations: list[str]) -> dict[tuple[str, str, str], float]:
    return {each.key: each.count for each in count_transitions(conversations, START)}


def test_both_orders_are_counted_of_tools_and_of_agents() -> None:
    """And what a conversation begins with. Of tools not across an agent that was called as a whole."""
    assert counted(["a/x", "a/x", "b/y"]) == {
        ("", "a/x", "a/x"): 1, ("", "a/x", "b/y"): 1, ("a/x", "a/x", "b/y"): 1,
        ("", "a", "a"): 1, ("", "a", "b"): 1, ("a", "a", "b"): 1,
        ("", "", "a/x"): 1, ("", "", "a"): 1,
    }  # fmt: skip
    assert counted(["a/x", "b", "c/z"]) == {
        ("", "a", "b"): 1, ("", "b", "c"): 1, ("a", "b", "c"): 1,
        ("", "", "a/x"): 1, ("", "", "a"): 1,
    }  # fmt: skip
    assert counted(["a/x"], []) == {("", "", "a/x"): 1, ("", "", "a"): 1}


def test_a_count_fades_by_half_in_its_half_life() -> None:
    """Whichever of two is added to which; of a time both are as of."""
    old, new = (Transition(first="a", next="b", count=8.0, last_at=at) for at in (START, LATER))
    for held, more in ((old, new), (new, old)):
        [both] = add_transitions([held], [more], 30.0).values()
        assert (both.count, both.last_at) == (12.0, LATER)
    sums = add_transitions([old], [Transition(first="a", next="c", count=5.0, last_at=LATER)], 30.0)
    assert [key for key, _ in keep_largest(sums, 1, 30.0).items()] == [("", "a", "c")]
    assert [key for key, _ in keep_largest(sums, 1, 3_000.0).items()] == [("", "a", "b")]


def test_old_counts_say_less() -> None:
    pairs = [Transition(first="a/x", next=name, count=1.0, last_at=at) for name, at in (("b/y", START), ("c/z", LATER))]
    found = NextTools(CallGraph(pairs), AGENTS, 30.0).follows(["a/x"], None)
    assert found["b/y"] == pytest.approx(found["c/z"] / 2)


def test_more_counts_leave_less_to_chance() -> None:
    """The second order where it was counted, else the first; what is not known stays open."""
    talks = [["b/y", "a/x", "c/z"]] * 6 + [["c/z", "a/x", "b/y"]] * 6
    transitions = NextTools(CallGraph(count_transitions(talks, START)), AGENTS, 30.0)
    assert transitions.follows(["b/y", "a/x"], None)["c/z"] > 0.8
    assert transitions.follows(["a/x"], None)["c/z"] == pytest.approx(transitions.follows(["a/x"], None)["b/y"])
    once = NextTools(CallGraph(count_transitions([["a/x", "b/y"]], START)), AGENTS, 30.0)
    assert once.follows(["a/x"], None)["b/y"] <= 0.5
    assert once.follows(["c/z"], None) == {}
    assert sum(transitions.follows(["b/y", "a/x"], None).values()) <= 1


def test_what_begins_conversations_comes_before_the_first_call() -> None:
    """And what is called often: both as far as the caller sees it, and not where other tools are in use."""
    talks = [["b/y", "a/x"]] * 6 + [["w/z", "a/x"]] * 6
    transitions = NextTools(CallGraph(count_transitions(talks, START)), AGENTS, 30.0)
    first = transitions.follows([], None)
    assert first["b/y"] == pytest.approx(first["w/z"])
    assert first["b/y"] > first["a/x"] > 0
    assert transitions.follows([], Principal()).keys() == {"b/y", "a/x", "b", "a"}
    assert transitions.follows(["b/y"], None)["w/z"] > 0
    assert transitions.follows(["c/z"], None) == {}


def test_schemas_say_what_fits_where_nothing_was_counted() -> None:
    gives = json.dumps({"properties": {"order_id": {}, "name": {}}})
    wants = json.dumps({"required": ["orderId", "name"]})
    assert given_names(gives) == required_names(wants) == {"orderid"}
    fits = fits_of([("b/y", 1), ("w/z", 1)], AGENTS)
    assert fits == {"b/y": 1.0, "w/z": 1.0}
    transitions = NextTools(CallGraph((), {}, {"a/x": fits}.__getitem__), AGENTS, 30.0)
    assert transitions.follows(["a/x"], None).keys() == {"b/y", "w/z"}
    assert transitions.follows(["a/x"], Principal()).keys() == {"b/y"}


def test_the_nearest_tools_are_kept_for_each_class_of_visibility() -> None:
    """As if every tool were looked at in order of its cosine."""
    chance = np.random.default_rng(5)
    audiences = [(), ("crew",), ("crew", "staff")]
    agents = {f"a{n}": Agent(id=f"a{n}", name="", visible_to=audiences[n % 3], hidden=n % 4 == 0) for n in range(12)}
    ids = sorted(f"a{n % 12}/t{n}" for n in range(600))
    vectors = chance.normal(size=(600, 3)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    asked = ids[::40]
    found = near_tools(ids, vectors, asked, agents)
    cosines = vectors @ vectors.T
    for tool in asked:
        own = ids.index(tool)
        ranking = sorted((-cosines[own, row], row) for row in range(600) if row != own and cosines[own, row] >= 0.5)
        kept = keep_best([(ids[row], -float(minus)) for minus, row in ranking], agents)
        assert found[tool] == pytest.approx(kept, abs=2e-4)
        assert len(kept) > MOST_ALIKE
        assert Counter(agents[owner_of(each)].visible_to for each in found[tool]).keys() == {*audiences}


def audit(**fields: object) -> str:
    line = {"time": START, "caller": "key:1", "action": "call", "target": "a/x", "outcome": "ok"}
    return json.dumps(line | fields)


def test_an_audit_is_read_caller_by_caller(tmp_path: Path) -> None:
    """Calls that worked, in their order; a long pause ends a conversation."""
    file = tmp_path / "audit.jsonl"
    file.write_text(
        "\n".join(
            [
                audit(),
                audit(caller="key:2", target="c/z"),
                audit(action="cypher", target="MATCH (n) RETURN n"),
                audit(outcome="failed", target="typo"),
                audit(target="b/y", time="2026-01-01T00:10:00Z"),
                audit(target="c/z", time="2026-01-01T01:00:00Z"),
            ]
        )
    )
    found = read_call_counts(file, Settings(), START)
    assert {(each.key, each.last_at) for each in found} == {
        (("", "a/x", "b/y"), "2026-01-01T00:10:00+00:00"),
        (("", "a", "b"), "2026-01-01T00:10:00+00:00"),
        *((("", "", name), "2026-01-01T00:10:00+00:00") for name in ("a/x", "a")),
        *(
            (("", "", name), at)
            for name in ("c/z", "c")
            for at in ("2026-01-01T00:00:00+00:00", "2026-01-01T01:00:00+00:00")
        ),
    }


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ([audit(), "{"], ":2"),
        ([audit(), audit(time="yesterday")], ":2: time"),
        ([audit(target=7)], ":1: target"),
        ([json.dumps({"question": "?"})], ":1: neither"),
        ([json.dumps({"first": "a", "next": "b", "before": "", "count": -1, "last_at": START})], ":1: expected first"),
        ([json.dumps({"first": "a/x", "next": "b", "before": "", "count": 1, "last_at": START})], ":1: expected first"),
    ],
)
def test_a_bad_line_is_told_by_its_number(tmp_path: Path, lines: list[str], told: str) -> None:
    file = tmp_path / "f.jsonl"
    file.write_text("\n".join(lines))
    with pytest.raises(InvalidDataset, match=told):
        read_call_counts(file, Settings(), START)


def test_commands_learn_export_and_forget(tmp_path: Path) -> None:
    """A folder of conversations into a registry of the same agents; the export gives the same counts anew."""
    (folder := tmp_path / "talks").mkdir()
    agent = {"id": "shop", "name": "Shop", "tools": [{"name": name, "description": name} for name in ("look", "buy")]}
    (folder / "agents.jsonl").write_text(json.dumps(agent))
    turns: list[dict[str, object]] = [{"role": "user", "text": "a coat"}]
    turns += [{"role": "call", "agent": "shop", "tool": name, "arguments": {}} for name in ("look", "buy")]
    failed = [*turns, {"role": "call", "agent": "shop", "tool": "look", "outcome": "failed"}]
    talks = [{"id": "1", "turns": turns, "split": "train"}, {"id": "2", "turns": failed, "split": "test"}]
    (folder / "trajectories.jsonl").write_text("\n".join(map(json.dumps, talks)))
    place = str(tmp_path / "r.grafeo")

    def run(*arguments: str, code: int = 0) -> str:
        result = CliRunner().invoke(app, ["--registry", place, "--embedder", "none", *arguments])
        assert result.exit_code == code, result.output
        return result.stdout

    run("learn", "transitions", str(folder), code=1)
    (tmp_path / "catalog.json").write_text(json.dumps({"waygraph": 1, "agents": [agent]}))
    run("ingest", str(tmp_path / "catalog.json"))
    learned = json.loads(run("learn", "transitions", str(folder), "--json"))
    assert (learned["transitions"], learned["unknown"]) == (4, [])
    exported = run("learn", "export")
    assert {(c["first"], c["next"], c["count"]) for c in map(json.loads, exported.splitlines())} == {
        ("", "shop", 2.0),
        ("", "shop/look", 2.0),
        ("shop", "shop", 2.0),
        ("shop/look", "shop/buy", 2.0),
    }
    run("learn", "remove")
    assert run("learn", "export") == ""
    (tmp_path / "counts.jsonl").write_text(exported)
    run("learn", "transitions", str(tmp_path / "counts.jsonl"))
    assert run("learn", "export") == exported
    run("learn", "remove")
    run("learn", "transitions", str(folder), "--split", "train")
    assert json.loads(run("learn", "export").splitlines()[0])["count"] == 1.0
    run("learn", "transitions", str(folder), "--split", "no-such", code=1)


def test_a_counter_counts_the_last_call_and_keeps_what_cannot_be_written(tmp_path: Path) -> None:
    """What another writer holds up is written the next time; then nothing is left to write."""
    times = iter([START, LATER])
    settings = Settings(learn="transitions", write_timeout_s=0.1)
    with LocalRegistry.open(tmp_path / "r.grafeo", embedder="none", settings=settings, environ={}) as registry:
        sync(registry, Manifest(source="s", entries=(entry("a", tools=("x", "y")),)))
        counter = CallCounter(registry, clock=lambda: next(times))
        counter.note(["a/x", "a/y"])
        counter.note(["a/y", "a/x", "a/y"])
        with registry.writing():
            counter.write()
        assert registry.read(read_transitions) == []
        counter.write()
        counts = {each.key: each.count for each in registry.read(read_transitions)}
        both = pytest.approx(1 + 0.5 ** (30 / HALF_LIFE_DAYS))  # there are 30 days between them
        assert counts == {
            ("", "a", "a"): both, ("a", "a", "a"): 1,
            ("", "a/x", "a/y"): both, ("a/y", "a/x", "a/y"): 1,
        }  # fmt: skip
        revision = registry.status().state.revision
        counter.write()
        assert registry.status().state.revision == revision


def test_one_caller_adds_so_much_a_day_to_what_all_share(tmp_path: Path) -> None:
    """600 calls in seconds count as 5 of each that follows another, and 200 calls in all; the next day counts anew."""
    names = [f"t{number}" for number in range(60)]
    clock = {"now": START}
    with LocalRegistry.open(tmp_path / "r.grafeo", embedder="none", environ={}) as registry:
        sync(registry, Manifest(source="s", entries=(entry("a", tools=names),)))
        counter = CallCounter(registry, clock=lambda: clock["now"])
        one, two, operator = (
            Caller(id=name, scopes=frozenset(), principal=None if name == "operator" else Principal(id=name))
            for name in ("one", "two", "operator")
        )

        def learn(caller: Caller, calls: int) -> float:
            for _ in range(calls):
                counter.note(["a/t0", "a/t1"], caller)
            counter.write()
            counts = {each.key: each.count for each in registry.read(read_transitions)}
            registry.change(forget_transitions)
            return counts.get(("", "a/t0", "a/t1"), 0.0)

        assert [learn(one, 600), learn(one, 1), learn(two, 3), learn(operator, 9)] == [5, 0, 3, 9]
        for number in range(300):
            counter.note([f"a/t{number % 60}", f"a/t{number // 60}"], two)
        counter.write()
        sums = [each for each in registry.read(read_transitions) if "/" in each.next and "/" in each.first]
        assert sum(each.count for each in sums) == 200 - 3
        clock["now"] = LATER
        registry.change(forget_transitions)
        assert learn(one, 600) == 5


def test_a_flood_of_pairs_moves_no_first_tool_of_others(tmp_path: Path) -> None:
    """One caller calls one tool beside every other, 10,000 times: few answers of others then hold it."""
    with LocalRegistry.open(tmp_path / "r.grafeo", embedder="none", environ={}) as registry:
        for manifest in read_path(str(Path(__file__).parents[2] / "examples" / "catalog"), registry.settings):
            sync(registry, manifest)
        tools = registry.tools()
        pushed = tools[0].id

        def first_five() -> list[list[str]]:
            queries = [Query(text=tool.description[:200], limit=5) for tool in tools[1:]]
            return [[match.tool.id for match in registry.find_tools(query).matches] for query in queries]

        before = first_five()
        counter = CallCounter(registry, clock=lambda: START)
        caller = Caller(id="one", scopes=frozenset(), principal=Principal(id="one"))
        for number in range(10_000):
            counter.note([tools[1 + number % (len(tools) - 1)].id, pushed], caller)
        counter.write()
        after = first_five()
        pushed_at = [one for one, other in zip(before, after, strict=True) if pushed in other and pushed not in one]
        assert [each[0] for each in after] == [each[0] for each in before]
        assert len(pushed_at) < len(before) / 10 > 10


def test_what_cannot_be_learned_is_refused(tmp_path: Path) -> None:
    settings = Settings(learn="everything")
    with (
        LocalRegistry.open(tmp_path / "r.grafeo", embedder="none", environ={}) as registry,
        pytest.raises(InvalidSetting, match="WAYGRAPH_LEARN='everything'"),
        open_counter(registry, settings),
    ):
        pass
