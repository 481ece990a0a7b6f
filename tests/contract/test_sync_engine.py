"""A sync through a whole registry: what readers see of it, what it embeds, what a rehearsal leaves alone."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.fake_openai import KEY, FakeOpenAI
from tests.faults.fleet import entry
from tests.places import PLACES, Servers, new_place
from tests.sync_graph import entry as described
from waygraph.ingest.manifest.records import Manifest
from waygraph.ingest.sources.read import read_path
from waygraph.ingest.sync import apply
from waygraph.ingest.sync.apply import sync
from waygraph.registry.index.local.file import folder_of
from waygraph.registry.index.local.graph_agreement import published_state
from waygraph.registry.model.changes import AgentEntry
from waygraph.registry.model.errors import EmbedderError, EmbedderMismatch, MassRemoval, RegistryUnusable
from waygraph.registry.model.nouns import Principal, Query
from waygraph.registry.model.settings import DEFAULT_EMBEDDER, Settings
from waygraph.registry.storage.local_registry import LocalRegistry

EXAMPLES = Path(__file__).parents[2] / "examples" / "catalog"


@pytest.fixture(params=PLACES)
def registry(request: pytest.FixtureRequest, tmp_path: Path, neo4j_servers: Servers) -> Iterator[LocalRegistry]:
    place = new_place(request.param, tmp_path, neo4j_servers)
    with LocalRegistry.open(place.location, embedder="none", settings=place.settings, environ={}) as opened:
        yield opened


def manifest(*entries: AgentEntry, source: str = "test") -> Manifest:
    return Manifest(source=source, namespace=source, entries=entries)


def found(registry: LocalRegistry) -> set[str]:
    """The agents that a search for what all of them do finds, and those that a list shows: the same."""
    ids = {agent.id for agent in registry.agents()}
    assert {tool.agent_id for tool in registry.tools()} <= ids
    routed = {match.agent.id for match in registry.route(Query(text="moors ships", limit=100)).matches}
    assert routed <= ids
    return ids


def test_what_was_written_can_be_asked_for_at_once(registry: LocalRegistry) -> None:
    """Agents, tools, sources and revision: as soon as the sync returns, and whoever had the registry open before."""
    for number in (1, 2, 3):
        report = sync(registry, manifest(entry("harbour", number, number)))
        assert report.revision == number == registry.status().state.revision
        assert found(registry) == {"harbour"}
        assert [tool.name for tool in registry.tools("harbour")] == [f"tool{n}" for n in range(number)]
        [source] = registry.sources()
        assert (source.name, source.claims) == ("test", (("harbour", "harbour"),))
        assert registry.route("harbour").revision == number


def test_an_empty_manifest_makes_an_empty_registry(registry: LocalRegistry) -> None:
    """A source without agents is a source: known once, with nothing to route to."""
    assert [sync(registry, manifest()).revision for _ in range(2)] == [1, 1]
    assert registry.agents() == []
    assert [source.name for source in registry.sources()] == ["test"]
    assert registry.route("anything").matches == ()
    assert registry.route("anything").reason


def test_a_mass_removal_is_refused_unless_it_is_meant(registry: LocalRegistry) -> None:
    """More than half of a source's agents at once: nothing changes, in a rehearsal neither; allowed, they go."""
    sync(registry, manifest(*(entry(f"agent{n}", 1, 1) for n in range(5))))
    for dry_run in (True, False):
        with pytest.raises(MassRemoval):
            sync(registry, manifest(entry("agent0", 1, 1)), dry_run=dry_run)
    assert len(found(registry)) == 5
    assert registry.status().state.revision == 1
    sync(registry, manifest(entry("agent0", 1, 1)), allow_mass_removal=True)
    assert found(registry) == {"agent0"}


