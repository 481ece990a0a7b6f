"""Whether the right tool comes first, and ideas that might bring it there, chosen by leave-one-dataset-out.

An idea scores the 100 best tools of `hybrid` anew. What is reported of a dataset is the idea that is best on all the
others. `WAYGRAPH_EMBEDDER=SPEC python -m benchmarks right_tool` measures another embedder, with a record of its own.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from benchmarks.gateway.tokens import Counter, open_counter
from benchmarks.record import Measure, Result
from benchmarks.world import EXAMPLES, NATURAL, World, show_progress
from waygraph.api.mcp.results import compact
from waygraph.registry.catalog import find
from waygraph.registry.embedding.texts import first_sentence
from waygraph.registry.model.nouns import Query, ToolMatch, Vote
from waygraph_lab.evaluation.compare import markdown_table
from waygraph_lab.evaluation.dataset import By
from waygraph_lab.evaluation.metrics import Gold, hit, interval, measure_query
from waygraph_lab.template_questions import ASKS, SYNONYMS

NAME = "right_tool"
SETS: Sequence[tuple[str, By]] = (
    ("livemcpbench", "steps"),
    (NATURAL, "questions"),
    (EXAMPLES, "questions"),
    ("training/toolalpaca", "questions"),
    ("training/nestools", "questions"),
    ("training/seal", "questions"),
)
MOST = 500
"""Queries of a dataset, spread evenly over all."""
DEPTH, AGENTS = 100, 5
LIMITS = (5, 8, 10)
"""How many tools an answer of `find_tools` has."""
METRICS = ("Recall@1", "Recall@5", "nDCG@5")
NOTES = (
    "Left out: the idea and its strength with the highest mean gain of nDCG@5 on the other datasets, judged on this "
    "one. The gain is over what ships, in nDCG@5, with its 95 % bootstrap interval.",
    "First shown: of the requests with a right agent among the first five of a route, how often the first tool of the "
    "first right agent is right.",
    "Right in 5, 8, 10: how often one tool of so many in an answer of find_tools is right, and the answer's tokens.",
    "The requests of natural_requests were written before anything was measured on them.",
    "Ideas: the agent's or the words' part of the score counts more or less; the best of an agent's tools speaks for "
    "all of them; a cosine counts above the mean of the agent's other tools; the request's verb, or a verb of its "
    "kind, stands in the tool's name or first sentence; the tool takes the kinds of value that the request states.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A tool, the parts of its score by `hybrid`, and what ideas look at: all numbers that a strength multiplies.

    `own` is the tool's part, of which `words` is BM25's; `best` the highest `own` among its agent's tools. `apart`:
    its cosine above its siblings' mean. `verb`: 0 or 1. `values`: kinds of value taken less those not taken.
    """

    tool: str
    own: float
    words: float
    agent: float
    best: float
    apart: float
    verb: float
    values: float


def _whole(each: Candidate) -> float:
    return each.own + each.agent


Idea = Callable[[Candidate, float], float]
IDEAS: Mapping[str, tuple[Idea, Sequence[float]]] = {
    "as shipped": (lambda each, _: _whole(each), (1,)),
    "agent": (lambda each, by: each.own + by * each.agent, (0, 0.5, 0.75, 1.5, 2)),
    "words": (lambda each, by: _whole(each) + (by - 1) * each.words, (0.5, 0.75, 1.5)),
    "agent's best": (lambda each, by: _whole(each) + by * each.best, (0.25, 0.5, 1)),
    "apart": (lambda each, by: _whole(each) + by * each.apart, (0.1, 0.25, 0.5)),
    "verb": (lambda each, by: _whole(each) + by * each.verb, (0.02, 0.05, 0.1)),
    "values": (lambda each, by: _whole(each) + by * each.values, (0.02, 0.05, 0.1)),
}
SHIPPED = "as shipped 1"
TRIED: Mapping[str, tuple[Idea, float]] = {
    f"{name} {strength:g}": (idea, strength) for name, (idea, strengths) in IDEAS.items() for strength in strengths
}
VALUES = tuple(
    (re.compile(stated, re.IGNORECASE), re.compile(taken, re.IGNORECASE))
    for stated, taken in (
        (r"\d{4}-\d\d|\d:\d\d|(yester|to)day|tomorrow|(last|next) (week|month|year)", r"date|time|since|until"),
        (r"://|www\.", r"ur[il]|link|domain|host"),
        (r"\w\.[a-z]\w{1,3}\b|(^|\s)~?/\w", r"path|file|folder|dir"),
        (r"(?<![\w.-])\d+(\.\d+)?(?![\w-])", r"count|num|limit|amount|id\b|size|value"),
    )
)
"""Dates, addresses, files and numbers: how they look in a request, and in the schema that takes them."""
Values = Mapping[str, Sequence[float]]
"""Metric → its value for each query."""


