"""The recipe `taxonomy` over a real registry: built and walked by a scripted model behind a real socket."""

import json
import runpy
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.fake_openai import FakeOpenAI
from tests.gateway_catalog import by_hand
from tests.service import served
from waygraph.api.cli.app import main
from waygraph.ingest.sources.read import read_path
from waygraph.ingest.sync.apply import sync
from waygraph.registry.language_model.answers import ModelAnswers
from waygraph.registry.language_model.endpoint import ChatModel
from waygraph.registry.model import shapes
from waygraph.registry.model.errors import InvalidSetting
from waygraph.registry.model.nouns import Filters, Mode, Of, Principal, Query, Route, Turn
from waygraph.registry.model.settings import Settings
from waygraph.registry.routing.answering import (
    NO_MODEL,
    NO_TAXONOMY,
    NOTHING_FITS,
    NOTHING_PASSES,
    NOTHING_RANKED,
    OPERATORS_FAILED,
)
from waygraph.registry.routing.recipes import recipe_named
from waygraph.registry.storage.local_registry import LocalRegistry
from waygraph.registry.taxonomy.model_build import build_by_model
from waygraph.registry.taxonomy.tree import TaxonomySettings
from waygraph_lab.evaluation.dataset import Asked
from waygraph_lab.evaluation.run import NotReranked, Trial, run

CATALOG = Path(__file__).parents[2] / "examples" / "catalog"
TEXT = "book a table for dinner and pay the bill"
WALKED = recipe_named("taxonomy", walk="openai:guide")
SMALL = TaxonomySettings(leaf_size=5, max_depth=1, delete_size=0, cross_domain=False)


def by_initial(request: Mapping[str, Any]) -> str:
    """Categories `a-m` and `n-z`; a walk opens and selects everything."""
    told = json.loads(request["messages"][1]["content"])
    if "choices" in told:
        return json.dumps({"numbers": [row["number"] for row in told["choices"]]})
    if "service" in told:
        return json.dumps({"numbers": [1 if told["service"]["name"][0].lower() < "n" else 2]})
    names = [{"name": "a-m"}, {"name": "n-z"}]
    return json.dumps({"axis": "initial", "categories": [] if "axis" in told else names})


@pytest.fixture
def fake(fake: FakeOpenAI) -> FakeOpenAI:
    fake.answer = by_initial
    return fake


def fill(registry: LocalRegistry, settings: Settings) -> None:
    for manifest in read_path(str(CATALOG), settings):
        sync(registry, manifest)


def build(registry: LocalRegistry, fake: FakeOpenAI, folder: Path, of: Of = Of.AGENTS) -> None:
    answers = ModelAnswers(ChatModel.open("guide", registry.settings, fake.environ), folder / "answers.jsonl")
    registry.build_taxonomy(partial(build_by_model, answers=answers, settings=SMALL), of=of)
    answers.close()
    fake.requests.clear()


@pytest.fixture
def registry(fake: FakeOpenAI) -> Iterator[LocalRegistry]:
    settings = Settings(embedder="none", openai_retries=0, openai_timeout_s=5.0)
    with LocalRegistry.open(":memory:", settings=settings, environ=fake.environ) as opened:
        fill(opened, settings)
        yield opened


def ids(route: Route) -> list[str]:
    return [match.agent.id for match in route.matches]


def test_hybrid_orders_what_a_walk_selects(fake: FakeOpenAI, registry: LocalRegistry, tmp_path: Path) -> None:
    """The tree that the model built is walked; the account and JSON tell it; filters leave out the rest."""
    build(registry, fake, tmp_path)
    hybrid = registry.route(Query(text=TEXT, limit=20), recipe="hybrid")

    def only_second(request: Mapping[str, Any]) -> str:
        told = json.loads(request["messages"][1]["content"])
        names = [row["name"] for row in told["choices"]]
        return json.dumps({"numbers": [2] if names == ["a-m", "n-z"] else [*range(1, len(names) + 1)]})

    fake.answer = only_second
    found = registry.route(Query(text=TEXT, limit=20), recipe=WALKED)
    assert ids(found) == [each.agent.id for each in hybrid.matches if each.agent.name[0].lower() >= "n"]
    assert 0 < len(found.matches) < len(hybrid.matches)
    walked = found.walked
    assert walked is not None
    assert (walked.calls, walked.failure, walked.visits[0].pruned) == (len(fake.requests), "", ("a-m",))
    assert shapes.route(found)["walked"]["mode"] == "get_all"
    assert (found.recipe, found.notice()) == ("lexical", hybrid.notice())
    (one,) = registry.route(
        Query(text=TEXT, limit=20, filters=Filters(agent_ids=(ids(found)[-1],))), recipe=WALKED
    ).matches
    assert one.agent.id == ids(found)[-1]
    assert f'"{found.matches[0].agent.name}"' not in fake.requests[-1]["messages"][1]["content"]