def test_who_is_to_be_heard_now_is_told(registry: LocalRegistry) -> None:
    """By the source that lists a shared agent no more, and by one that is forgotten; once it was read all is well."""
    as_one_says, as_two_says = (described("a", said, transport="T") for said in ("one says", "two says"))
    without = manifest(entry("b", 1, 1), source="one")
    sync(registry, replace(without, entries=(as_one_says, *without.entries)))
    sync(registry, manifest(as_two_says, source="two"))
    assert sync(registry, without, dry_run=True).notice.endswith("again: two.")
    assert sync(registry, without).notice.endswith("again: two.")
    sync(registry, manifest(as_two_says, source="two"))
    sync(registry, manifest(as_one_says, source="three"))
    assert registry.operator.forget("two").ingest_again == ("three",)
    sync(registry, manifest(as_one_says, source="three"))
    assert registry.agent("a").description == "one says"


def test_hostile_texts_go_in_and_come_out(registry: LocalRegistry, tmp_path: Path) -> None:
    """Cypher, scripts, nulls, right-to-left, emoji, a text of a megabyte: data, all the way and back."""
    texts = [
        "'}) DETACH DELETE n //",
        "$id; MATCH (n) DELETE n",
        "<script>alert(1)</script>",
        "\x00\x1b[2J",
        "\u202eabc\u202c",
        "🚢" * 1000,
        "查询天气",
        "x" * 1_000_000,
    ]
    tools = [
        {"name": f"t{n}", "description": text, "inputSchema": {text[:50]: text[:50]}} for n, text in enumerate(texts)
    ]
    path = tmp_path / "hostile.json"
    path.write_text(json.dumps({"server": {"name": "h", "description": texts[0]}, "tools": tools}))
    [stated] = read_path(str(path), Settings())
    sync(registry, stated)
    assert [tool.description for tool in registry.tools("h")] == texts
    assert [json.loads(tool.input_schema) for tool in registry.tools("h")] == [{t[:50]: t[:50]} for t in texts]
    assert sync(registry, stated).changes.is_empty


def fingerprint(folder: Path) -> dict[str, str]:
    """Every file below and its hash, but copies of the graph and what readers share of the index."""
    below = {*folder.rglob("*")} - {*folder.rglob("graph-*/**/*")}
    files = (path for path in sorted(below) if path.is_file() and not path.name.endswith(("-shm", "-wal")))
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_a_rehearsal_changes_not_one_byte(tmp_path: Path) -> None:
    """`dry_run` tells what would happen; graph, index and lock file stay as they are."""
    with LocalRegistry.open(tmp_path / "r.grafeo", embedder="none", environ={}) as registry:
        sync(registry, manifest(entry("a", 1, 2), entry("b", 1, 2), entry("c", 1, 2)))
        before = fingerprint(tmp_path)
        report = sync(registry, manifest(entry("a", 2, 2), entry("b", 1, 2), entry("d", 1, 2)), dry_run=True)
        assert (report.dry_run, report.revision, report.texts_embedded) == (True, 1, 0)
        assert report.changes.created_agents == ("d",)
        assert report.changes.removed_agents == ("c",)
        assert [update.id for update in report.changes.updated_agents] == ["a"]
        assert fingerprint(tmp_path) == before
        assert found(registry) == {"a", "b", "c"}


def test_a_rehearsal_makes_no_registry(tmp_path: Path) -> None:
    with LocalRegistry.open(tmp_path / "r.grafeo", embedder="none", environ={}) as registry:
        report = sync(registry, manifest(entry("a", 1, 2)), dry_run=True)
        assert report.changes.created_agents == ("a",)
        assert report.revision == 0
    assert list(tmp_path.iterdir()) == []


def test_a_rehearsal_does_not_wait_for_a_writer(tmp_path: Path) -> None:
    settings = Settings(write_timeout_s=0.1)
    with LocalRegistry.open(tmp_path / "r.grafeo", embedder="none", settings=settings, environ={}) as registry:
        sync(registry, manifest(entry("a", 1, 2)))
        with registry.writing():
            assert sync(registry, manifest(entry("a", 1, 2)), dry_run=True).changes.is_empty