@dataclass(frozen=True, slots=True)
class Answers:
    """Of a dataset. `shown`: whether the first tool of the first right agent of a route is right. `rights`: whether an
    answer of so many tools has a right one. `tokens`: of that answer.
    """

    shown: list[bool] = field(default_factory=list)
    rights: Mapping[int, list[float]] = field(default_factory=lambda: {limit: [] for limit in LIMITS})
    tokens: Mapping[int, list[int]] = field(default_factory=lambda: {limit: [] for limit in LIMITS})

    def means(self) -> dict[str, Any]:
        return {
            "first shown": round(fmean(self.shown), 4),
            "right in": {str(limit): round(fmean(values), 4) for limit, values in self.rights.items()},
            "tokens": {str(limit): round(fmean(values)) for limit, values in self.tokens.items()},
        }


def run(world: World) -> Result:
    """Skips the datasets that are not there."""
    counter = open_counter(world)
    answers = {name: Answers() for name, _ in SETS if world.has(name)}
    found = {name: measure(world, name, by, answers[name], counter) for name, by in SETS if name in answers}
    rows = [{**_row(name, found), **answers[name].means()} for name in found]
    tried = {idea: {name: round(fmean(values[idea]["nDCG@5"]), 4) for name, values in found.items()} for idea in TRIED}
    fingerprint = world.embedder(world.spec).fingerprint
    return Result(
        name=world.record_name(NAME, fingerprint),
        embedder=fingerprint,
        measures=[
            Measure(name=f"{row['data']}, {told}, tools: {metric}", value=row[told][metric])
            for row in rows
            for told in ("shipped", "left out")
            for metric in METRICS
        ]
        + [Measure(name=f"{row['data']}, first tool of the right agent", value=row["first shown"]) for row in rows]
        + [
            Measure(name=f"{row['data']}, one of {limit} tools is right", value=value)
            for row in rows
            for limit, value in row["right in"].items()
        ],
        notes=NOTES,
        details={"vocabulary": counter.vocabulary, "rows": rows, "tried": tried},
    )


