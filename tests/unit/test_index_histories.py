"""Whatever befell a registry, its index answers as one that is built anew from the same graph.

A history is a random row of ingests, operators' changes, removals, other processes and reindexings. One process reads
from its beginning to its end and follows; another one opens a copy of the graph that has no index, and builds it.
"""

import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from operator import methodcaller
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.contributed import install, on_path
from tests.leg_hits import LegLists, legs_of
from waygraph.ingest import ingest
from waygraph.registry.index.search_index import Hits, Leg, QueryText, Scope, SearchIndex
from waygraph.registry.model.changes import IndexState, Policy
from waygraph.registry.model.nouns import Filters, Of, Principal, Query, Vote
from waygraph.registry.storage.local_registry import LocalRegistry
from waygraph.registry.taxonomy.browse import seen_taxonomy

MODULE = Path(__file__).parents[1] / "contributed" / "acme_words.py"
EMBEDDER = "acme:letters"
LEGS: tuple[Leg, ...] = get_args(Leg)
APART = 4e-6
"""Scores may differ by so much: sums of float32 are rounded in another order."""
ALL = 500
"""More than any history holds: nothing is cut off at a score that is nearly another one's."""
WORDS = ("invoice", "harbour", "pay", "paint", "zebra", "count", "boxes", "überweisen", "send", "mail")
SOURCES, KEYS, TOOLS = ("east", "west", "north"), ("anna", "bert", "cleo", "dora", "emil"), ("run", "pay_bill", "look")
TAGS, GROUPS = ("red", "blue"), ("staff", "crew")

words = st.lists(st.sampled_from(WORDS), min_size=1, max_size=5).map(" ".join)
few = st.integers(0, 9)
schemas = words.map(lambda text: {"type": "object", "properties": {name: {"type": "string"} for name in text.split()}})
tools: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"name": st.sampled_from(TOOLS), "description": words}, optional={"inputSchema": schemas}
)
agents: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "id": st.sampled_from(KEYS),
        "name": words,
        "description": words,
        "tools": st.lists(tools, max_size=3, unique_by=lambda tool: str(tool["name"])),
    },
    optional={
        "tags": st.lists(st.sampled_from(TAGS), unique=True),
        "visible_to": st.lists(st.sampled_from(GROUPS), unique=True),
        "kind": st.sampled_from(["mcp_server", "a2a_agent"]),
    },
)
ingests = st.tuples(
    st.just("ingest"),
    st.sampled_from(SOURCES),
    st.lists(agents, min_size=1, max_size=4, unique_by=lambda agent: str(agent["id"])),
    st.sampled_from([None, None, "accept", "hold", "strict"]),
)
sayings: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        "hidden": st.booleans(),
        "pinned": st.booleans(),
        "removed": st.booleans(),
        "tags": st.lists(st.sampled_from(TAGS), unique=True),
        "visible_to": st.lists(st.sampled_from(GROUPS), min_size=1, unique=True),
    },
).filter(bool)
Step = tuple[Any, ...]
later: st.SearchStrategy[list[Step]] = st.lists(
    ingests
    | ingests
    | st.tuples(st.just("set"), few, sayings)
    | st.tuples(st.just("set_tool"), few, st.none() | words)
    | st.tuples(st.sampled_from(["approve", "forget", "reopen", "taxonomy"]), few)
    | st.tuples(st.just("status"), few, st.sampled_from(["known", "online", "failing: it is ill"]))
    | st.tuples(st.just("toolset"), st.sampled_from(["kit", "box"]), st.sampled_from(TAGS), few)
    | st.tuples(st.just("reindex"), st.sampled_from(["contextual", "plain"])),
    min_size=4,
    max_size=12,
)
steps = st.tuples(ingests, later).map(lambda parts: [parts[0], *parts[1]])
CALLERS = (
    None,
    Principal(),
    Principal(id="ada", groups=("staff",)),
    Principal(id="bob", groups=("staff", "crew"), operates=True),
)
FILTERS = (
    Filters(),
    Filters(tags=("red",)),
    Filters(without_tags=("blue",), kinds=("mcp_server",)),
    Filters(agent_ids=("anna", "cleo", "emil"), without_agent_ids=("emil",)),
    Filters(reachable=True),
)
TEXTS = ("pay an invoice at the harbour", '"pay_bill" for anna', "überweisen zebra mail", "nothing of all that")


