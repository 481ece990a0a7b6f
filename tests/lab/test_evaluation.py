"""Trials, records and their differences, over a real registry of the examples."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from waygraph.registry.catalog.searchable import Searchable
from waygraph.registry.model.nouns import Query, Route, Turn
from waygraph.registry.model.settings import Settings
from waygraph.registry.routing.recipes import LEXICAL, PAPER, RECIPES, TOOLS, Recipe
from waygraph_lab.datasets.read_dataset import read_dataset
from waygraph_lab.datasets.trials import Bench
from waygraph_lab.evaluation.compare import differences
from waygraph_lab.evaluation.dataset import Dataset, Need, Question
from waygraph_lab.evaluation.metrics import measure_query
from waygraph_lab.evaluation.record import Record, read_record, record_of, summary_of, write_record
from waygraph_lab.evaluation.run import Grid, NotReranked, Outcome, Trial, by_recipe

REQUESTS = Path(__file__).parents[2] / "examples" / "requests"


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    return read_dataset(REQUESTS, Settings())


def outcomes(dataset: Dataset, *trials: Trial) -> list[Outcome]:
    return list(Bench(settings=Settings(), environ={}).outcomes(dataset, trials))


@pytest.fixture(scope="module")
def lexical(dataset: Dataset) -> Outcome:
    return outcomes(dataset, Trial(recipe=LEXICAL, texts="contextual", embedder="none"))[0]


@pytest.fixture(scope="module")
def record(dataset: Dataset, lexical: Outcome) -> Record:
    return record_of(dataset, [lexical], {"command": "a test"})


def test_every_query_is_judged_by_what_the_registry_answers(dataset: Dataset, lexical: Outcome) -> None:
    """Rankings, votes and metrics of each query, in the dataset's order; means over all of them, withheld ones too."""
    asked = dataset.queries("questions")
    assert [judgement.id for judgement in lexical.judgements] == [query.id for query in asked]
    for judgement, query in zip(lexical.judgements, asked, strict=True):
        assert judgement.agent_metrics == measure_query(judgement.agents, query.gold)
        assert judgement.votes.keys() == set(judgement.agents)
    mean = lexical.agents["Recall@5"]
    assert mean.value == pytest.approx(sum(j.agent_metrics["Recall@5"] for j in lexical.judgements) / len(asked))
    assert mean.low < mean.value < mean.high
    assert 0.5 < mean.value < 1
    assert 0.3 < lexical.tools["Recall@5"].value < 1


def test_steps_are_asked_alone_or_united() -> None:
    whole = read_dataset(REQUESTS, Settings())
    first, second = whole.questions[0].need, whole.questions[2].need
    both = Need(text="both", gold=(*first.gold, *second.gold))
    dataset = replace(whole, questions=(Question(id="q", need=both, steps=(first, second)),))
    trial = Trial(recipe=LEXICAL, texts="contextual", embedder="none")
    alone, united = outcomes(dataset, replace(trial, by="steps"), replace(trial, by="united"))
    assert [judgement.id for judgement in alone.judgements] == ["q.1", "q.2"]
    (judgement,) = united.judgements
    assert set(judgement.agents[:2]) == {judged.agents[0] for judged in alone.judgements}
    assert judgement.tools == ()


def test_a_query_is_asked_with_the_turns_before_it() -> None:
    whole = read_dataset(REQUESTS, Settings())
    turns = (Turn(role="assistant", text="which one?"), Turn(role="call", tool="a/b"))
    need = replace(whole.questions[0].need, history=turns)
    seen: list[tuple[Turn, ...]] = []

    def routing(registry: Searchable, query: Query, recipe: Recipe) -> Route:
        seen.append(query.history)
        return by_recipe(registry, replace(query, history=()), recipe)

    trial = Trial(recipe=LEXICAL, texts="contextual", embedder="none", routing=routing)
    outcomes(replace(whole, questions=(Question(id="q", need=need),)), trial)
    assert set(seen) == {turns}


def test_a_grid_holds_every_combination() -> None:
    """Recipes, weights, k and depth; a recipe made for other texts is left out; labels tell them apart."""
    grid = Grid(recipes=[PAPER, TOOLS], weights=[(1, 1), (1.5, 1)], ks=[10, 60], texts=["plain", "contextual"])
    trials = grid.trials()
    assert len(trials) == 2 * 2 + 2 * 2 * 2
    assert len({trial.name for trial in trials}) == len(trials)
    assert {trial.texts for trial in trials if trial.recipe.name == "paper"} == {"plain"}
    one = next(trial for trial in trials if trial.name == "paper (1.5, 1) k=10 plain")
    assert (one.recipe.agent_weight, {use.k for use in one.recipe.legs}) == (1.5, {10})


def test_a_record_comes_back_as_it_was_written(record: Record, tmp_path: Path) -> None:
    write_record(record, tmp_path / "sub" / "a.json")
    assert read_record(tmp_path / "sub" / "a.json") == json.loads(json.dumps(record))
    summary = summary_of(record)
    assert "queries" not in summary["outcomes"][0]
    assert summary["outcomes"][0]["agents"] == record["outcomes"][0]["agents"]


def worse(record: Record, query: str) -> dict[str, Any]:
    """The same, but that nothing was found for one query."""
    copied: dict[str, Any] = json.loads(json.dumps(record))
    found = next(each for each in copied["outcomes"][0]["queries"] if each["id"] == query)
    found |= {"agents": [], "votes": {}}
    return copied


def test_an_outcome_with_a_failure_is_no_figure_of_a_benchmark(lexical: Outcome) -> None:
    assert lexical.refuse_failures() is lexical
    first, *others = lexical.judgements
    failed = replace(lexical, judgements=(replace(first, failure="it is dead"), *others))
    with pytest.raises(NotReranked, match="it is dead"):
        failed.refuse_failures()


def test_differences_tell_what_was_won_and_lost(record: Record) -> None:
    """One lost query is the whole difference; the other way round it is won; a record and itself differ in nothing."""
    answered = next(q for q in record["outcomes"][0]["queries"] if q["agents"] and q["agents"][0] in q["gold"][0])
    (lost,) = differences(record, worse(record, answered["id"]), "Recall@5")
    (changed,) = lost.changed
    assert (lost.wins, lost.losses, changed.id, changed.other.agents) == (0, 1, answered["id"], ())
    assert changed.one.votes[answered["agents"][0]]
    assert lost.one - lost.other == pytest.approx(changed.one.value / lost.queries)
    (won,) = differences(worse(record, answered["id"]), record, "Recall@5")
    assert (won.wins, won.losses, won.p) == (1, 0, 1.0)
    (none,) = differences(record, record, "Recall@5")
    assert (none.changed, none.p) == ((), 1.0)


def test_every_recipe_can_be_tried(dataset: Dataset) -> None:
    """With the default model, each over the texts that it was made for."""
    tried = outcomes(dataset, *Grid(recipes=[recipe for recipe in RECIPES.values() if not recipe.walk]).trials())
    assert {outcome.trial.name for outcome in tried} == set(RECIPES) - {"taxonomy"}
    by_name = {outcome.trial.name: outcome.agents["nDCG@5"].value for outcome in tried}
    assert by_name["hybrid"] > by_name["lexical"]
