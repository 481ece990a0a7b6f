"""Browsing by find_tools: which tools it reaches by what its answers show alone, and what the way costs."""

import heapq
import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.record import Measure, Target
from waygraph.registry.catalog.find import FindAsked, find
from waygraph.registry.embedding.embedder import Embedder
from waygraph.registry.storage.local_registry import LocalRegistry
from waygraph.registry.taxonomy.tree import ROOT
from waygraph_lab.evaluation.dataset import Asked

INVENTED_WANTED, SEED = 60, 33
QUERY_CHARS = 300
ALL = Target(bound="at_least", value=1.0)
NOTES = (
    "Browsing: whoever knows nothing of the tree opens what an answer of find_tools lists, beginning with an empty "
    "query, and asks for the next part of it. `reachable`: the share of the wanted tools that some answer shows.",
    "`straight`: tokens of the answers on the shortest way to a wanted tool, as whoever chooses right pays; `chosen`: "
    "of a reader who opens next what is nearest to the request by the embedder, until it sees the tool, wrong ways and "
    "all. Beside them a query in the category that shows the tool, and one find_tools of all; `shown`: how often the "
    "tool is in that answer. For the invented tools the request is the tool's own description: only tokens compare.",
)


@dataclass(frozen=True)
class Wanted:
    """A request, and the call names of the tools of which one is to be found."""

    request: str
    names: frozenset[str]


@dataclass(frozen=True)
class Way:
    """To a part of a category: tokens and number of all answers down to it, and its path."""

    tokens: int
    answers: int
    path: str


@dataclass(frozen=True)
class Part:
    """An answer. `following`: the offset of the next part; 0: there is none."""

    tokens: int
    tools: frozenset[str]
    rows: Mapping[str, str]
    following: int


@dataclass(frozen=True)
class Reader:
    """Asks find_tools, and reads of its answers what they show. Each is asked for once."""

    registry: LocalRegistry
    tokens: Callable[[str], int]
    parts: dict[tuple[str, int], Part] = field(default_factory=dict)

    def read(self, path: str, offset: int) -> Part:
        if (path, offset) not in self.parts:
            text = self.ask(FindAsked(within=path, offset=offset, browses=True))
            answer = json.loads(text)
            self.parts[path, offset] = Part(
                tokens=self.tokens(text),
                tools=names_in(answer),
                rows={**answer.get("categories", {}), **answer.get("members", {})},
                following=answer.get("next_offset", 0),
            )
        return self.parts[path, offset]

    def ask(self, request: FindAsked) -> str:
        return json.dumps(find(self.registry, request), ensure_ascii=False, separators=(",", ":"))

    def ways(self) -> dict[str, Way]:
        """Call name → the way of the fewest tokens. Everything is opened."""
        found: dict[str, Way] = {}
        queue, number, opened = [(0, 0, 0, ROOT, 0)], count(1), set[tuple[str, int]]()
        while queue:
            tokens, _, answers, path, offset = heapq.heappop(queue)
            if (path, offset) in opened:
                continue
            opened.add((path, offset))
            part = self.read(path, offset)
            way = Way(tokens + part.tokens, answers + 1, path)
            found |= {name: way for name in part.tools if name not in found}
            following = [(path, part.following)] if part.following else []
            for each in (*following, *((row, 0) for row in part.rows)):
                heapq.heappush(queue, (way.tokens, next(number), way.answers, *each))
        return found


def names_in(answer: Mapping[str, Any]) -> frozenset[str]:
    return frozenset(each["name"] for each in answer.get("tools", ()))


