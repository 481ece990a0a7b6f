"""The three forms of an export: JSON that comes back whole, GraphML that others read, a page that opens anywhere."""

import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path

import networkx as nx
import numpy as np
import pytest

from waygraph.ingest.manifest.records import Manifest
from waygraph.ingest.sources.read import read_path
from waygraph.ingest.sync.apply import sync
from waygraph.registry.graph.engine import GraphSession
from waygraph.registry.graph.read import read_agents, read_claims, read_settings, read_tools
from waygraph.registry.model.changes import ChangeSet
from waygraph.registry.model.settings import Settings
from waygraph.registry.storage.export.formats import export, json_in_html
from waygraph.registry.storage.export.map import Circle, lay_out
from waygraph.registry.storage.local_registry import LocalRegistry

CATALOG = Path(__file__).parents[2] / "examples" / "catalog"
LIVEMCPBENCH = Path(__file__).parents[3] / "shared" / "data" / "livemcpbench" / "tools.json"
SETTINGS = Settings(embedder="none")
HOSTILE = "</script><script>document.title='owned'</script><!-- \u2028 ${x} & 'q' \"q\" \x07"

type Ingest = Callable[[object], list[ChangeSet]]


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[LocalRegistry]:
    with LocalRegistry.open(tmp_path / "tools.grafeo", settings=SETTINGS) as opened:
        yield opened


@pytest.fixture
def other(tmp_path: Path) -> Iterator[LocalRegistry]:
    with LocalRegistry.open(tmp_path / "other.grafeo", settings=SETTINGS) as opened:
        yield opened


def take(registry: LocalRegistry, manifests: list[Manifest]) -> list[ChangeSet]:
    return [sync(registry, manifest).changes for manifest in manifests]


def take_document(registry: LocalRegistry, path: Path, document: object, name: str = "") -> list[ChangeSet]:
    path.write_text(json.dumps(document), encoding="utf-8")
    return take(registry, read_path(str(path), SETTINGS, source=name or path.stem, namespace=name or path.stem))


def take_export(registry: LocalRegistry, path: Path, text: str) -> list[ChangeSet]:
    path.write_text(text, encoding="utf-8")
    return take(registry, read_path(str(path), SETTINGS, kind="export"))


def catalogue(*agents: dict[str, object]) -> dict[str, object]:
    return {"waygraph": 1, "agents": list(agents)}


def graph_of(registry: LocalRegistry) -> tuple[object, ...]:
    """All that a graph holds, times apart."""

    def work(session: GraphSession) -> tuple[object, ...]:
        claims = [(c.source, c.key, c.agent_id, c.hash, c.rank) for c in read_claims(session)]
        return read_agents(session), read_tools(session), claims, read_settings(session)

    held: tuple[object, ...] = registry.read(work)
    return held


def without_revision(text: str) -> str:
    return re.sub(r'^"revision": \d+,$', "", text, flags=re.MULTILINE)


@pytest.fixture(
    scope="module",
    params=[
        pytest.param((CATALOG,), id="catalog"),
        pytest.param(
            (LIVEMCPBENCH, CATALOG),
            id="catalog and livemcpbench",
            marks=pytest.mark.skipif(not LIVEMCPBENCH.exists(), reason="../shared is not beside this checkout"),
        ),
    ],
)
def filled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalRegistry]:
    """A registry with operators' words of every kind; no test changes it."""
    with LocalRegistry.open(tmp_path_factory.mktemp("filled") / "tools.grafeo", settings=SETTINGS) as registry:
        for source in request.param:
            take(registry, read_path(str(source), SETTINGS))
        registry.operator.set("quarry-sql", tags=["trusted"], visible_to=["analysts"], pinned=True)
        registry.operator.set("harbor-git", visible_to=["ops"], hidden=True)
        registry.operator.remove("pigeon-mail")
        yield registry


def test_an_export_changes_nothing_where_it_came_from(filled: LocalRegistry, tmp_path: Path) -> None:
    before = filled.status().state.revision
    changes = take_export(filled, tmp_path / "export.json", export(filled, "json"))
    assert len(changes) == len(filled.sources())
    assert all(change.is_empty for change in changes)
    assert filled.status().state.revision == before


def test_an_export_rebuilds_the_registry(filled: LocalRegistry, other: LocalRegistry, tmp_path: Path) -> None:
    first = export(filled, "json")
    take_export(other, tmp_path / "export.json", first)
    assert graph_of(other) == graph_of(filled)
    assert without_revision(export(other, "json")) == without_revision(first)


