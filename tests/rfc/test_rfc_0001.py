"""RFC 0001, Selective Tool Retrieval for LLM Systems: each of its requirements has a test that shows it."""

import json
import re
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from tests.rfc.requirements import END_OF_LISTS, HEADS, REQUIREMENTS, Level, Requirement
from waygraph import Settings
from waygraph.api.mcp.meta_tools import meta_tools
from waygraph.ingest.sources.read import read_path
from waygraph.ingest.sync.apply import sync
from waygraph.registry.catalog.find import FindAsked, capabilities, find
from waygraph.registry.registry import Registry

WORDS = re.compile(r"\b(?:MUST NOT|MUST|SHOULD NOT|SHOULD|SHALL|REQUIRED|RECOMMENDED)\b|\bmust\b")


@pytest.fixture(scope="module")
def rfc(root: Path) -> str:
    """Its text, where the checkout has it beside it."""
    found = root.parent / "shared" / "papers" / "rfc-0001-find-tools.txt"
    if not found.exists():
        pytest.skip("the text of RFC 0001 does not lie beside this checkout")
    return found.read_text(encoding="utf-8")


def letters(text: str) -> str:
    """Without spaces: the copy has lost some of those beside code."""
    return "".join(text.split())


@pytest.mark.parametrize("requirement", REQUIREMENTS, ids=lambda each: each.sentence[:40])
def test_each_requirement_is_shown_by_tests_that_are_there(requirement: Requirement) -> None:
    assert requirement.shown_by
    for named in requirement.shown_by:
        path, _, function = named.partition("::")
        assert Path(path).name.startswith("test_"), "pytest would not collect it"
        module = import_module("tests." + path.removesuffix(".py").replace("/", "."))
        assert function.startswith("test_")
        assert marks(module, function).isdisjoint({"skip", "skipif", "xfail", "slow"}), named


def marks(module: ModuleType, function: str) -> set[str]:
    of_module = getattr(module, "pytestmark", [])
    of_function = getattr(getattr(module, function), "pytestmark", [])
    listed = of_module if isinstance(of_module, list) else [of_module]
    return {mark.name for mark in (*listed, *of_function)}


@pytest.mark.parametrize("requirement", REQUIREMENTS, ids=lambda each: each.sentence[:40])
def test_each_sentence_stands_in_the_rfc(requirement: Requirement, rfc: str) -> None:
    assert letters(requirement.sentence) in letters(rfc)


@pytest.mark.parametrize("level", HEADS)
def test_each_entry_of_the_rfcs_lists_is_in_the_table(level: Level, rfc: str) -> None:
    """Nothing of a list is left when what is quoted of it is taken away."""
    text = letters(rfc)
    starts = sorted(text.index(letters(head)) for head in (*HEADS.values(), END_OF_LISTS))
    begin = text.index(letters(HEADS[level]))
    left = text[begin : starts[starts.index(begin) + 1]].removeprefix(letters(HEADS[level]))
    for each in REQUIREMENTS:
        if each.level == level:
            left = left.replace("-" + letters(each.sentence), "")
    assert left == ""


def test_no_requirement_of_the_rfc_is_passed_over(rfc: str) -> None:
    """Each of the words that require something stands in a head or a sentence of the table."""
    quoted = [*HEADS.values(), *(each.sentence for each in REQUIREMENTS)]
    spans = [found.span() for each in quoted for found in re.finditer(spaced(each), rfc)]
    passed_over = [
        " ".join(rfc[max(0, word.start() - 60) : word.end() + 60].split())
        for word in WORDS.finditer(rfc)
        if not any(start <= word.start() < end for start, end in spans)
    ]
    assert passed_over == []


def spaced(text: str) -> str:
    """A pattern that takes the text with any spaces."""
    return r"\s*".join(re.escape(letter) for letter in letters(text))


def test_find_tools_is_the_rfcs_own(rfc: str) -> None:
    """Name, description and parameters on the surface `rfc`; we add bounds to `limit`."""
    quoted = json.loads(rfc[rfc.index('{\n"name": "find_tools"') : rfc.index("The gateway returns a list of tool")])
    (ours,) = meta_tools("rfc")
    assert (ours["name"], ours["description"]) == (quoted["name"], quoted["description"])
    schema, wanted = ours["inputSchema"], quoted["input_schema"]
    assert schema["required"] == wanted["required"]
    assert set(schema["properties"]) == set(wanted["properties"])
    for name, property_wanted in wanted["properties"].items():
        assert property_wanted.items() <= schema["properties"][name].items()


def test_use_tool_takes_what_the_rfcs_takes(rfc: str) -> None:
    quoted = json.loads(rfc[rfc.index('{\n"name": "use_tool"') : rfc.index("The gateway resolves the query")])
    (ours,) = (tool for tool in meta_tools("default") if tool["name"] == "use_tool")
    for name, wanted in quoted["input_schema"]["properties"].items():
        assert ours["inputSchema"]["properties"][name]["type"] == wanted["type"]
    assert set(ours["inputSchema"]["required"]) <= set(quoted["input_schema"]["required"])


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory, catalog: Path, root: Path) -> Registry:
    """Of two sources: the example catalogue, and a skill."""
    registry = Registry.open(tmp_path_factory.mktemp("rfc") / "r.grafeo", environ={})
    for path in (catalog, root / "examples" / "sources" / "tide-report"):
        for manifest in read_path(str(path), Settings(), source=path.name):
            sync(registry, manifest)
    return registry


def test_embedding_based_retrieval_is_declared_where_it_is_there(example: Registry) -> None:
    """And finds what shares no word with the request; without vectors only keywords are declared."""
    assert capabilities(example)["backends"] == ["keyword", "embedding"]
    found = find(example, FindAsked(query="purchase footwear at a bargain"))
    assert found["tools"], found
    with Registry.open(":memory:", embedder="none", environ={}) as bare:
        sync(bare, next(iter(read_path(str(Path("examples/catalog")), Settings(), source="c"))))
        assert capabilities(bare)["backends"] == ["keyword"]


def test_tools_of_several_sources_are_found_together(example: Registry) -> None:
    overview = find(example, FindAsked(query=""))["overview"]
    assert len(overview["sources"]) == 2
    found = find(example, FindAsked(query="high and low water at a harbour, tides", limit=20))
    assert any(tool["name"].startswith("tide-report") for tool in found["tools"])