def test_a_lost_graph_is_not_written_over(tmp_path: Path) -> None:
    """Where the graph file is gone and its index is there, the index still answers; a sync says how to go on."""
    path = tmp_path / "r.grafeo"
    with LocalRegistry.open(path, embedder="none", environ={}) as registry:
        sync(registry, manifest(entry("a", 1, 2)))
    saved = path.rename(tmp_path / "saved.grafeo")
    with LocalRegistry.open(path, embedder="none", environ={}) as registry:
        assert found(registry) == {"a"}
        with pytest.raises(RegistryUnusable, match=f"the graph file is gone.*Put a copy back to {path}"):
            sync(registry, manifest(entry("a", 2, 2)))
    assert not path.exists()
    saved.rename(path)
    with LocalRegistry.open(path, embedder="none", environ={}) as registry:
        assert sync(registry, manifest(entry("a", 2, 2))).revision == 2


def embedding_registry(fake: FakeOpenAI, tmp_path: Path, name: str = "r.grafeo") -> LocalRegistry:
    environ = {"OPENAI_BASE_URL": fake.url, "OPENAI_API_KEY": KEY}
    cache = Settings(cache_dir=str(tmp_path / "cache"))
    return LocalRegistry.open(tmp_path / name, embedder="openai:any-model", settings=cache, environ=environ)


def asked(fake: FakeOpenAI) -> list[str]:
    """The texts sent to the endpoint since the last call, the dimension probe apart."""
    texts = [text for batch in fake.batches for text in batch]
    fake.requests.clear()
    return texts


def test_only_new_texts_reach_the_endpoint(fake: FakeOpenAI, tmp_path: Path) -> None:
    """Created and changed texts, each once, ever: not again when a tool returns, nor for another registry."""
    with embedding_registry(fake, tmp_path) as registry:
        one, two = entry("a", 1, 2), entry("a", 2, 2)
        first = sync(registry, manifest(one))
        assert first.texts_embedded == 7
        asked(fake)
        assert sync(registry, manifest(one)).texts_embedded == 0
        assert asked(fake) == []
        assert sync(registry, manifest(one, entry("b", 1, 0))).texts_embedded == 1
        assert asked(fake) == ["b: Looks after harbours, revision1"]
        assert sync(registry, manifest(two, entry("b", 1, 0))).texts_embedded == 7
        assert len(asked(fake)) == 7
        assert sync(registry, manifest(one, entry("b", 1, 0))).texts_embedded == 0
        assert asked(fake) == []
    with embedding_registry(fake, tmp_path, "other.grafeo") as registry:
        assert sync(registry, manifest(one)).texts_embedded == 0


@pytest.mark.parametrize("principal", [None, Principal(groups=("g",))])
def test_new_texts_are_embedded_before_the_lock_is_taken(
    fake: FakeOpenAI, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, principal: Principal | None
) -> None:
    """In parts. For a principal no cache is read, so that they are embedded by the write itself."""
    change, before_lock = LocalRegistry.change, list[str]()

    def note_texts(registry: LocalRegistry, *given: Any, **options: Any) -> Any:
        before_lock.extend(asked(fake))
        return change(registry, *given, **options)

    monkeypatch.setattr(apply, "BATCH_TEXTS", 3)
    monkeypatch.setattr(apply, "MOST_EMBEDDED_UNDER_LOCK", 2)
    progress: list[tuple[int, int]] = []
    with embedding_registry(fake, tmp_path) as registry:
        sync(registry, manifest(entry("b", 1, 0), source="other"))
        asked(fake)
        monkeypatch.setattr(LocalRegistry, "change", note_texts)
        report = sync(
            registry,
            manifest(entry("a", 1, 2)),
            principal=principal,
            progress=lambda done, total: progress.append((done, total)),
        )
        assert report.texts_embedded == 7
        under_lock = asked(fake)
    assert (len(before_lock), len(under_lock)) == ((0, 7) if principal else (7, 0))
    assert progress == sorted(progress)
    assert progress[-1] == (7, 7)