class Life:
    """A registry, who writes it, and who reads it from its beginning on."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.writer, self.reader = opened(path), opened(path)
        self.removed: set[str] = set()

    def close(self) -> None:
        self.writer.close()
        self.reader.close()

    def apply(self, step: Step) -> None:
        """What cannot be done to the registry as it is does nothing."""
        what, *values = step
        acts: Mapping[str, Callable[..., object]] = {
            "ingest": self._ingest,
            "reopen": self._reopen,
            "set": self._set,
            "set_tool": self._set_tool,
            "approve": lambda number: self._of_agent(number, self.writer.operator.approve),
            "forget": self._forget,
            "status": lambda number, text: self._of_agent(number, lambda name: self.writer.put_statuses({name: text})),
            "toolset": self._set_toolset,
            "taxonomy": self._build_taxonomy,
            "reindex": lambda texts: self.writer.reindex(texts=texts),
        }
        acts[what](*values)

    def _ingest(self, source: str, listed: list[dict[str, Any]], policy: Policy | None) -> None:
        document = {"waygraph": 1, "agents": listed}
        ingest(self.writer, document, source=source, policy=policy, allow_mass_removal=True, environ={})

    def _reopen(self, _: int) -> None:
        self.writer.close()
        self.writer = opened(self.path)

    def _of_agent(self, number: int, work: Callable[[str], object]) -> None:
        if name := chosen([agent.id for agent in self.writer.agents()], number):
            work(name)

    def _set(self, number: int, said: Mapping[str, Any]) -> None:
        if name := chosen(sorted({*(agent.id for agent in self.writer.agents()), *self.removed}), number):
            self.writer.operator.set(name, **said)
            (self.removed.add if said.get("removed") else self.removed.discard)(name)

    def _set_tool(self, number: int, text: str | None) -> None:
        if name := chosen([tool.id for tool in self.writer.tools()], number):
            self.writer.operator.set_tool(name, {"description": text})

    def _forget(self, number: int) -> None:
        if source := chosen([each.name for each in self.writer.sources()], number):
            self.writer.operator.forget(source)

    def _set_toolset(self, name: str, tag: str, number: int) -> None:
        agent = chosen([agent.id for agent in self.writer.agents()], number)
        self.writer.operator.set_toolset(name, tags=[tag], agents=[agent] if agent else [])

    def _build_taxonomy(self, number: int) -> None:
        """Of what everyone may see and an operator let in; texts of these histories raise no suspicion."""
        shown = {agent.id for agent in self.writer.agents(principal=Principal()) if not (agent.hidden or agent.pending)}
        tools = [tool for tool in self.writer.tools() if tool.agent_id in shown and not tool.pending]
        if tools:
            self.writer.build_taxonomy(of=list(Of)[number % len(Of)])


def opened(path: Path) -> LocalRegistry:
    return LocalRegistry.open(path, embedder=EMBEDDER, environ={})


def chosen(names: Sequence[str], number: int) -> str:
    return names[number % len(names)] if names else ""


@contextmanager
def built_anew(path: Path) -> Iterator[LocalRegistry]:
    """The same graph without its index; whoever opens it builds one."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy"
        shutil.copytree(path.parent, copy, ignore=shutil.ignore_patterns("*.index", "*.lock"))
        with opened(copy / path.name) as registry:
            yield registry


def assert_same_answers(live: LocalRegistry, anew: LocalRegistry) -> None:
    assert state_of(live) == state_of(anew)
    assert held(live) == held(anew)
    recipe = "hybrid" if live.status().state.texts == "contextual" else "lexical"
    for caller in CALLERS:
        for filters in FILTERS:
            for text in TEXTS:
                assert_same_hits(live, anew, text, Scope(filters=filters, principal=caller))
        toolsets = [Filters(toolset=each.name) for each in live.toolsets(principal=caller)]
        for filters in (*FILTERS[:2], *toolsets):
            for text in TEXTS:
                query = Query(text=text, filters=filters, limit=20)
                for ask in ("route", "find_tools"):
                    asked = methodcaller(ask, query, recipe=recipe, principal=caller)
                    assert_same_matches(asked(live), asked(anew))


def state_of(registry: LocalRegistry) -> IndexState:
    """Without agents there are no vectors, and a dimension says nothing."""
    state = registry.status().state
    return state if state.agents else replace(state, dimension=0)


def held(registry: LocalRegistry) -> Mapping[str, object]:
    """All that an index tells without a search."""

    def read(index: SearchIndex) -> Mapping[str, object]:
        known = list(index.agents())
        tools = [tool for name in known for tool in index.tool_ids(name)]
        return {
            "agents": dict(index.agents()),
            "pinned": list(index.pinned_agents()),
            "tools": index.tools(tools),
            "tools of": {name: list(ids) for name, ids in index.tool_ids_of(known).items()},
            "pending": list(index.pending_tools()),
            "sources": list(index.sources()),
            "settings": dict(index.settings()),
            "stated": [index.stated_tool(tool) for tool in tools],
            "called": [sorted(index.owners_called(f"{name}__run")) for name in known],
            "follows": index.transitions and index.transitions.follows(tools, None),
        }

    asked: Mapping[str, Callable[[Principal | None], object]] = {
        "seen": lambda caller: (registry.agents(principal=caller), registry.tools(principal=caller)),
        "toolsets": lambda caller: registry.toolsets(principal=caller),
        "taxonomy": lambda caller: registry.store.look(lambda index: seen_taxonomy(index, None, caller)),
    }
    seen = {(what, caller): ask(caller) for what, ask in asked.items() for caller in CALLERS}
    return {**registry.store.look(read), "seen": seen}