def measure(world: World, name: str, by: By, answers: Answers, counter: Counter) -> Mapping[str, Values]:
    """By every idea. Fills `answers`."""
    dataset = world.dataset(name)
    asked = [each for each in dataset.queries(by) if each.gold_tools]
    count = min(MOST, len(asked))
    told = show_progress(name)
    judged: dict[str, list[Mapping[str, float]]] = {idea: [] for idea in TRIED}
    with world.registry_of([dataset.catalogue], texts="contextual", embedder=world.spec) as registry:
        for place in range(count):
            query = asked[place * len(asked) // count]
            found = registry.find_tools(Query(text=query.texts[0], limit=DEPTH)).matches
            for idea, metrics in _judge(list(_candidates(query.texts[0], found)), query.gold_tools):
                judged[idea].append(metrics)
            right, tools = (frozenset().union(*gold) for gold in (query.gold, query.gold_tools))
            matches = registry.route(query.texts[0], limit=AGENTS).matches
            rightful = [match for match in matches if match.agent.id in right and match.tools]
            answers.shown.extend(match.tools[0].id in tools for match in rightful[:1])
            for limit in LIMITS:
                answer = find.find(registry, find.FindAsked(query=query.texts[0], limit=limit))
                offers = [registry.tool(tool["name"]).id for tool in answer.get("tools", ())]
                answers.rights[limit].append(hit(offers, query.gold_tools, limit))
                answers.tokens[limit].append(counter.count(compact(answer)))
            told(place + 1, count)
    return {idea: {metric: [each[metric] for each in of] for metric in METRICS} for idea, of in judged.items()}


def _judge(candidates: Sequence[Candidate], gold: Gold) -> Iterator[tuple[str, Mapping[str, float]]]:
    for name, (idea, strength) in TRIED.items():
        # Equal ones stay in the order of what ships.
        ranked = sorted(candidates, key=lambda each: -idea(each, strength))
        yield name, measure_query([each.tool for each in ranked], gold)


def _candidates(text: str, found: Sequence[ToolMatch]) -> Iterator[Candidate]:
    verb = next(iter(_verbs(text)), "")
    stated = [taken for value, taken in VALUES if value.search(text)]
    parts = [{vote.leg: vote for vote in match.votes if vote.entity_id == match.tool.id} for match in found]
    cosines: dict[str, list[float]] = {}
    best: dict[str, float] = {}
    for match, own in zip(found, parts, strict=True):
        cosines.setdefault(match.agent.id, []).append(_score(own))
        best[match.agent.id] = max(best.get(match.agent.id, 0.0), _sum(own))
    for match, own in zip(found, parts, strict=True):
        yield Candidate(
            tool=match.tool.id,
            own=_sum(own),
            words=own["capability_text"].contribution if "capability_text" in own else 0.0,
            agent=match.score - _sum(own),
            best=best[match.agent.id],
            apart=_score(own) - fmean(cosines[match.agent.id]),
            verb=float(verb in _verbs(f"{match.tool.name} {first_sentence(match.tool.description)}")),
            values=float(sum(1 if taken.search(match.tool.input_schema) else -1 for taken in stated)),
        )


def _verbs(text: str) -> list[str]:
    """The first of each kind stands for it; what is not a known verb is left out."""
    words = (SYNONYMS.get(word, word) for word in re.findall(r"[a-z]+", text.lower()))
    return [word for word in words if word in ASKS]


def _score(own: Mapping[str, Vote]) -> float:
    """The cosine, 0 for one that is not among the nearest."""
    return own["capability_vector"].score if "capability_vector" in own else 0.0


def _sum(own: Mapping[str, Vote]) -> float:
    return sum(vote.contribution for vote in own.values())


def _row(name: str, found: Mapping[str, Mapping[str, Values]]) -> dict[str, Any]:
    others = [values for other, values in found.items() if other != name] or list(found.values())
    chosen = max(TRIED, key=lambda idea: fmean(fmean(values[idea]["nDCG@5"]) for values in others))
    shipped, left_out = found[name][SHIPPED], found[name][chosen]
    gains = [new - old for new, old in zip(left_out["nDCG@5"], shipped["nDCG@5"], strict=True)]
    low, high = interval(gains)
    return {
        "data": name,
        "queries": len(gains),
        "shipped": {metric: round(fmean(shipped[metric]), 4) for metric in METRICS},
        "idea": chosen,
        "left out": {metric: round(fmean(left_out[metric]), 4) for metric in METRICS},
        "gain": [round(fmean(gains), 4), round(low, 4), round(high, 4)],
    }


def tables_of(details: Mapping[str, Any]) -> str:
    gain = "{:+.3f} [{:+.3f}, {:+.3f}]".format
    head = ("data", "queries", *METRICS, "first shown", "left out: idea", *METRICS, "gain")
    rows = [
        [
            row["data"],
            row["queries"],
            *row["shipped"].values(),
            row["first shown"],
            row["idea"],
            *row["left out"].values(),
            gain(*row["gain"]),
        ]
        for row in details["rows"]
    ]
    names = [row["data"] for row in details["rows"]]
    tried = [[idea, *of.values()] for idea, of in details["tried"].items()]
    sizes = [[row["data"], *row["right in"].values(), *row["tokens"].values()] for row in details["rows"]]
    return "\n\n".join(
        (
            "The right tool, by `hybrid` and by the idea that is best on the other data:",
            markdown_table(head, rows),
            f"Right in so many tools of find_tools, and the tokens of that ({details['vocabulary']}):",
            markdown_table(("data", *map(str, LIMITS), *(f"tokens of {limit}" for limit in LIMITS)), sizes),
            "nDCG@5 of tools by every idea and strength:",
            markdown_table(("idea", *names), tried),
        )
    )