def test_vectors_survive_publications(fake: FakeOpenAI, tmp_path: Path) -> None:
    """Each revision's index holds the same vector for the same text, whether it was embedded now or before."""
    with embedding_registry(fake, tmp_path) as registry:
        sync(registry, manifest(entry("a", 1, 3)))
        before = registry.route("moors ship", recipe="tools").matches[0].votes[0].score
        sync(registry, manifest(entry("a", 1, 3), entry("b", 1, 1)))
        after = registry.route("moors ship", recipe="tools").matches
        assert [vote.score for match in after for vote in match.votes if match.agent.id == "a"] == [before]


def test_another_embedder_is_refused_before_anything_is_written(fake: FakeOpenAI, tmp_path: Path) -> None:
    with embedding_registry(fake, tmp_path) as registry:
        sync(registry, manifest(entry("a", 1, 1)))
    before = fingerprint(folder_of(tmp_path / "r.grafeo"))
    with pytest.raises(EmbedderMismatch, match="reindex"):
        LocalRegistry.open(tmp_path / "r.grafeo", embedder=DEFAULT_EMBEDDER, environ={})
    assert fingerprint(folder_of(tmp_path / "r.grafeo")) == before


def test_an_endpoint_that_fails_leaves_the_registry_as_it_was(fake: FakeOpenAI, tmp_path: Path) -> None:
    """An ingest whose texts cannot be embedded changes nothing; the next one succeeds."""
    with embedding_registry(fake, tmp_path) as registry:
        sync(registry, manifest(entry("a", 1, 1)))
        shown = published_state(folder_of(tmp_path / "r.grafeo"))
        fake.overloads, fake.overload_status = 100, 400
        with pytest.raises(EmbedderError, match="400"):
            sync(registry, manifest(entry("a", 2, 1)))
        assert published_state(folder_of(tmp_path / "r.grafeo")) == shown
        assert registry.status().state.revision == 1
        fake.overloads = 0
        assert sync(registry, manifest(entry("a", 2, 1))).revision == 2


def test_the_example_catalogue_goes_in_with_the_real_model(tmp_path: Path) -> None:
    """Every example is taken whole, a second time unchanged, and a request finds its agent."""
    with LocalRegistry.open(tmp_path / "r.grafeo", embedder=DEFAULT_EMBEDDER, environ={}) as registry:
        [stated] = read_path(str(EXAMPLES), Settings())
        assert not stated.rejected
        assert not stated.cut
        report = sync(registry, stated)
        assert len(report.changes.created_agents) == len(stated.entries)
        assert sync(registry, stated).changes.is_empty
        assert registry.status().state.dimension == 384
        best = registry.route("book a table for four").matches[0].agent.id
        assert best == "trencher-tables"


def test_a_clock_that_goes_back_moves_no_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The claim of the earlier revision speaks, and what a caller sees of the log begins there."""
    with LocalRegistry.open(tmp_path / "r.grafeo", embedder="none", environ={}) as registry:
        monkeypatch.setattr("waygraph.registry.model.clock.now", lambda: "2026-06-02T00:00:00.000000+00:00")
        sync(registry, manifest(entry("a", 1, 1), entry("b", 1, 1), source="first"))
        monkeypatch.setattr("waygraph.registry.model.clock.now", lambda: "2026-06-01T00:00:00.000000+00:00")
        sync(registry, manifest(entry("a", 1, 1), source="second"))
        sync(registry, manifest(entry("a", 2, 1), source="second"))
        assert "revision1" in registry.agent("a").description
        sync(registry, manifest(entry("a", 3, 1), entry("b", 3, 1), source="first"))
        assert "revision3" in registry.agent("a").description
        seen = registry.operator.changes(agent_id="b", principal=Principal()).items
        assert "changed" in {change.what for change in seen}