def test_an_export_holds_what_sources_say(filled: LocalRegistry) -> None:
    """The operator's word stands apart from the agents, so that an ingest does not make it the source's."""
    document = json.loads(export(filled, "json"))
    stated = {agent["id"]: agent for agent in document["agents"]}
    assert stated["quarry-sql"]["tags"] == ["data", "database", "sql"]
    assert stated["quarry-sql"]["visible_to"] == []
    assert "pigeon-mail" not in stated
    said = {row["agent_id"]: row for row in document["operator"]}
    assert said["quarry-sql"]["visible_to"] == ["analysts"]
    assert said["harbor-git"]["visible_to"] == ["ops"]
    assert said["pigeon-mail"]["visible_to"] is None
    assert said["pigeon-mail"]["removed"] is True


def test_a_namespaced_agent_keeps_its_id(registry: LocalRegistry, other: LocalRegistry, tmp_path: Path) -> None:
    take_document(registry, tmp_path / "zeta.json", catalogue({"id": "files", "transport": {"url": "http://one/"}}))
    take_document(registry, tmp_path / "alpha.json", catalogue({"id": "files", "transport": {"url": "http://two/"}}))
    assert [agent.id for agent in registry.agents()] == ["alpha.files", "files"]
    exported = export(registry, "json")
    assert all(change.is_empty for change in take_export(registry, tmp_path / "export.json", exported))
    take_export(other, tmp_path / "export.json", exported)
    assert graph_of(other) == graph_of(registry)
    again = take_document(
        other, tmp_path / "alpha.json", catalogue({"id": "files", "transport": {"url": "http://two/"}})
    )
    assert all(change.is_empty for change in again)


def test_an_agent_that_two_sources_claim_comes_back_with_both(
    registry: LocalRegistry, other: LocalRegistry, tmp_path: Path
) -> None:
    agent = {"transport": {"url": "http://one/"}, "tools": [{"name": "read"}]}
    take_document(registry, tmp_path / "a.json", catalogue({"id": "files", "name": "Files", **agent}))
    take_document(registry, tmp_path / "b.json", catalogue({"id": "my/files", "name": "Files", **agent}))
    exported = export(registry, "json")
    take_export(other, tmp_path / "export.json", exported)
    assert graph_of(other) == graph_of(registry)
    assert all(change.is_empty for change in take_export(registry, tmp_path / "export.json", exported))


ODD: list[dict[str, object]] = [
    {"id": "@scope/pkg name", "name": "  odd  ", "description": HOSTILE, "version": "1"},
    {"id": "天気", "description": "天気予報 🦊\r\n\ttab", "kind": "custom", "tags": ["b", "a", "b"]},
    {"id": "-dash", "transport": {"command": "x", "args": ["--token", "abc", 3], "env": {"KEY": "v", "R": "${R}"}}},
    {"id": "url", "transport": {"url": "https://u:p@host/mcp?key=1&x=${x}#part", "headers": {"A": "Bearer ${T}"}}},
    {"id": "empty", "name": "", "description": None, "tools": []},
    {
        "id": "shapes",
        "tools": [
            {"name": "none"},
            {"name": "empty", "inputSchema": {}, "outputSchema": {}, "annotations": {}},
            {"name": "a/b c", "description": HOSTILE, "tags": ["x"]},
            {
                "name": "numbers",
                "inputSchema": {"default": 1.0, "maximum": 1e100, "big": 2**70, "n": None, "é": "\u2029"},
            },
            {"name": "order", "inputSchema": {"properties": {"b": {}, "a": {}}, "10": 1, "9": 2}},
        ],
    },
]


def test_odd_records_come_back_word_for_word(registry: LocalRegistry, other: LocalRegistry, tmp_path: Path) -> None:
    """Odd keys, empty and absent schemas, control characters, numbers of every size survive the round."""
    taken = take_document(registry, tmp_path / "odd.json", catalogue(*ODD))
    assert taken[0].rejected == ()
    exported = export(registry, "json")
    assert all(change.is_empty for change in take_export(registry, tmp_path / "export.json", exported))
    take_export(other, tmp_path / "export.json", exported)
    assert graph_of(other) == graph_of(registry)


