"""What `waygraph learn embedder` learns from, and how it chooses a strength: without torch."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random

import pytest

from waygraph.registry.embedding import open_embedder
from waygraph.registry.embedding.texts import TextForms
from waygraph.registry.model.changes import AgentEntry
from waygraph.registry.model.nouns import Agent, Tool
from waygraph.registry.model.settings import DEFAULT_EMBEDDER, Settings
from waygraph_lab.datasets.read_dataset import read_dataset
from waygraph_lab.evaluation.dataset import Dataset
from waygraph_lab.training.embedder_training import Judged, Pair, Training, choose_strength, make_pairs, mean_gain
from waygraph_lab.training.made_up_requests import contrast_tool, find_contrasts, write_requests

DESCRIPTIONS = {"create": "Creates {} of the project.", "delete": "Deletes {} of the project."}
RANDOM = Random(1)  # noqa: S311 - no secret
THINGS = ("ticket", "wiki page", "release", "label")


def folder_of(place: Path, queries: Sequence[Mapping[str, object]]) -> Path:
    """Four agents, each of whose tools create and delete its thing."""
    agents = [
        {
            "id": thing.partition(" ")[0],
            "tools": [
                {"name": f"{verb}_{thing.replace(' ', '_')}", "description": text.format(f"a {thing}")}
                for verb, text in DESCRIPTIONS.items()
            ],
        }
        for thing in THINGS
    ]
    place.mkdir(exist_ok=True)
    for name, records in (("agents", agents), ("queries", queries)):
        (place / f"{name}.jsonl").write_text("\n".join(map(json.dumps, records)))
    (place / "dataset.json").write_text(json.dumps({"name": place.name}))
    return place


def tool_named(name: str, description: str = "") -> Tool:
    return Tool(id=f"shop/{name}", agent_id="shop", name=name, description=description)


def entries_of(dataset: Dataset) -> Sequence[AgentEntry]:
    return dataset.catalogue.entries


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    right = [["wiki/delete_wiki_page"], ["ticket/create_ticket"]]
    asked = {"id": "one", "text": "drop that page, then file it as a ticket", "gold": [["wiki"]], "gold_tools": right}
    return read_dataset(folder_of(tmp_path / "asked", [asked]), Settings())


def pairs_of(dataset: Dataset, settings: Settings, training: Training) -> list[Pair]:
    embedder = open_embedder(DEFAULT_EMBEDDER, settings, {})
    assert embedder is not None
    return make_pairs([dataset], embedder, TextForms(form="contextual", max_chars=500), training)


def test_a_pair_has_a_sibling_and_the_contrary_among_its_wrong_answers(dataset: Dataset) -> None:
    """Nothing that is right for the request is a wrong answer to it; a first need may be learned alone."""
    pairs = pairs_of(dataset, Settings(), Training())
    assert len(pairs) == 2
    (pair,) = pairs_of(dataset, Settings(), Training(first_needs=True))
    near, sibling, contrary = pair.wrongs
    assert "delete" in pair.right.casefold()
    assert "wiki" not in near
    assert "create" in sibling.casefold()
    assert "create" in contrary.casefold()
    assert pair.spared.isdisjoint(pair.wrongs)
    assert any("ticket" in text for text in pair.spared)
    (alone,) = pairs_of(dataset, Settings(), Training(first_needs=True, siblings=False))
    assert len(alone.wrongs) == 1


def test_tools_without_requests_get_some_that_take_other_words(tmp_path: Path) -> None:
    """The same for the same seed; some of them ask for two things."""
    dataset = read_dataset(folder_of(tmp_path / "unasked", []), Settings())
    training = Training(most_made_up=40)
    pairs = pairs_of(dataset, Settings(), training)
    assert pairs == pairs_of(dataset, Settings(), training)
    requests = {pair.request for pair in pairs}
    assert len(requests) > 20
    assert sum("delete" not in request.casefold() and "create" not in request.casefold() for request in requests) > 10
    both = [pair for pair in pairs if len({text for text in pair.spared if "Parameters" not in text}) > 3]
    assert both


def test_contrasts_are_of_one_thing_and_of_another_meaning(dataset: Dataset) -> None:
    contrasts = find_contrasts(entries_of(dataset))
    assert {verb: set(others) for verb, others in contrasts.items()} == {"create": {"delete"}, "delete": {"create"}}
    tool = entries_of(dataset)[0].tools[0]
    contrary = contrast_tool(tool, contrasts, RANDOM)
    assert contrary is not None
    assert (contrary.name, contrary.description) == ("delete_ticket", "Delete a ticket of the project.")
    assert contrast_tool(tool_named("ticket", "All of it"), contrasts, RANDOM) is None


@pytest.mark.parametrize(("name", "word"), [("cancelOrder", "order"), ("天气", "天气"), ("", "shop")])
def test_requests_are_made_up_for_any_name(name: str, word: str) -> None:
    requests = write_requests(Agent(id="shop", name="shop"), tool_named(name), 3, RANDOM)
    assert len(requests) == 3
    assert all(word in request for request in requests)


def judged(dataset: str, gain: float, high: float) -> Judged:
    return Judged(
        dataset=dataset,
        by="questions",
        level="agents",
        metric="nDCG@5",
        queries=10,
        base=0.5,
        tuned=0.5 + gain,
        low=-1.0,
        high=high,
    )


@pytest.mark.parametrize(
    ("gain", "high", "allowed", "strength"),
    [
        (-0.008, -0.001, 0.01, 1.0),
        (-0.008, -0.001, 0.005, 0.5),
        (-0.008, -0.001, None, 0.5),
        (-0.02, -0.001, 0.01, 0.5),
        (-0.02, 0.001, 0.01, 1.0),
    ],
)
def test_a_strength_is_chosen_by_the_mean_over_sets(
    gain: float, high: float, allowed: float | None, strength: float
) -> None:
    """What one set loses must be within what it may lose, or within chance; many rows of a set count as one."""
    strong = [judged("a", 0.06, 0.1), judged("a", 0.06, 0.1), judged("b", gain, high)]
    rows = {0.5: [judged("a", 0.01, 0.1), judged("b", 0.01, 0.1)], 1.0: strong}
    assert choose_strength(rows, {} if allowed is None else {"b": allowed}) == strength
    assert mean_gain(strong) == pytest.approx((0.06 + gain) / 2)
    assert choose_strength({1.0: [judged("a", -0.001, 0.1)]}) == 0