def test_each_step_is_walked_by_itself(fake: FakeOpenAI, registry: LocalRegistry, tmp_path: Path) -> None:
    """Its answer is of its own selection; the whole is the union, within one budget. What is said of one step alone is
    said of the whole too, and pinned agents stay whatever is selected.
    """
    build(registry, fake, tmp_path)
    steps = ("book a table", "look up a file in the repository", "pay the bill")
    names = {"book a table": "trencher-tables", "look up a file in the repository": "harbor-git"}
    agents = {agent.id: agent.name for agent in registry.agents()}
    registry.operator.set("petit-mortier", pinned=True)

    def by_step(request: Mapping[str, Any]) -> str:
        told = json.loads(request["messages"][1]["content"])
        wanted = agents.get(names.get(told["request"], ""), "")
        return json.dumps({"numbers": [r["number"] for r in told["choices"] if r["name"] in ("a-m", "n-z", wanted)]})

    fake.answer = by_step
    found = registry.route(Query(steps=steps, limit=9), recipe=WALKED)
    assert {json.loads(each["messages"][1]["content"])["request"] for each in fake.requests} == {*steps}
    assert [ids(step) for step in found.steps[:2]] == [["trencher-tables"], ["harbor-git"]]
    assert [step.walked.selected for step in found.steps if step.walked] == [("trencher-tables",), ("harbor-git",), ()]
    assert [step.notice("not_walked") for step in found.steps] == ["", "", f"Not walked: {NOTHING_FITS}."]
    assert found.steps[2].matches == registry.route("pay the bill", limit=9, recipe="hybrid").matches
    assert found.notice("not_walked") == f"Not walked: {NOTHING_FITS}."
    assert found.walked is not None
    assert found.walked.selected == ("trencher-tables", "harbor-git")
    assert found.walked.calls == len(fake.requests) == sum(step.walked.calls for step in found.steps if step.walked)
    assert [match.agent.id for match in found.pinned] == ["petit-mortier"]
    assert shapes.read(Route, shapes.route(found)).walked == found.walked
    few = Settings(embedder="none", openai_retries=0, walk_max_calls=found.steps[0].walked.calls)  # type: ignore[union-attr]
    with LocalRegistry.open(":memory:", settings=few, environ=fake.environ) as other:
        fill(other, few)
        build(other, fake, tmp_path)
        part = other.route(Query(steps=steps), recipe=WALKED)
        assert [bool(step.notice("not_walked")) for step in part.steps] == [False, True, True]
        assert ids(part.steps[0]) == ["trencher-tables"]
        assert part.walked is not None
        assert (part.walked.calls, len(fake.requests)) == (few.walk_max_calls, few.walk_max_calls)
        assert "needs more than" in part.walked.failure


def test_a_walk_reads_the_turns_before_where_they_count(
    fake: FakeOpenAI, registry: LocalRegistry, tmp_path: Path
) -> None:
    """Not where an operator has them not count: then hybrid's answer in its place does not read them either."""
    build(registry, fake, tmp_path)
    turns = (Turn(role="user", text="x" * 1_000), Turn(role="call", tool="harbor-git/merge", outcome="failed"))
    query = Query(text=TEXT, history=turns)
    registry.route(query, recipe=WALKED)
    last = json.loads(fake.requests[-1]["messages"][1]["content"])["history"]
    assert last == [{"user": "x" * 400}, {"call": "harbor-git/merge", "outcome": "failed"}]
    quiet = Settings(embedder="none", openai_retries=0, route_history=False)
    with LocalRegistry.open(":memory:", settings=quiet, environ=fake.environ) as other:
        fill(other, quiet)
        assert "do not count" in other.route(query, recipe=WALKED).notice()
        build(other, fake, tmp_path)
        assert "do not count" in other.route(query, recipe=WALKED).notice()
        assert "history" not in json.loads(fake.requests[-1]["messages"][1]["content"])


