"""Ideas for the default are tried on matrices: those must say what the router says."""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.ablations.case import Case, Matrix, case_of, opened
from benchmarks.ablations.ideas import (
    BASELINE,
    IDEAS,
    acronyms,
    by_coverage,
    clauses,
    nearness,
    of_one_tool,
    words_above_the_last,
)
from benchmarks.ablations.learned import fitted
from benchmarks.ablations.run import compared, judged, tables_of
from benchmarks.ablations.worths import hybrid
from benchmarks.world import EXAMPLES, World
from waygraph.ingest.sync.apply import sync
from waygraph.registry.index.analyser import named_in
from waygraph.registry.model.settings import Settings
from waygraph.registry.registry import Registry
from waygraph.registry.routing.recipes import HYBRID


@pytest.fixture(scope="module")
def world() -> World:
    return World(settings=Settings(), environ=os.environ, data=Path("nowhere"), cache=Path("nowhere"), quick=True)


@pytest.fixture(scope="module")
def case(world: World) -> Iterator[Case]:
    """The first questions about the examples, of which none names an agent outright."""
    dataset = world.dataset(EXAMPLES)
    with opened(world, dataset) as catalogue:
        yield case_of(catalogue, dataset, "questions")


def test_the_baseline_ranks_as_the_router_does(world: World, case: Case) -> None:
    """Every agent's score is the one that `hybrid` gives it."""
    with Registry.open(":memory:", settings=world.settings, environ=world.environ) as registry:
        sync(registry, world.dataset(EXAMPLES).catalogue)
        for text, scores in zip(case.raw, hybrid(case), strict=True):
            route = registry.route(text)
            assert not any(vote.leg == "name" for match in route.matches for vote in match.votes), named_in(text)
            told = {match.agent.id: match.score for match in route.matches}
            row = {name: scores[at] for at, name in enumerate(case.catalogue.agent_ids)}
            assert told == pytest.approx({name: float(row[name]) for name in told}, abs=1e-4)
            assert max(row, key=lambda name: row[name]) == route.matches[0].agent.id


@pytest.mark.parametrize("idea", IDEAS)
def test_every_idea_scores_every_agent(case: Case, idea: str) -> None:
    """By a finite number."""
    scores = IDEAS[idea](case)
    assert scores.shape == (len(case.texts), len(case.catalogue.entries))
    assert np.isfinite(scores).all()


def test_asking_in_other_words_changes_those_queries_alone(case: Case) -> None:
    """Their vectors and their words; without `words` the vectors alone."""
    first = case.texts[0]
    other = case.asking(lambda text: "a parcel to Oslo" if text == first else text)
    assert not np.array_equal(other.vectors[0], case.vectors[0])
    assert not np.array_equal(other.agent_words[0], case.agent_words[0])
    np.testing.assert_array_equal(other.vectors[1:], case.vectors[1:])
    np.testing.assert_array_equal(other.capability_words[1:], case.capability_words[1:])
    bare = case.asking(lambda text: "a parcel to Oslo" if text == first else text, words=False)
    np.testing.assert_array_equal(bare.vectors, other.vectors)
    np.testing.assert_array_equal(bare.agent_words, case.agent_words)


def test_a_single_clause_is_the_whole(case: Case) -> None:
    """Nothing to split, nothing changed."""
    single = replace(case, texts=("parcel",) * len(case.texts))
    np.testing.assert_array_equal(clauses(single), hybrid(single))


def test_words_that_all_candidates_share_speak_for_none(case: Case) -> None:
    """All tools have the same score, more of them than are read: their words are worth nothing, agents' stay."""
    alike = replace(case, capability_words=np.ones_like(case.capability_words))
    assert alike.capability_words.shape[1] > HYBRID.depth > alike.agent_words.shape[1]
    without = hybrid(alike, worths={"capability_text": np.zeros_like(case.agent_words)})
    np.testing.assert_array_equal(words_above_the_last(alike), without)
    assert (without < hybrid(alike)).all()


