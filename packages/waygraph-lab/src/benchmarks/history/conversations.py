"""The next call of conversations: what the product ranks first, beside rankings by text and by counts."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from itertools import chain, groupby
from statistics import fmean
from typing import Any

from benchmarks.history.answers import FOLDS, TRIED, Found, find, recover
from benchmarks.history.next_calls import (
    METHODS,
    Decision,
    Learnt,
    Level,
    Method,
    Rankings,
    judge,
    owner,
    shuffle_names,
)
from benchmarks.world import World, show_progress
from waygraph.registry.model.nouns import Turn
from waygraph.registry.model.transitions import count_transitions
from waygraph.registry.operators.transition_counts import forget_transitions, learn_transitions
from waygraph.registry.routing.recipes import HYBRID, Recipe
from waygraph.registry.storage.local_registry import LocalRegistry
from waygraph_lab.evaluation.dataset import SEED, Dataset, Question

MOST, MOST_TRIED, QUICK = 1_500, 300, 20
"""Decisions of a part, drawn by the dataset's own seed; `MOST_TRIED` where shares are chosen."""
TYPED, LEFT_OUT = HYBRID.name, "hybrid, shares chosen on the other families"
CALLS_ALONE = f"{TYPED}, calls alone"
"""As a gateway knows a session: no words of anybody."""
FOLLOWING = f"{TYPED}, transitions learnt"
LEARNT_AT = "2026-11-24T00:00:00+00:00"
SHUFFLED = ", names shuffled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What is judged: a split of a set. Counts are learnt on `learnt`, another set, or on the set's own train split, or
    where it has none on the other folds."""

    label: str
    data: str
    split: str = ""
    learnt: str = ""

    @property
    def family(self) -> str:
        """What is chosen on one part is never reported on its kin."""
        return self.data.partition("-")[0]

    def fold(self, group: str) -> int:
        """By a hash of the group, where the set itself is learnt from and has no train split."""
        return 0 if self.learnt or self.split else int(sha256(group.encode()).hexdigest(), 16) % FOLDS

    def sequences(self, world: World, dataset: Dataset) -> list[list[list[str]]]:
        """The calls of each conversation that is learnt from, by the fold that is judged."""
        talks = conversations(read_whole(world, self.learnt) if self.learnt else dataset)
        if not (self.learnt or self.split):
            return [[calls for last, calls in talks if self.fold(last.group) != fold] for fold in range(FOLDS)]
        return [[calls for last, calls in talks if last.split == "train"]]


PARTS = (
    Part(label="sgd-train", data="sgd-train", split="test"),
    Part(label="sgd-dev", data="sgd-dev"),
    Part(label="sgd-dev, unseen services", data="sgd-dev", split="test-unseen", learnt="sgd-train"),
    Part(label="traject-dev", data="traject-dev", split="test"),
    Part(label="api-bank", data="api-bank", split="test"),
)


def read_whole(world: World, name: str) -> Dataset:
    return replace(world, quick=False).dataset(f"trajectories/{name}")


def conversations(dataset: Dataset) -> list[tuple[Question, list[str]]]:
    """The last decision of each, and all its calls."""
    grouped = groupby(dataset.questions, key=lambda question: question.id.rpartition(".")[0])
    lasts = [list(questions)[-1] for _, questions in grouped]
    return [(last, [*calls_of(last.need.history), right_tool(last)]) for last in lasts]


def calls_of(history: Iterable[Turn]) -> list[str]:
    return [turn.tool for turn in history if turn.role == "call"]


def right_tool(question: Question) -> str:
    return next(iter(question.need.gold_tools[0]))


def choose_shares(world: World) -> dict[str, Recipe]:
    """Family → what is best of `TRIED` on the other families, by first agents and first tools that are right."""
    worths: dict[str, list[list[float]]] = {}
    for part in PARTS:
        if not part.learnt:
            dataset = read_whole(world, part.data)
            questions = draw(dataset, part, QUICK if world.quick else MOST_TRIED)
            with world.registry_of([dataset.catalogue], texts="contextual") as registry:
                right = [fmean(count_right(registry, question, recipe) for question in questions) for recipe in TRIED]
            worths.setdefault(part.family, []).append(right)
    means = {family: [fmean(column) for column in zip(*of, strict=True)] for family, of in worths.items()}
    return {family: TRIED[best_elsewhere(means, family)] for family in means}


def best_elsewhere(worths: Mapping[str, Sequence[float]], family: str) -> int:
    """The place of the highest sum over the other families."""
    sums = [sum(column) for column in zip(*(of for name, of in worths.items() if name != family), strict=True)]
    return sums.index(max(sums))


def count_right(registry: LocalRegistry, question: Question, recipe: Recipe) -> int:
    """Of the first agent and the first tool."""
    found, tool = find(registry, question.need.text, question.need.history, recipe=recipe), right_tool(question)
    return (next(iter(found["agents"]), "") == owner(tool)) + (next(iter(found["tools"]), "") == tool)


def draw(dataset: Dataset, part: Part, most: int) -> list[Question]:
    drawn = dataset.draw(most, split=part.split).questions
    return [question for question in drawn if part.split in ("", question.split)]


def measure_part(world: World, part: Part, chosen: Recipe) -> dict[str, Any]:
    """`chosen`: the recipe whose shares were chosen on the other families."""
    dataset = read_whole(world, part.data)
    sequences = part.sequences(world, dataset)
    learnt = [Learnt.of(each) for each in sequences]
    shuffled = [Learnt.of(shuffle_names(each, SEED)) for each in sequences]
    questions = draw(dataset, part, QUICK if world.quick else MOST)
    recipes = {TYPED: HYBRID, LEFT_OUT: chosen}
    typed: dict[str, dict[str, Found]] = {name: {} for name in (*recipes, CALLS_ALONE)}
    decisions: list[Decision] = []
    progress = show_progress(part.label)
    with world.registry_of([dataset.catalogue], texts="contextual") as registry:
        for done, question in enumerate(questions, start=1):
            need = question.need
            decisions.append(decide(registry, part, question))
            for name, recipe in recipes.items():
                typed[name][question.id] = find(registry, need.text, need.history, recipe=recipe)
            calls = tuple(turn for turn in need.history if turn.role == "call")
            typed[CALLS_ALONE][question.id] = find(registry, need.text, calls)
            progress(done, len(questions))
        family = family_of if part.family == "sgd" else None
        kin = kin_of(dataset) if family else {}
        needs = [(question.need, kin.get(tool := right_tool(question), {tool})) for question in questions]
        recovery = recover(registry, needs)
        following = find_learnt(registry, part, questions, sequences)
        misled = find_learnt(registry, part, questions, [shuffle_names(each, SEED) for each in sequences])
    typed |= {FOLLOWING: following, f"{FOLLOWING}{SHUFFLED}": misled}
    ranked: dict[str, Rankings] = {
        **{method.name: partial(rank_by, method, learnt) for method in METHODS},
        **{name: partial(_rank_found, found) for name, found in typed.items()},
        **{f"{each.name}{SHUFFLED}": partial(rank_by, each, shuffled) for each in METHODS if each.is_blended_counts},
    }
    rows = [{"method": name} | judge(decisions, rankings, family) for name, rankings in ranked.items()]
    found = {"part": part.label, "decisions": len(decisions), "chosen": chosen.name}
    return found | {"rows": rows, "recovery": recovery}


def find_learnt(
    registry: LocalRegistry, part: Part, questions: Iterable[Question], sequences: Sequence[Sequence[Sequence[str]]]
) -> dict[str, Found]:
    """By the transitions of the conversations that are learnt from, of each fold its own."""
    found: dict[str, Found] = {}
    for fold, calls in enumerate(sequences):
        learn(registry, calls)
        for question in questions:
            if part.fold(question.group) == fold:
                found[question.id] = find(registry, question.need.text, question.need.history)
    learn(registry, ())
    return found


def learn(registry: LocalRegistry, sequences: Iterable[Sequence[str]]) -> None:
    """In place of what was learnt before."""
    counts = count_transitions(sequences, LEARNT_AT)
    registry.change(forget_transitions)
    registry.change(lambda session: learn_transitions(session, counts))


def decide(registry: LocalRegistry, part: Part, question: Question) -> Decision:
    need = question.need
    said = [turn.text for turn in need.history if turn.role != "call"]
    alone = find(registry, need.text)
    return Decision(
        id=question.id,
        fold=part.fold(question.group),
        tool=right_tool(question),
        calls=tuple(calls_of(need.history)),
        alone=alone,
        joined=find(registry, "\n".join([*said[-1:], need.text])) if said else alone,
    )


def _rank_found(found: Mapping[str, Found], decision: Decision, level: Level) -> list[str]:
    return list(found[decision.id][level])


def rank_by(method: Method, learnt: Sequence[Learnt], decision: Decision, level: Level) -> list[str]:
    return method.rank(decision, learnt[decision.fold], level)


def family_of(agent: str) -> str:
    """Of SGD's services Flights_1 and Flights_2."""
    return agent.rpartition("-")[0]


def kin_of(dataset: Dataset) -> dict[str, set[str]]:
    """Tool → those of the same name in services of the same family, itself too."""
    named: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for tool in chain.from_iterable(entry.tools for entry in dataset.catalogue.entries):
        named[family_of(tool.agent_id), tool.name].add(tool.id)
    return {tool: kin for kin in named.values() for tool in kin}