def test_a_model_reads_the_tools_of_an_agent_that_the_caller_may_find(
    fake: FakeOpenAI, registry: LocalRegistry, tmp_path: Path
) -> None:
    """Of an agent its tools' names, without those that wait or are outside the toolset; of a tool its agent's name."""

    def words_shown() -> dict[str, str]:
        rows = json.loads(fake.requests[-1]["messages"][1]["content"])["choices"]
        return {row["name"]: row.get("words", "") for row in rows}

    build(registry, fake, tmp_path)
    tools = registry.tools("trencher-tables")
    registry.route(TEXT, recipe=WALKED)
    name = registry.agent("trencher-tables").name
    assert words_shown()[name].split() == [tool.name for tool in tools]
    registry.operator.set_toolset("one", tools=[tools[0].id])
    registry.route(Query(text=TEXT, filters=Filters(toolset="one")), recipe=WALKED)
    assert words_shown() == {name: tools[0].name}
    build(registry, fake, tmp_path, Of.TOOLS)
    registry.find_tools(Query(text=TEXT, filters=Filters(agent_ids=("trencher-tables",))), recipe=WALKED)
    assert words_shown() == {tool.name: name for tool in tools}


def test_tools_of_what_a_walk_selects(fake: FakeOpenAI, registry: LocalRegistry, tmp_path: Path) -> None:
    """Of a taxonomy of agents their tools; of one of tools those that it selected."""
    build(registry, fake, tmp_path)
    every = registry.find_tools(TEXT, limit=20, recipe="hybrid")
    found = registry.find_tools(TEXT, limit=20, recipe=WALKED)
    assert [match.tool.id for match in found.matches] == [match.tool.id for match in every.matches]
    build(registry, fake, tmp_path, Of.TOOLS)
    wanted = every.matches[3].tool

    def only_wanted(request: Mapping[str, Any]) -> str:
        rows = json.loads(request["messages"][1]["content"])["choices"]
        chosen = [row["number"] for row in rows if row["name"] in ("a-m", "n-z", wanted.name)]
        return json.dumps({"numbers": chosen})

    fake.answer = only_wanted
    found = registry.find_tools(TEXT, limit=2, recipe=WALKED)
    assert {match.tool.name for match in found.matches} == {wanted.name}
    assert wanted.agent_id in ids(registry.route(TEXT, recipe=WALKED))


def test_nothing_is_shown_that_the_caller_may_not_see(
    fake: FakeOpenAI, registry: LocalRegistry, tmp_path: Path
) -> None:
    """Neither to the model, nor in counts, nor in the answer."""
    build(registry, fake, tmp_path)
    secret = registry.route(TEXT, recipe="hybrid").matches[0].agent
    registry.operator.set(secret.id, visible_to=["staff"])
    build(registry, fake, tmp_path)
    found = registry.route(TEXT, recipe=WALKED, principal=Principal(groups=("guests",)))
    assert secret.id not in json.dumps(shapes.route(found))
    assert secret.name not in json.dumps([request["messages"] for request in fake.requests])
    staff = registry.route(TEXT, recipe=WALKED, principal=Principal(groups=("staff",)))
    assert found.walked is not None
    assert staff.walked is not None
    assert sum(pick.shown for pick in found.walked.picks) <= sum(pick.shown for pick in staff.walked.picks)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [("No.", "guide did not answer with numbers"), ('{"numbers": []}', "it found nothing that fits")],
)
def test_a_walk_that_selects_nothing_leaves_hybrids_answer(
    fake: FakeOpenAI, registry: LocalRegistry, tmp_path: Path, answer: str, reason: str
) -> None:
    build(registry, fake, tmp_path)
    hybrid = registry.route(TEXT, recipe="hybrid")
    fake.answer = lambda _: answer
    found = registry.route(TEXT, recipe=WALKED)
    assert (found.matches, found.recipe) == (hybrid.matches, hybrid.recipe)
    assert f"Not walked: {reason}" in found.notice()
    assert found.walked is not None
    assert found.walked.calls == 1


def test_what_words_cannot_rank_leaves_hybrids_answer(
    fake: FakeOpenAI, registry: LocalRegistry, tmp_path: Path
) -> None:
    build(registry, fake, tmp_path)
    ranked = {match.agent.name for match in registry.route(Query(text=TEXT, limit=99), recipe="hybrid").matches}

    def only_unranked(request: Mapping[str, Any]) -> str:
        rows = json.loads(request["messages"][1]["content"])["choices"]
        return json.dumps({"numbers": [row["number"] for row in rows if row["name"] not in ranked]})

    fake.answer = only_unranked
    found = registry.route(TEXT, recipe=WALKED)
    assert found.matches == registry.route(TEXT, recipe="hybrid").matches
    assert NOTHING_RANKED in found.notice()


