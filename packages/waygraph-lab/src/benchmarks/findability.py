"""What the advice of `waygraph lint` is worth: the tenth of a catalogue that wins least is mended by it, mechanically.

It is judged by requests of people and of models, which the advice never saw.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import StatisticsError, correlation, fmean
from typing import Any

from benchmarks.record import Measure, Result
from benchmarks.world import NATURAL, World, show_progress
from waygraph.registry.catalog.searchable import Searchable
from waygraph_lab.evaluation.compare import markdown_table
from waygraph_lab.evaluation.dataset import Asked, By
from waygraph_lab.evaluation.findability import Findability, Request, described, measure, requests_for
from waygraph_lab.evaluation.metrics import interval

NAME = "findability"
SETS: Sequence[tuple[str, By]] = (
    ("livemcpbench", "steps"),
    (NATURAL, "questions"),
    ("training/toolalpaca", "questions"),
    ("training/toollinkos", "questions"),
)
SHARE, MOST = 0.1, 500
"""Of the tools, and questions of a data set."""
NOTES = (
    "Own: each tool is judged by requests made of its own texts. Given: by every second request of the data set for "
    "it, of tools that have two or more. The tenth that wins the smallest share gets the sentence that `waygraph lint` "
    "advises, and nothing else; all other tools stay.",
    "Unseen: requests of the data set for these tools that the advice never saw. One is won if a right tool comes "
    "first: of equally right tools any one. Gain: with its 95 % bootstrap interval.",
    "All: every unseen request, whoever its tool is, so what mended tools take from others counts against them.",
    "Predicts: how a tool's share by what it is judged by goes with its share of unseen requests (Pearson).",
    "Of eight forms of the sentence by own texts and four by given requests the one was chosen that did best on "
    "livemcpbench, training/toolalpaca and training/toollinkos, so their gains are those of the best of some. "
    "natural_requests had no part in it. To mend descriptions that say nothing before those that win little took "
    "requests away from training/toolalpaca, and is not done.",
)


def run(world: World) -> Result:
    """Skips the data sets that are not there."""
    rows = [
        row(world, name, by, is_given=is_given) for name, by in SETS if world.has(name) for is_given in (False, True)
    ]
    return Result(
        name=NAME,
        embedder=world.embedder().fingerprint,
        measures=[
            Measure(name=f"{each['data']}, by {each['judged by']}: unseen won {when}", value=each[f"unseen {when}"])
            for each in rows
            for when in ("before", "after")
            if each["unseen"]
        ],
        notes=NOTES,
        details={"rows": rows},
    )


def row(world: World, name: str, by: By, *, is_given: bool) -> dict[str, Any]:
    dataset = world.dataset(name).draw(MOST)
    given, unseen = _halves(dict.fromkeys(_requests(dataset.queries(by))), is_given=is_given)
    with world.registry_of([dataset.catalogue], texts="contextual") as registry:
        owners = {_owner(each) for each in unseen}
        tools = [tool for tool in registry.tools() if not is_given or tool.id in owners]
        requests = requests_for(registry, tools, given)
        found = measure(registry, requests, show_progress(name))
        worst = found[: max(1, round(len(found) * SHARE))]
        ids = {each.tool_id for each in worst}
        before = [_is_won(registry, each) for each in unseen]
        with described(registry, {each.tool_id: each.mended for each in worst if each.sentence}) as mended:
            judged_after = measure(mended, {tool_id: requests[tool_id] for tool_id in ids})
            after = [_is_won(mended, each) for each in unseen]
    of_worst = [place for place, request in enumerate(unseen) if not request.right.isdisjoint(ids)]
    gains = [float(after[place]) - before[place] for place in of_worst]
    shares = {
        "judged before": _share(worst),
        "judged after": _share(judged_after),
        "unseen before": fmean(before[place] for place in of_worst) if of_worst else None,
        "unseen after": fmean(after[place] for place in of_worst) if of_worst else None,
        "all before": fmean(before),
        "all after": fmean(after),
        "predicts": _correlation(found, unseen, before),
    }
    return {
        "data": name,
        "judged by": "given" if is_given else "own",
        "tools": len(found),
        "mended": len(worst),
        "unseen": len(of_worst),
        **{key: None if value is None else round(value, 4) for key, value in shares.items()},
        "gain": [round(value, 4) for value in (fmean(gains), *interval(gains))] if gains else None,
    }


def _halves(requests: Iterable[Request], *, is_given: bool) -> tuple[list[Request], list[Request]]:
    """Those that the advice sees, every second of each tool, and those that it never sees."""
    by_owner: dict[str, list[Request]] = {}
    for each in requests:
        by_owner.setdefault(_owner(each), []).append(each)
    groups = by_owner.values()
    given = [each for group in groups for each in group[::2]] if is_given else []
    return given, [each for group in groups for each in group[is_given :: 1 + is_given]]


def _owner(request: Request) -> str:
    """Of equally right tools the one that counts as the request's."""
    return min(request.right)


def _requests(asked: Iterable[Asked]) -> Iterator[Request]:
    return (Request(text=query.texts[0], right=right) for query in asked for right in query.gold_tools)


def _is_won(registry: Searchable, request: Request) -> bool:
    matches = registry.find_tools(request.text, limit=1).matches
    return bool(matches) and matches[0].tool.id in request.right


def _share(found: Sequence[Findability]) -> float:
    return sum(each.first for each in found) / sum(each.requests for each in found)


def _correlation(found: Sequence[Findability], unseen: Sequence[Request], won: Sequence[bool]) -> float | None:
    """Pearson's, over the tools that are asked for. None: all have one share."""
    wins: dict[str, list[bool]] = {}
    for request, is_won in zip(unseen, won, strict=True):
        for tool_id in request.right:
            wins.setdefault(tool_id, []).append(is_won)
    pairs = [(each.first / each.requests, fmean(wins[each.tool_id])) for each in found if each.tool_id in wins]
    try:
        return correlation(*zip(*pairs, strict=True))
    except StatisticsError:
        return None


def tables_of(details: Mapping[str, Any]) -> str:
    gain = "{:+.3f} [{:+.3f}, {:+.3f}]".format
    rows = [[*list(each.values())[:-1], gain(*each["gain"]) if each["gain"] else ""] for each in details["rows"]]
    return f"Tools that win least, mended by lint:\n\n{markdown_table(tuple(details['rows'][0]), rows)}"