def test_one_tool_gives_no_more_than_the_best_of_each_kind(case: Case) -> None:
    """Where the best tool by vector is the best by words too it gives as much, elsewhere less."""
    lost = hybrid(case) - of_one_tool(case)
    assert lost.min() > -1e-6
    assert (lost < 1e-6).any()
    assert lost.max() > 0.01


def test_words_count_by_what_they_cover(case: Case) -> None:
    """A query of which enough is found keeps its words' worth; one of which next to nothing is found loses most."""
    np.testing.assert_allclose(by_coverage(case, enough=1e-9), hybrid(case), atol=1e-6)
    bare = hybrid(case, worths={"capability_text": zeros(case), "agent_text": zeros(case)})
    np.testing.assert_allclose(by_coverage(case, enough=1e9), bare, atol=1e-6)


def zeros(case: Case) -> Matrix:
    return np.zeros_like(case.agent_words)


def test_tools_of_the_same_agent_make_no_hub() -> None:
    """Of three like tools and one apart the three are hubs, unless they are one agent's."""
    rows = np.eye(2, dtype=np.float32)[[0, 0, 0, 1]]
    like, _, _, apart = nearness(rows, 1.0)
    assert like > apart
    like, _, _, apart = nearness(rows, 1.0, np.array([0, 0, 0, 1]))
    assert like < apart


def test_initials_in_capitals_speak_for_their_agent(case: Case) -> None:
    """`TT` is too short to mean anything; three letters that are a name's initials add to its agent."""
    names = [entry.agent.name for entry in case.catalogue.entries]
    spelt = "".join(word[0] for word in "Alpha Beta Gamma".split())
    entry = replace(case.catalogue.entries[0], agent=replace(case.catalogue.entries[0].agent, name="Alpha Beta Gamma"))
    catalogue = replace(case.catalogue, entries=(entry, *case.catalogue.entries[1:]))
    asked = replace(case, catalogue=catalogue, texts=(f"ask {spelt} for help",) * len(case.texts))
    gained = acronyms(asked) - hybrid(asked)
    assert gained[:, 0] == pytest.approx(0.1, abs=1e-6)
    assert gained.sum() == pytest.approx(0.1 * len(case.texts), abs=1e-3), names


def test_learned_shares_favour_the_leg_that_is_right() -> None:
    """Of two legs, one of which always puts the right agent first, that one gets the weight."""
    drawn = np.random.default_rng(2)
    right = [0, 1, 2, 3] * 10
    telling = np.zeros((40, 4), dtype=np.float32)
    telling[np.arange(40), right] = 1
    shares = fitted(np.stack([telling, drawn.random((40, 4), dtype=np.float32)]), right)
    assert shares[0] > 1.5 * shares[1]


def test_an_idea_is_compared_query_by_query(case: Case) -> None:
    """The baseline with itself: no change, p = 1. The opposite order: a loss that is told from chance."""
    base = judged(case, hybrid(case), ["Recall@5"])
    assert compared(case, hybrid(case), base)["Recall@5"][1:] == [0.0, 1.0]
    mean, change, p = compared(case, -hybrid(case), base)["Recall@5"]
    assert change == pytest.approx(mean - sum(base["Recall@5"]) / len(case.texts), abs=1e-3)
    assert change < 0
    assert p < 0.05
    tried = [
        {"dataset": EXAMPLES, "by": "questions", "idea": idea, "metrics": {"Recall@5": told}}
        for idea, told in ((BASELINE, [0.5, 0, 1]), ("sure", [0.4, -0.1, 0.01]), ("unsure", [0.6, 0.1, 0.2]))
    ]
    shown = tables_of({"baseline": BASELINE, "tried": tried}).splitlines()
    assert shown[-3:] == ["| hybrid | 0.500 |", "| sure | **-0.100** |", "| unsure | +0.100 |"]