def test_graphml_has_every_node_and_edge(filled: LocalRegistry) -> None:
    """Read back by networkx, agents own their tools and sources claim their agents."""
    graph = nx.parse_graphml(export(filled, "graphml"))
    types = [data["type"] for _, data in graph.nodes(data=True)]
    assert types.count("Agent") == len(filled.agents())
    assert types.count("Tool") == len(filled.tools())
    assert types.count("Source") == len(filled.sources())
    owns = {(one, other) for one, other, data in graph.edges(data=True) if data["type"] == "OWNS"}
    assert owns == {(f"agent:{tool.agent_id}", f"tool:{tool.id}") for tool in filled.tools()}
    claims = [data for *_, data in graph.edges(data=True) if data["type"] == "CLAIMS"]
    assert len(claims) == len(filled.agents())


def test_graphml_is_well_formed_whatever_agents_say(registry: LocalRegistry, tmp_path: Path) -> None:
    """Control characters are left out, markup is text, and a source's odd name stays its own."""
    take_document(registry, tmp_path / "odd.json", catalogue(*ODD), name="odd\x01\ufffe<name>")
    text = export(registry, "graphml")
    ET.fromstring(text)  # noqa: S314 - our own text
    nodes = nx.parse_graphml(text).nodes
    assert nodes["tool:shapes/a/b c"]["description"] == HOSTILE.replace("\x07", "")
    assert nodes["source:odd\\u0001\\ufffe<name>"]["label"] == "odd<name>"


class _Page(HTMLParser):
    """The elements of a page, and the text within each script and style."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[int, str] = {}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.tags:
            self.texts[len(self.tags) - 1] = self.texts.get(len(self.tags) - 1, "") + data

    def text_of(self, identity: str) -> str:
        return next(self.texts[i] for i, (_, attrs) in enumerate(self.tags) if attrs.get("id") == identity)


def test_the_page_asks_the_network_for_nothing(filled: LocalRegistry) -> None:
    """It has no element that loads anything, and a policy that would forbid it."""
    page = _Page(export(filled, "html"))
    assert not [attrs for _, attrs in page.tags if {"src", "href", "srcset", "action", "style"} & attrs.keys()]
    assert not [name for _, attrs in page.tags for name in attrs if name.startswith("on")]
    policy = next(attrs["content"] for _, attrs in page.tags if attrs.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy


def test_untrusted_text_stays_data(registry: LocalRegistry, tmp_path: Path) -> None:
    """No description ends the script it is embedded in, and each comes out as it went in."""
    take_document(registry, tmp_path / "odd.json", catalogue(*ODD))
    page = _Page(export(registry, "html"))
    assert [tag for tag, _ in page.tags].count("script") == 2
    said = {agent["name"]: agent["description"] for agent in json.loads(page.text_of("data"))["agents"]}
    assert said["  odd  "] == HOSTILE
    assert json.loads(json_in_html(HOSTILE)) == HOSTILE
    assert not set("<>&\u2028\u2029") & set(json_in_html(HOSTILE))


def test_the_page_holds_everything(filled: LocalRegistry) -> None:
    data = json.loads(_Page(export(filled, "html")).text_of("data"))
    assert [agent["id"] for agent in data["agents"]] == [agent.id for agent in filled.agents()]
    assert {tool["id"]: tool["input_schema"] for tool in data["tools"]} == {
        tool.id: tool.input_schema for tool in filled.tools()
    }
    places = [(entity["x"], entity["y"]) for entity in data["agents"] + data["tools"]]
    assert len(set(places)) == len(places)
    assert all(region["name"] for region in data["regions"])


def test_nothing_on_the_map_overlaps() -> None:
    """Agents with their rings of tools keep apart, inside regions that keep apart, whatever the numbers."""
    random = np.random.default_rng(5)
    features = random.normal(size=(120, 8))
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    features[:3] = 0
    layout = lay_out(features, [int(number) for number in random.integers(0, 60, 120)])
    assert _least_gap(layout.agents) >= 0
    assert _least_gap(layout.regions) >= 0
    for agent, region in zip(layout.agents, layout.region_of, strict=True):
        home = layout.regions[region]
        assert np.hypot(agent.x - home.x, agent.y - home.y) + agent.radius <= home.radius + 1e-6


def _least_gap(circles: tuple[Circle, ...]) -> float:
    return min(
        float(np.hypot(one.x - other.x, one.y - other.y)) - one.radius - other.radius
        for row, one in enumerate(circles)
        for other in circles[:row]
    )