def test_an_endpoint_that_fails_leaves_hybrids_answer(
    fake: FakeOpenAI, registry: LocalRegistry, tmp_path: Path
) -> None:
    """Evaluation refuses to count it as a walk."""
    asked = [Asked(id="q", texts=(TEXT,), gold=(frozenset({"x"}),), gold_tools=())]

    build(registry, fake, tmp_path)
    fake.overloads = 99
    found = registry.find_tools(TEXT, recipe=WALKED)
    assert found.matches == registry.find_tools(TEXT, recipe="hybrid").matches
    assert "Not walked: 127.0.0.1 still answers 429" in found.notice()
    with pytest.raises(NotReranked, match="429"):
        run(registry, Trial(recipe=WALKED, texts="contextual"), asked)


def test_what_is_missing_is_said(registry: LocalRegistry, tmp_path: Path, fake: FakeOpenAI) -> None:
    """No taxonomy, no operator's model; a caller's own spec that cannot be is an error."""
    assert NO_TAXONOMY in registry.route(TEXT, recipe=WALKED).notice()
    assert NO_MODEL in registry.route(TEXT, recipe="taxonomy").notice()
    build(registry, fake, tmp_path)
    filtered = registry.route(Query(text=TEXT, filters=Filters(tags=("nowhere",))), recipe=WALKED)
    assert (filtered.notice("not_walked"), filtered.matches) == (f"Not walked: {NOTHING_PASSES}.", ())
    with pytest.raises(InvalidSetting, match="expected openai:MODEL"):
        registry.route(TEXT, recipe=recipe_named("taxonomy", walk="cross-encoder:x"))
    with pytest.raises(InvalidSetting, match="which walks"):
        recipe_named("hybrid", mode="get_one")
    with pytest.raises(InvalidSetting, match="get_important"):
        recipe_named("taxonomy", mode="get_two")
    assert fake.requests == []


