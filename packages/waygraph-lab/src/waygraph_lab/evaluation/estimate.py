"""What an evaluation would cost, before any model is asked: calls and tokens, by a walk that is perfect."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from waygraph.registry.catalog.tool_formats import definition
from waygraph.registry.language_model.endpoint import Completion, model_in
from waygraph.registry.model.nouns import Tool, Walked
from waygraph.registry.routing.answering import SYSTEM as SPLIT
from waygraph.registry.routing.recipes import Recipe, Walk
from waygraph.registry.taxonomy.prompts import BRIEF_CHARS, Service
from waygraph.registry.taxonomy.tree import Taxonomy
from waygraph.registry.taxonomy.walk import walk
from waygraph_lab.evaluation.dataset import Asked

if TYPE_CHECKING:
    from waygraph.registry.language_model.endpoint import ChatModel
    from waygraph_lab.evaluation.agents import AgentTrial

CHARS_PER_TOKEN = 4
SYSTEM_TOKENS = 150
"""Of what an agent or a judge is told to do, with the list of meta tools."""
CANDIDATE_CHARS, ROLE_CHARS, NUMBER_TOKENS = 1_000, 1_000, 2
"""Of what a reranker reads, at most: each candidate, and what it is to do. Of what it answers: each number."""
HOW = (
    "A walk is counted as a perfect model makes it, which opens only what holds a right answer: a real one opens more. "
    "most_calls: what the limit of a walk allows. A reranker is counted with the longest texts. A token is four "
    "characters, or one ideograph. Not counted: histories, what a model thinks, and vectors of an endpoint."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CostEstimate:
    """Of one trial. `kept`: queries that a former run answered, which cost nothing."""

    name: str
    by: str
    queries: int
    kept: int
    calls: int = 0
    most_calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0


_FIRST_IDEOGRAPH = "\u2e80"


def count_tokens(text: str) -> int:
    """Of walks over A2X's publicMCP .3 % more than o200k_base has, over its Chinese version 4 % more."""
    ideographs = sum(char >= _FIRST_IDEOGRAPH for char in text)
    return ideographs + -(-(len(text) - ideographs) // CHARS_PER_TOKEN)


@dataclass(frozen=True, kw_only=True)
class PerfectModel:
    """Answers a walk's questions as if it knew what is right. `below`: the ids that each category or service stands
    for. Not a ChatModel, but for what a walk asks of one.
    """

    below: Mapping[str, Sequence[tuple[str, frozenset[str]]]]
    """Name → description and ids, of all that bear it."""
    right: frozenset[str]
    count: Callable[[str], int]
    model: str = "perfect"

    def complete(self, messages: Sequence[Mapping[str, Any]], **_: object) -> Completion:
        rows = json.loads(messages[1]["content"])["choices"]
        chosen = [number for number, row in enumerate(rows, start=1) if self._is_right(row)]
        answer = json.dumps({"numbers": chosen})
        prompt = sum(self.count(message["content"]) for message in messages)
        return Completion(message={"content": answer}, prompt_tokens=prompt, completion_tokens=self.count(answer))

    def _is_right(self, row: Mapping[str, Any]) -> bool:
        """A row may tell less of a description than there is."""
        name, shown = row.get("name", ""), row.get("description", "")
        return any(
            not self.right.isdisjoint(ids) for description, ids in self.below[name] if description.startswith(shown)
        )


def perfect_walks(
    taxonomy: Taxonomy,
    services: Iterable[Service],
    count: Callable[[str], int] = count_tokens,
    stage: Walk = Walk(),  # noqa: B008 - frozen
) -> Callable[[str, Iterable[str]], Walked]:
    """A request and what is right for it → the walk of the product, as a perfect model makes it."""
    by_id = {each.id: each for each in services}
    below: dict[str, list[tuple[str, frozenset[str]]]] = defaultdict(list)
    for category in taxonomy.categories.values():
        below[category.name].append((category.description, frozenset(taxonomy.below(category))))
    for service in by_id.values():
        below[service.name[:BRIEF_CHARS]].append((service.description, frozenset([service.id])))

    def make_walk(text: str, right: Iterable[str]) -> Walked:
        model = PerfectModel(below=below, right=frozenset(right), count=count)
        chat = cast("ChatModel", model)
        return walk(text, taxonomy, lambda ids: [by_id[each] for each in ids], chat, stage.mode, merge=stage.merge)

    return make_walk


def estimate_steps(recipe: Recipe, asked: Sequence[Asked]) -> tuple[int, int, int]:
    """Calls, prompt tokens and completion tokens of the model that splits requests; a request is split once for its
    agents and once for its tools.
    """
    if not recipe.steps_by:
        return 0, 0, 0
    calls = [0 if len(query.texts) > 1 else 1 + bool(query.gold_tools and recipe.ranks_tools) for query in asked]
    texts = [count_tokens(query.texts[0]) for query in asked]
    prompt = sum(n * (count_tokens(SPLIT) + text) for n, text in zip(calls, texts, strict=True))
    return sum(calls), prompt, sum(n * 2 * text for n, text in zip(calls, texts, strict=True))


AGENT_TURNS = 3
"""Of a perfect model: it searches for all that it needs, calls it all, and answers."""
CALL_TOKENS, ANSWER_TOKENS, RESULT_TOKENS = 40, 200, 300
"""Of a call, of a last answer, and of what a tool answers."""


def estimate_agents(trial: "AgentTrial", tasks: Sequence[Asked], tools: Sequence[Tool]) -> CostEstimate:
    """Of a model that searches once for each right tool, calls it once, and answers. A search is taken to find tools
    of mean length: in its answer, and bound from then on; on the surface `react` each turn holds all tools. What a walk
    or a reranker asks for is not in it.
    """
    mean = sum(count_tokens(json.dumps(definition(tool, "openai"))) for tool in tools) // max(1, len(tools))
    prompt = completion = 0
    for task in tasks:
        needs, text = len(task.gold_tools), SYSTEM_TOKENS + count_tokens("\n".join(task.texts))
        found = needs * trial.limit * mean
        offered = AGENT_TURNS * len(tools) * mean if trial.surface == "react" else 2 * 2 * found
        prompt += AGENT_TURNS * text + offered + needs * (2 * CALL_TOKENS + RESULT_TOKENS)
        completion += 2 * needs * CALL_TOKENS + ANSWER_TOKENS
        prompt += (text + ANSWER_TOKENS + needs * (CALL_TOKENS + RESULT_TOKENS)) if trial.judge else 0
    judged = len(tasks) if trial.judge else 0
    return CostEstimate(
        name=f"{trial.model}, {trial.recipe.name}",
        by="questions",
        queries=len(tasks) * trial.runs,
        kept=0,
        calls=trial.runs * (AGENT_TURNS * len(tasks) + judged),
        most_calls=trial.runs * (trial.turns * len(tasks) + judged),
        prompt_tokens=trial.runs * prompt,
        completion_tokens=trial.runs * (completion + judged * CALL_TOKENS),
    )


def estimate_rerank(recipe: Recipe, asked: Sequence[Asked]) -> tuple[int, int, int]:
    """Calls, prompt tokens and completion tokens; none for a reranker that is here."""
    if not recipe.rerank or not model_in(recipe.rerank.spec):
        return 0, 0, 0
    depth = recipe.rerank.depth
    shown = ROLE_CHARS + depth * CANDIDATE_CHARS
    calls = [
        len(query.texts) if len(query.texts) > 1 else 1 + bool(query.gold_tools and recipe.ranks_tools)
        for query in asked
    ]
    chars = sum(n * (shown + sum(map(len, query.texts))) for n, query in zip(calls, asked, strict=True))
    return sum(calls), chars // CHARS_PER_TOKEN, sum(calls) * depth * NUMBER_TOKENS
