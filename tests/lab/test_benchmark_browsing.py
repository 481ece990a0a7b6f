"""The benchmark of browsing: it counts what answers show, and pays for each of them."""

from collections.abc import Iterator

import pytest

from benchmarks import browsing
from benchmarks.browsing import Chooser, Reader, Wanted
from tests.gateway_catalog import agent, by_hand, put, tool
from waygraph.registry.embedding.factory import open_embedder
from waygraph.registry.model.nouns import Of
from waygraph.registry.model.settings import DEFAULT_EMBEDDER, Settings
from waygraph.registry.storage.local_registry import LocalRegistry
from waygraph_lab.evaluation.dataset import Asked

SHIPS, BREAD = "sail a ship across the harbour", "bake bread from flour in an oven"


@pytest.fixture
def registry() -> Iterator[LocalRegistry]:
    """20 tools in `ships`, one in `bread`, one in no category of the tree."""
    with LocalRegistry.open(":memory:", embedder="none", environ={}) as opened:
        ships = [tool("fleet", f"sail_{at:02}", f"{SHIPS}, berth {at}") for at in range(20)]
        put(opened, "s", [agent("fleet", *ships), agent("bakery", tool("bakery", "bake", BREAD))])
        groups = {"ships": [each.id for each in ships], "bread": ["bakery/bake"]}
        opened.build_taxonomy(by_hand(groups), of=Of.TOOLS)
        put(opened, "t", [agent("late", tool("late", "wait", "Wait."))])
        yield opened


def test_a_way_counts_all_answers_down_to_the_tool(registry: LocalRegistry) -> None:
    reader = Reader(registry, tokens=len)
    ways = reader.ways()
    assert ways.keys() == {each.call_name for each in registry.tools()} - {"late__wait"}
    root, first, second = (reader.read(*at).tokens for at in (("", 0), ("ships", 0), ("ships", 8)))
    assert (ways["fleet__sail_03"].answers, ways["fleet__sail_03"].tokens) == (2, root + first)
    assert (ways["fleet__sail_09"].answers, ways["fleet__sail_09"].tokens) == (3, root + first + second)
    assert ways["fleet__sail_09"].path == "ships"


def test_a_wrong_way_is_paid_too(registry: LocalRegistry) -> None:
    """Of the reader who opens what is nearest; what no answer shows is not reached."""
    embedder = open_embedder(DEFAULT_EMBEDDER, Settings(), {})
    assert embedder is not None
    reader = Reader(registry, tokens=len)
    root, bread, *ships = (reader.read(*at).tokens for at in (("", 0), ("bread", 0), ("ships", 0), ("ships", 8)))
    chooser = Chooser(reader, embedder)
    baked, sailed = frozenset(["bakery__bake"]), frozenset(["fleet__sail_09"])
    assert chooser.tokens_to(Wanted("bread", baked)) == root + bread
    assert chooser.tokens_to(Wanted("ships", sailed)) == root + sum(ships)
    assert chooser.tokens_to(Wanted("bread", sailed)) == root + bread + sum(ships)
    assert chooser.tokens_to(Wanted("bread", frozenset(["late__wait"]))) is None
    late = Wanted("wait", frozenset(["late__wait"]))
    row = browsing.browse("by hand", registry, len, embedder, [Wanted(BREAD, baked), late])
    assert (row["wanted"], row["reachable"], row["answers"], row["shown by that"]) == (2, 0.5, 2, 1)
    reached, *tokens = browsing.measures([row])
    assert (reached.value, reached.target) == (0.5, browsing.ALL)
    assert [each.value for each in tokens] == [root + bread, root + bread]


def test_each_needed_tool_is_wanted(registry: LocalRegistry) -> None:
    gold = (frozenset({"bakery/bake", "gone/x"}), frozenset({"gone/x"}), frozenset({"fleet/sail_01"}))
    asked = Asked(id="q", texts=("one", "two"), gold=(), gold_tools=gold)
    wanted = list(browsing.wanted_by([asked], registry))
    assert [each.names for each in wanted] == [frozenset({"bakery__bake"}), frozenset({"fleet__sail_01"})]
    assert wanted[0].request == "one two"
