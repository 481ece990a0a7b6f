"""The doctor names what is wrong: every check is tried on a registry that was really broken that way."""

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.fake_openai import fake_openai
from waygraph.cypher.loader import parse
from waygraph.ingest.sources.read import read_path
from waygraph.ingest.sync.apply import sync
from waygraph.registry.graph.grafeo import GrafeoEngine
from waygraph.registry.index.local.file import IndexFile, Intent, current_path, encode, folder_of, open_to_write
from waygraph.registry.model.files import write_lock
from waygraph.registry.model.nouns import NO_DESCRIPTION
from waygraph.registry.model.settings import Settings
from waygraph.registry.registry import Registry
from waygraph.registry.storage.integrity.examine import IndexDump, _same_part, examine_at
from waygraph.registry.storage.integrity.findings import Finding

CATALOG = Path(__file__).parents[2] / "examples" / "catalog"
AGENTS = ("quarry-sql", "harbor-git", "pigeon-mail")
QUICK = [
    *("registry", "graph file", "writer", "pending", "schema", "index", "graph copy"),
    *("sources", "embedder", "versions"),
]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Settings, dict[str, str]]]:
    """Settings and environment with an embedder that answers."""
    cache = tmp_path_factory.mktemp("cache")
    with fake_openai() as fake:
        yield (Settings(embedder="openai:a-model", cache_dir=str(cache), write_timeout_s=1), fake.environ)