def test_the_operators_model_is_named_to_nobody(
    fake: FakeOpenAI, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = Settings(embedder="none", openai_retries=0, walk="openai:pricey-guide", walk_max_calls=1)
    with LocalRegistry.open(":memory:", settings=settings, environ=fake.environ) as opened:
        fill(opened, settings)
        build(opened, fake, tmp_path)
        found = opened.route(TEXT, recipe="taxonomy")
        assert OPERATORS_FAILED in found.notice()
        assert "pricey-guide" not in json.dumps(shapes.route(found))
        assert {request["model"] for request in fake.requests} == {"pricey-guide"}
    assert "needs more than 1 calls" in caplog.text


def test_the_command_line_builds(
    fake: FakeOpenAI, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A build says what it does, and a second one asks nothing again."""
    monkeypatch.setenv("WAYGRAPH_CACHE_DIR", str(tmp_path / "cache"))
    place = str(tmp_path / "r.grafeo")
    with LocalRegistry.open(place, settings=Settings(embedder="none")) as opened:
        fill(opened, opened.settings)
        count = len(opened.agents())
    options = "--model openai:guide --leaf-size 5 --max-depth 1".split()
    words = ["--registry", place, "taxonomy", "build", *options]
    for name in fake.environ:
        monkeypatch.delenv(name, raising=False)
    assert main(words) != 0
    assert "set OPENAI_BASE_URL or OPENAI_API_KEY" in capsys.readouterr().err
    for name, value in fake.environ.items():
        monkeypatch.setenv(name, value)
    assert main([*words, "--one-parent", "--json"]) == 0
    calls = len(fake.requests)
    assert calls == count + 2
    said = capsys.readouterr()
    assert "calls" in said.err
    assert main([*words, "--one-parent", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(said.out)
    assert len(fake.requests) == calls
    # Without vectors nothing stands in the nearest leaf, so nothing is asked.
    assert main(["--registry", place, "taxonomy", "place", "--model", "openai:guide", "--json"]) == 0
    placed = json.loads(capsys.readouterr().out)
    assert main(["--registry", place, "taxonomy", "check", "--json"]) == 0
    assert placed == json.loads(capsys.readouterr().out)
    assert len(fake.requests) == calls
    with LocalRegistry.open(place) as opened:
        built = opened.operator.taxonomy()
        assert (built.built_by, built.calls) == ("openai:guide", calls)
        assert [built.categories[each].name for each in built.root.children] == ["a-m", "n-z"]
        assert all(built.categories[each].examples for each in built.root.children)


READS = (("show",), ("show", "food"), ("status",), ("check",), ("export",))


def test_only_use_and_a_new_name_change_what_is_current(
    fake: FakeOpenAI, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`build` says which one is, `place` of another one leaves it, `status` and `show` tell it; also over a service."""
    for name, value in fake.environ.items():
        monkeypatch.setenv(name, value)
    place = str(tmp_path / "r.grafeo")
    with LocalRegistry.open(place, embedder="none", environ={}) as opened:
        fill(opened, Settings())
        for tree in ("main", "tools"):
            opened.build_taxonomy(by_hand({"food": ("trencher-tables",)}), name=tree)

    def answer(*words: str) -> Any:
        assert main(["--registry", place, "taxonomy", *words, "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    def names_current() -> list[str]:
        return [each["name"] for each in answer("status") if each["current"]]

    assert names_current() == ["tools"]
    revision = answer("use", "main")["revision"]
    assert answer("use", "main")["revision"] == revision
    answer("place", "--name", "tools", "--model", "openai:guide")
    assert names_current() == ["main"]
    assert answer("show")["taxonomy"] == "main"
    assert answer("show", "--name", "tools")["taxonomy"] == "tools"
    assert main(["--registry", place, "taxonomy", "status"]) == 0
    assert "main (current)" in capsys.readouterr().out
    assert main(["--registry", place, "taxonomy", "use", "tool"]) != 0
    assert "tools" in capsys.readouterr().err
    assert main(["--registry", place, "taxonomy", "remove", "--name", "main"]) == 0
    assert "the current taxonomy: tools" in capsys.readouterr().err
    with served(place) as service:
        service.registry.build_taxonomy(by_hand({"food": ("trencher-tables",)}))
        assert main(["--registry", service.url, "taxonomy", "use", "tools"]) == 0
        assert service.registry.browse().taxonomy == "tools"
        capsys.readouterr()
        here = {words: answer(*words) for words in READS}
        place = service.url
        assert {words: answer(*words) for words in READS} == here
        assert main(["--registry", place, "taxonomy", "show", "--name", "none"]) != 0
        assert "taxonomy 'none' is not known" in capsys.readouterr().err


def test_the_command_line_walks(
    fake: FakeOpenAI, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--mode` reaches the model's instructions, `--explain` draws the walk."""
    for name, value in fake.environ.items():
        monkeypatch.setenv(name, value)
    place = str(tmp_path / "r.grafeo")
    settings = Settings(embedder="none", openai_retries=0)
    with LocalRegistry.open(place, settings=settings, environ=fake.environ) as opened:
        fill(opened, settings)
        build(opened, fake, tmp_path)
    words = ["--registry", place, "route", TEXT, "--recipe", "taxonomy", "--walk", "openai:guide", "--explain"]
    assert main([*words, "--mode", "get_one"]) == 0
    said = capsys.readouterr().out
    assert f"walk {Mode.ONE}: 2 calls" in said
    assert "all → a-m (not: n-z)" in said
    assert "single" not in said
    assert "Choose always the one category" in fake.requests[0]["messages"][0]["content"]
    assert main([*words, "--mode", "get_two"]) != 0
    assert "get_important" in capsys.readouterr().err


def test_the_example_names_agents_by_a_walk(
    fake: FakeOpenAI, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As a person starts it, over a registry in a file."""
    place = tmp_path / "team.grafeo"
    with LocalRegistry.open(place, embedder="none", environ={}) as registry:
        fill(registry, Settings())
        registry.build_taxonomy(by_hand({"food": ("trencher-tables", "petit-mortier"), "code": ("harbor-git",)}))
    for name, value in fake.environ.items():
        monkeypatch.setenv(name, value)
    script = CATALOG.parent / "agents" / "route_by_taxonomy.py"
    monkeypatch.setattr("sys.argv", [str(script), "--model", "guide", "--registry", str(place), TEXT])
    runpy.run_path(str(script), run_name="__main__")
    told = capsys.readouterr().out
    task, best, *_ = told.splitlines()
    assert (task, best.partition(":")[0].strip()) == (TEXT, "trencher-tables")
    assert "2 calls, " in told
    assert "opened: food, code" in told