@dataclass(frozen=True)
class Chooser:
    """Opens next what is nearest to the request by the embedder."""

    reader: Reader
    embedder: Embedder
    vectors: dict[str, NDArray[np.float32]] = field(default_factory=dict)

    def tokens_to(self, wanted: Wanted) -> int | None:
        """Of all answers until one shows the tool; None if none does."""
        request = self.embedder.embed([wanted.request[:QUERY_CHARS]], "query")[0]
        queue, number, tokens, opened = [(-1.0, 0, ROOT, 0)], count(1), 0, set[tuple[str, int]]()
        while queue:
            score, _, path, offset = heapq.heappop(queue)
            if (path, offset) in opened:
                continue
            opened.add((path, offset))
            part = self.reader.read(path, offset)
            tokens += part.tokens
            if part.tools & wanted.names:
                return tokens
            if part.following:  # what seemed the best is read on
                heapq.heappush(queue, (score, next(number), path, part.following))
            for row, vector in self._vectors_of(part.rows).items():
                heapq.heappush(queue, (-float(request @ vector), next(number), row, 0))
        return None

    def _vectors_of(self, rows: Mapping[str, str]) -> Mapping[str, NDArray[np.float32]]:
        new = {path: f"{path}: {text}" for path, text in rows.items() if path not in self.vectors}
        if new:
            self.vectors.update(zip(new, self.embedder.embed(list(new.values()), "document"), strict=True))
        return {path: self.vectors[path] for path in rows}


def wanted_by(queries: Sequence[Asked], registry: LocalRegistry) -> Iterator[Wanted]:
    """Of each query each tool that it needs, if the registry holds one that does."""
    names = {tool.id: tool.call_name for tool in registry.tools()}
    for query in queries:
        for item in query.gold_tools:
            if held := item & names.keys():
                yield Wanted(" ".join(query.texts), frozenset(names[each] for each in held))


def wanted_of_tools(registry: LocalRegistry) -> Iterator[Wanted]:
    """Some tools, each wanted by its own description."""
    tools = [tool for tool in registry.tools() if tool.description]
    for tool in random.Random(SEED).sample(tools, INVENTED_WANTED):  # noqa: S311 - no secret
        yield Wanted(tool.description, frozenset([tool.call_name]))


def browse(
    name: str, registry: LocalRegistry, tokens: Callable[[str], int], embedder: Embedder, wanted: Sequence[Wanted]
) -> dict[str, Any]:
    """Means over what is wanted and reached. Tokens of the largest answer, and of all answers that there are."""
    reader = Reader(registry, tokens)
    chooser, ways = Chooser(reader, embedder), reader.ways()
    rows: list[dict[str, float]] = []
    for each in wanted:
        way = min((ways[name] for name in each.names & ways.keys()), key=lambda way: way.tokens, default=None)
        chosen = chooser.tokens_to(each)
        if way is None or chosen is None:
            continue
        request = each.request[:QUERY_CHARS]
        within, once = (reader.ask(FindAsked(query=request, within=path)) for path in (way.path, ROOT))
        rows.append(
            {
                "answers": way.answers,
                "straight": way.tokens,
                "chosen": chosen,
                "query in it": tokens(within),
                "shown by that": not each.names.isdisjoint(names_in(json.loads(within))),
                "one find_tools": tokens(once),
                "shown at once": not each.names.isdisjoint(names_in(json.loads(once))),
            }
        )
    means = {name: round(fmean(row[name] for row in rows), 2) for name in (rows[0] if rows else ())}
    counts = {"wanted": len(wanted), "reachable": round(len(rows) / len(wanted), 4)}
    sizes = [part.tokens for part in reader.parts.values()]
    return {"tree": name, **counts, **means, "largest answer": max(sizes), "all answers": sum(sizes)}


def measures(rows: Sequence[Mapping[str, Any]]) -> Iterator[Measure]:
    for row in rows:
        of = f"browsing, {row['tree']}"
        yield Measure(name=f"{of}: wanted tools that answers show", value=row["reachable"], target=ALL)
        for way in ("straight", "chosen"):
            if way in row:
                yield Measure(name=f"{of}: the whole way, {way}", value=row[way], unit="tokens")