@pytest.fixture(scope="module")
def sound(world: tuple[Settings, dict[str, str]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a sound registry of three agents; tests work on copies."""
    folder = tmp_path_factory.mktemp("sound")
    with Registry.open(folder / "tools.grafeo", settings=world[0], environ=world[1]) as registry:
        for name in AGENTS:
            for manifest in read_path(str(CATALOG / f"{name}.yaml"), world[0]):
                sync(registry, manifest)
        registry.operator.set("harbor-git", tags=["ours"], pinned=True)
    return folder


@pytest.fixture
def path(sound: Path, tmp_path: Path) -> Path:
    shutil.copytree(sound, tmp_path / "copy")
    return tmp_path / "copy" / "tools.grafeo"


@pytest.fixture
def look(world: tuple[Settings, dict[str, str]], path: Path) -> Callable[..., dict[str, Finding]]:
    """The findings of that copy by check."""

    def look(*, deep: bool = False) -> dict[str, Finding]:
        findings = examine_at(path, deep=deep, settings=world[0], environ=world[1])
        assert len({finding.check for finding in findings}) == len(findings)
        return {finding.check: finding for finding in findings}

    return look


type Look = Callable[..., dict[str, Finding]]


def faults(findings: dict[str, Finding]) -> set[str]:
    """The checks that failed; each must say what it saw and what to do, in one line."""
    unwell = {check: finding for check, finding in findings.items() if not finding.ok}
    assert all(finding.detail and finding.advice and "\n" not in finding.advice for finding in unwell.values())
    return set(unwell)


def tamper(path: Path, *statements: str) -> None:
    """Changes the graph behind the registry's back."""
    engine = GrafeoEngine.open(path)
    for text in statements:
        engine.run(parse("test", f"// Tampers.\n// params: none\n// returns: none\n{text}"))
    engine.close()


def current(path: Path) -> Path:
    file = current_path(folder_of(path))
    assert file is not None
    return file


def truncate(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def begin_to_write(path: Path) -> None:
    """As a writer does before it commits."""
    with closing(open_to_write(current(path))) as file:
        file.put_intent(Intent())


def test_a_sound_registry_is_well(look: Look) -> None:
    findings = look(deep=True)
    assert faults(findings) == set()
    assert list(findings)[: len(QUICK)] == QUICK
    assert all(finding.detail for finding in findings.values())
    assert not any(finding.advice for finding in findings.values())
    # A registry of an older schema has no part of a younger noun.
    assert _same_part("links", IndexDump({}), IndexDump({"links": {"links": []}, "stamp of links": {"stamp": ""}}))


def test_agents_that_state_no_description_are_named(
    look: Look, world: tuple[Settings, dict[str, str]], path: Path
) -> None:
    """Which is no fault: their tools are found all the same. A sentence that was made for them is none."""
    assert look(deep=True)["descriptions"].detail == "each agent states one"
    with Registry.open(path, settings=world[0], environ=world[1]) as registry:
        entries = [{"id": f"mute-{at:02}", "name": "Mute", "tools": [{"name": "go"}]} for at in range(12)]
        entries.append({"id": "terse", "name": "Terse", "description": f"{NO_DESCRIPTION}1 tool.\n\nGo."})
        source = path.with_name("mute.json")
        source.write_text(json.dumps({"waygraph": 1, "agents": entries}), encoding="utf-8")
        for manifest in read_path(str(source), world[0]):
            sync(registry, manifest)
    finding = look(deep=True)["descriptions"]
    ids = ", ".join(f"mute-{at:02}" for at in range(10))
    assert (finding.ok, finding.detail) == (True, f"13 of 16 agents state no description: {ids} and 3 more")


def test_a_quick_look_changes_no_file(look: Look, path: Path) -> None:
    """It leaves every byte and time as it was; the lock's file and a copy of the graph apart."""
    before = _files(path.parent)
    assert list(look()) == QUICK
    assert _files(path.parent) == before


def _files(folder: Path) -> dict[str, tuple[bytes, int]]:
    files = {*folder.rglob("*")} - {*folder.glob("*.index/graph-*/**/*")}
    here = (file for file in sorted(files) if file.is_file() and not file.name.endswith((".lock", "-shm", "-wal")))
    return {str(file): (file.read_bytes(), file.stat().st_mtime_ns) for file in here}


def test_a_deep_look_keeps_revision_and_index(look: Look, path: Path) -> None:
    before = current(path)
    look(deep=True)
    assert current(path) == before


def test_no_registry(look: Look, path: Path) -> None:
    shutil.rmtree(path.parent)
    findings = look(deep=True)
    assert faults(findings) == {"registry"}
    assert "waygraph ingest" in findings["registry"].advice
    assert not path.parent.exists()


@pytest.mark.parametrize("deep", [False, True])
def test_a_missing_graph_file(look: Look, path: Path, deep: bool) -> None:
    """No new graph is made, and a copy is advised."""
    path.unlink()
    findings = look(deep=deep)
    assert faults(findings) == {"graph file", "graph copy"} | ({"live graph", "copy"} if deep else set())
    assert "from a copy" in findings["graph file"].advice
    assert not path.exists()


def test_a_foreign_graph_file(look: Look, path: Path) -> None:
    path.write_bytes(b"something else" * 1000)
    assert faults(look(deep=True)) == {"graph file", "graph copy", "live graph", "copy"}
    assert path.read_bytes() == b"something else" * 1000


def test_a_writer_is_named(look: Look, path: Path) -> None:
    """Who holds the lock is told, and that the deep look had to do with the copy."""
    with write_lock(path, 1):
        begin_to_write(path)
        findings = look(deep=True)
    assert faults(findings) == {"live graph"}
    assert "process" in findings["writer"].detail
    assert findings["pending"].ok
    assert "agent hashes" in findings


def test_a_writer_that_died_before_publishing(look: Look, path: Path) -> None:
    begin_to_write(path)
    findings = look()
    assert not findings["pending"].ok
    assert "waygraph status" in findings["pending"].advice


def test_another_embedder(look: Look, path: Path) -> None:
    """Vectors of another model than the one at hand are told apart before a query is asked."""
    with closing(open_to_write(current(path))) as file:
        header = file.header()
        file.put_header(replace(header, state=replace(header.state, embedder="onnx:other@abc")))
    findings = look()
    assert not findings["embedder"].ok
    assert "onnx:other@abc" in findings["embedder"].detail


def test_a_graph_of_another_revision(look: Look, path: Path) -> None:
    """Cypher and exports would answer from another revision than routes."""
    tamper(path, "MATCH (r:Registry) SET r.revision = 1")
    assert "graph copy" in faults(look())


@pytest.mark.parametrize("damage", [truncate, lambda file: file.write_bytes(b"something else" * 1000)])
def test_an_index_that_cannot_be_read_is_built_anew(look: Look, path: Path, damage: Callable[[Path], None]) -> None:
    damage(current(path))
    assert "index" in faults(look())
    look(deep=True)
    assert faults(look(deep=True)) == set()


@pytest.mark.parametrize("table", ["columns", "record", "words", "posting", "part", "agent"])
def test_damage_inside_the_index_is_named_once(look: Look, path: Path, table: str) -> None:
    """What was found is built anew by the next look."""
    with closing(open_to_write(current(path))) as file:
        file.fetch(f"UPDATE {table} SET body = zeroblob(length(body))")  # noqa: S608 - one of these names
    assert faults(look(deep=True)) != set()
    assert faults(look(deep=True)) == set()


TOOL = "quarry-sql/run_query"
GRAPH_FAULTS = [
    ("MATCH (a:Agent {id: 'quarry-sql'}) SET a.description = 'other'", "agent hashes", "quarry-sql"),
    ("MATCH (a:Agent {id: 'quarry-sql'}) SET a.visible_to = ['x']", "agent hashes", "quarry-sql"),
    ("MATCH (t:Tool {id: '" + TOOL + "'}) SET t.input_schema = '{}'", "tool hashes", TOOL),
    ("MATCH (t:Tool {id: '" + TOOL + "'}) SET t.call_name = 'x'", "tool hashes", TOOL),
    ("MATCH (t:Tool {id: '" + TOOL + "'}) SET t.id = 'elsewhere/run_query'", "tool hashes", "elsewhere/run_query"),
    ("MATCH (t:Tool {id: '" + TOOL + "'}) DETACH DELETE t", "bundle hashes", "quarry-sql"),
    ("MATCH (:Agent)-[o:OWNS]->(:Tool {id: '" + TOOL + "'}) DELETE o", "owners", f"{TOOL} has no owner"),
    (
        "MATCH (a:Agent {id: 'harbor-git'}), (t:Tool {id: '" + TOOL + "'}) CREATE (a)-[:OWNS]->(t)",
        "owners",
        f"{TOOL} has 2 owners",
    ),
    ("MATCH (a:Agent {id: 'quarry-sql'}) SET a.id = null", "owners", "quarry-sql/export_csv has an owner without id"),
    (
        "MATCH (:Source)-[c:CLAIMS]->(:Agent {id: 'quarry-sql'}) DELETE c",
        "claims",
        "quarry-sql is claimed by no source",
    ),
    (
        "MATCH (s:Source)-[c:CLAIMS]->(a:Agent {id: 'quarry-sql'}) CREATE (s)-[:CLAIMS {key: 'k', hash: 'h'}]->(a)",
        "claims",
        "claims quarry-sql 2 times",
    ),
    (
        "MATCH (t:Tool {id: 'harbor-git/list_commits'}) SET t.call_name = 'quarry-sql__run_query'",
        "call names",
        "2 tools",
    ),
    (
        "MATCH (a:Agent {id: 'harbor-git'}) MATCH (b:Agent {id: 'quarry-sql'}) "
        "CREATE (a)-[:FOLLOWED_BY {before: '', count: 1.0, last_at: 'once'}]->(b)",
        "transitions",
        "harbor-git → quarry-sql",
    ),
    ("MATCH (:Setting)-[of:OF]->(:Agent) DELETE of", "subjects", "12 edges of changes and settings for 13"),
    (
        "MATCH (c:Change {agent_id: 'quarry-sql'})-[:OF]->(a:Agent) CREATE (c)-[:OF]->(a)",
        "subjects",
        "14 edges of changes and settings for 13",
    ),
    ("MATCH (s:Setting {id: 'harbor-git'}) SET s.removed = true", "removed agents", "harbor-git"),
    ("MATCH (t:Tool {id: '" + TOOL + "'}) SET t.embedding = null", "vectors", f"{TOOL} has none"),
    ("MATCH (t:Tool {id: '" + TOOL + "'}) SET t.embedding = [0.6, 0.8]", "vectors", f"{TOOL} has 2 numbers"),
    ("MATCH (t:Tool {id: '" + TOOL + "'}) SET t.vector_key = 'x'", "vector keys", TOOL),
    ("MATCH (a:Agent {id: 'quarry-sql'}) SET a.vector_key = ''", "vector keys", "quarry-sql"),
    ("MATCH (r:Registry) SET r.texts = 'plain'", "vector keys", "harbor-git/create_branch"),
    ("MATCH (r:Registry) SET r.embedder = ''", "vectors", "no embedder is recorded"),
    ("MATCH (r:Registry) SET r.revision = 1", "live graph", "graph is at revision 1"),
]


@pytest.mark.parametrize(("statement", "check", "named"), GRAPH_FAULTS)
def test_a_changed_graph(look: Look, path: Path, statement: str, check: str, named: str) -> None:
    """A record that was changed, lost or doubled behind the registry's back is named by the check made for it."""
    tamper(path, statement)
    findings = look(deep=True)
    assert check in faults(findings)
    assert named in findings[check].detail


def test_a_vector_of_another_length(look: Look, path: Path) -> None:
    """Cosines are dot products: a vector that is not of length 1 would win or lose for no reason."""
    engine = GrafeoEngine.open(path)
    [row] = engine.run(parse("t", _reading_vector()))
    doubled = [2 * number for number in row["embedding"]]
    engine.run(
        parse(
            "t",
            f"// T.\n// params: v list<float>\n// returns: none\nMATCH (t:Tool {{id: '{TOOL}'}}) SET t.embedding = $v",
        ),
        v=doubled,
    )
    engine.close()
    findings = look(deep=True)
    assert findings["vectors"].detail == f"{TOOL} is of length 2"
    assert TOOL in findings["index vectors"].detail


def _reading_vector() -> str:
    return (
        "// T.\n// params: none\n// returns: embedding list<float>\n"
        f"MATCH (t:Tool {{id: '{TOOL}'}}) RETURN t.embedding AS embedding"
    )


def test_a_graph_that_is_no_registry_any_more(look: Look, path: Path) -> None:
    tamper(path, "MATCH (r:Registry) DETACH DELETE r")
    assert "live graph" in faults(look(deep=True))


def change_each(table: str, change: Callable[[bytes], bytes]) -> Callable[[IndexFile], None]:
    """Writes bodies anew, sealed as a writer seals them."""
    return lambda file: file.put(table, [(key, change(body)) for key, body in file.scan(table)])


def change_source(file: IndexFile) -> None:
    count = file.header().parts["sources"]
    file.put("part", [(f"sources {count}", encode([]))])


def change_state(file: IndexFile) -> None:
    header = file.header()
    file.put_header(replace(header, state=replace(header.state, tools=header.state.tools + 1)))


def longer_texts(file: IndexFile) -> None:
    blocks = file.columns(file.header())
    for number, block in enumerate(blocks):
        numbers = block.numbers.copy()
        numbers["length"] += 1
        file.put("columns", [(number, block._replace(numbers=numbers).pack())])


def other_vectors(file: IndexFile) -> None:
    """As a writer writes them."""
    header = file.header()
    for number, block in enumerate([*file.columns(header)]):
        numbers = block.numbers.copy()
        rows = np.flatnonzero(numbers["check"])
        vectors = file.vectors(rows, numbers["check"][rows], header.state.dimension) * np.float32(-1)
        numbers["check"][rows] = file.put_vectors(dict(zip(rows.tolist(), vectors, strict=True)))
        file.put("columns", [(number, block._replace(numbers=numbers).pack())])


@pytest.mark.parametrize(
    ("damage", "check"),
    [
        (change_state, "index state"),
        (longer_texts, "index rows"),
        (change_each("record", lambda body: body.replace(b"SQL", b"sql")), "index records"),
        (other_vectors, "index vectors"),
        (change_each("posting", lambda body: body * 2), "index words"),
        (change_source, "index sources"),
    ],
)
def test_an_index_that_differs_from_the_graph(
    look: Look, path: Path, damage: Callable[[IndexFile], None], check: str
) -> None:
    """Each part is compared with what the graph gives now; the advice mends it."""
    with closing(open_to_write(current(path))) as file:
        damage(file)
    findings = look(deep=True)
    assert check in faults(findings)
    assert str(folder_of(path)) in findings[check].advice
    shutil.rmtree(folder_of(path))
    assert faults(look(deep=True)) == set()


@pytest.mark.parametrize(
    ("text", "is_told"), [("查询某个城市的天气预报", True), ("Tells the weather of a city", False)]
)
def test_texts_that_the_model_does_not_read_are_told(text: str, is_told: bool, tmp_path: Path) -> None:
    """It is no fault: words find them still. The way out is a model of more languages."""
    settings, place = Settings(cache_dir=str(tmp_path / "cache")), tmp_path / "r.grafeo"
    agents = [{"id": "weather", "name": text, "tools": [{"name": "look", "description": text}]}]
    (tmp_path / "agents.json").write_text(json.dumps({"waygraph": 1, "agents": agents}))
    with Registry.open(place, embedder="minilm", settings=settings, environ={}) as registry:
        for manifest in read_path(str(tmp_path / "agents.json"), settings):
            sync(registry, manifest)
    (finding,) = (each for each in examine_at(place, settings=settings, environ={}) if each.check == "embedder")
    assert finding.ok
    assert ("does not know the script" in finding.detail) is is_told
    assert ("waygraph --embedder multilingual reindex" in finding.advice) is is_told