def assert_same_hits(live: LocalRegistry, anew: LocalRegistry, text: str, scope: Scope) -> None:
    def search(registry: LocalRegistry) -> Hits:
        vector = embedded(registry, text)
        return registry.store.look(lambda index: index.search(LEGS, vector, QueryText.of(text), ALL, scope))

    ours, fresh = search(live), search(anew)
    assert dict(ours.populations) == dict(fresh.populations)
    assert ours.similarity == pytest.approx(fresh.similarity, abs=APART)
    assert ours.coverage == pytest.approx(fresh.coverage, abs=APART)
    nothing = LegLists([], [], [])
    for leg in LEGS:  # without agents an index may know that there were vectors, or not
        assert_same_leg(legs_of(ours).get(leg, nothing), legs_of(fresh).get(leg, nothing))


def embedded(registry: LocalRegistry, text: str) -> "np.ndarray[Any, np.dtype[np.float32]] | None":
    if not registry.status().state.embedder:
        return None
    embedder = registry.open_embedder(EMBEDDER).embedder
    assert embedder is not None
    [row] = embedder.embed([text], "query")
    return row if np.any(row) else None


def assert_same_leg(ours: LegLists, fresh: LegLists) -> None:
    """The same entities with the same scores; only those may change places whose scores are nearly the same."""
    assert len(ours.entity_ids) == len(fresh.entity_ids)
    assert list(ours.scores) == pytest.approx(list(fresh.scores), abs=APART)
    assert dict(zip(ours.entity_ids, ours.owner_ids, strict=True)) == dict(
        zip(fresh.entity_ids, fresh.owner_ids, strict=True)
    )
    assert dict(zip(ours.entity_ids, ours.scores, strict=True)) == pytest.approx(
        dict(zip(fresh.entity_ids, fresh.scores, strict=True)), abs=APART
    )


def assert_same_matches(ours: Any, fresh: Any) -> None:
    """Routes of agents or of tools. Scores by rank follow the order, so both stand here to the last vote."""
    for what in ("revision", "recipe", "reason", "notices", "nearest"):
        assert getattr(ours, what) == getattr(fresh, what), what
    assert ours.confidence == pytest.approx(fresh.confidence, abs=1e-4)
    assert [match_parts(each) for each in ours.matches] == [match_parts(each) for each in fresh.matches]
    for one, other in zip(ours.matches, fresh.matches, strict=True):
        assert one.score == pytest.approx(other.score, abs=APART)
        for vote, again in zip(one.votes, other.votes, strict=True):
            assert vote[-3:] == pytest.approx(again[-3:], abs=APART), vote


def match_parts(match: Any) -> tuple[object, ...]:
    """Without its scores."""
    votes: Sequence[Vote] = match.votes
    what = match.tool if hasattr(match, "tool") else match.tools
    return match.agent, what, [vote[:4] for vote in votes]


def assert_history_is_answered(history: Sequence[Step]) -> None:
    """After each third step, and after the last one."""
    with tempfile.TemporaryDirectory() as folder:
        life = Life(Path(folder) / "life" / "r.grafeo")
        life.path.parent.mkdir()
        try:
            for number, step in enumerate(history, start=1):
                life.apply(step)
                if number % 3 == 0 or number == len(history):
                    with built_anew(life.path) as anew:
                        assert_same_answers(life.reader, anew)
        finally:
            life.close()


@pytest.fixture(scope="module")
def letters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """An embedder that counts letters, as another package brings it."""
    folder = tmp_path_factory.mktemp("plugins")
    points = {"acme": "acme_words:opened"}
    install(folder, "acme", {"acme_words": MODULE.read_text(encoding="utf-8")}, points, group="waygraph.embedders")
    with on_path(folder):
        yield


@pytest.mark.usefixtures("letters")
@given(steps)
@settings(max_examples=4)
def test_a_history_is_answered_as_an_index_made_anew(history: list[Step]) -> None:
    """Order, scores and votes, whoever asks and whatever is filtered; also all that is listed."""
    assert_history_is_answered(history)


@pytest.mark.slow
@pytest.mark.usefixtures("letters")
@given(steps)
@settings(max_examples=1_000)
def test_very_many_histories_are_answered_as_an_index_made_anew(history: list[Step]) -> None:
    assert_history_is_answered(history)
