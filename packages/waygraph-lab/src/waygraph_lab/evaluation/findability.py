"""How often tools win requests for them: requests made of their own texts, and given ones; what they lack, and why.

No language model is asked. A request is no text that is indexed: it asks for the thing of a tool's name, holds every
second telling word of a sentence, or names parameters. The same registry gives the same numbers.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from waygraph.registry.catalog.searchable import Searchable
from waygraph.registry.embedding.texts import SENTENCE_END, first_sentence
from waygraph.registry.index.analyser import telling_words
from waygraph.registry.model.errors import LanguageModelError
from waygraph.registry.model.nouns import Agent, Tool
from waygraph.registry.routing.recipes import DEFAULT_RECIPE, Recipe
from waygraph_lab.evaluation.asking import QueryFailed
from waygraph_lab.template_questions import ASKS, FALLBACK, SYNONYMS, parameter_words, thing_of, verb_and_thing

if TYPE_CHECKING:
    from waygraph.registry.embedding.embedder import Progress
    from waygraph.registry.storage.local_registry import LocalRegistry

TOP = 5
"""A tool among so many is offered to a model by default."""
MOST_REQUESTS = 8
_SENTENCES = 3
_EXAMPLES = 2
_HALF_WORDS = 2
"""A half of a sentence with fewer words asks for nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """`right`: ids of the tools any one of which is right. `is_own`: made of a tool's own texts, not given."""

    text: str
    right: frozenset[str]
    is_own: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Findability:
    """Of `requests` for a tool it wins `first`, and is among the first `TOP` of `top`."""

    tool_id: str
    requests: int
    first: int
    top: int
    winners: Mapping[str, int]
    """The tools that win the others, with how many of them each; those who win most come first."""
    lost: tuple[str, ...]
    """The requests that another tool wins."""
    faults: tuple[str, ...]
    """What is wrong with its description."""
    sentence: str
    """To be added to the description; empty: it wins all."""
    mended: str
    """The description with the sentence."""


def own_requests(agent: Agent, tool: Tool) -> list[Request]:
    """At most `MOST_REQUESTS`, of the tool's name, of halves of its sentences and of its parameters."""
    texts = dict.fromkeys(filter(None, _request_texts(agent, tool)))
    return [Request(text=text, right=frozenset({tool.id}), is_own=True) for text in islice(texts, MOST_REQUESTS)]


def _request_texts(agent: Agent, tool: Tool) -> Iterator[str]:
    verb, thing = verb_and_thing(tool.name)[0], thing_of(agent, tool)
    yield ASKS.get(SYNONYMS.get(verb, verb), FALLBACK)[0].format(thing)
    for sentence in filter(str.strip, SENTENCE_END.split(tool.description)[:_SENTENCES]):
        words = list(dict.fromkeys(word for _, word in telling_words(sentence)))
        yield from (" ".join(half) for half in (words[::2], words[1::2]) if len(half) >= _HALF_WORDS)
    if parameters := parameter_words(tool):
        yield f"I have the {' and '.join(parameters)}. What about {thing}?"


def requests_for(
    registry: Searchable, tools: Iterable[Tool], given: Iterable[Request] = ()
) -> dict[str, list[Request]]:
    """Tool id → those of the `given` ones that the tool is right for, or without any its own."""
    agents = {agent.id: agent for agent in registry.agents()}
    by_tool: dict[str, list[Request]] = {}
    for each in given:
        for tool_id in each.right:
            by_tool.setdefault(tool_id, []).append(each)
    return {tool.id: by_tool.get(tool.id) or own_requests(agents[tool.agent_id], tool) for tool in tools}


def measure(
    registry: Searchable,
    requests: Mapping[str, Sequence[Request]],
    progress: "Progress | None" = None,
    recipe: str | Recipe = DEFAULT_RECIPE,
) -> list[Findability]:
    """Of each tool by its requests; the least found first. `recipe`: how tools are found.

    Raises KeyError for a tool that is not there, QueryFailed if a stage of the recipe fails.
    """
    agents = {agent.id: agent for agent in registry.agents()}
    tools = {tool.id: tool for tool in registry.tools()}
    uses = Counter(_bare_description(tool) for tool in tools.values())
    found = []
    for done, (tool_id, own) in enumerate(requests.items(), start=1):
        tool = tools[tool_id]
        agent = agents[tool.agent_id]
        faults = _faults(agent, tool, is_repeated=uses[_bare_description(tool)] > 1)
        found.append(_judge(registry, agent, tool, own, tuple(faults), recipe))
        if progress:
            progress(done, len(requests))
    return sorted(found, key=lambda each: (each.first / each.requests, each.top / each.requests, each.tool_id))


def _find(registry: Searchable, request: Request, recipe: str | Recipe) -> list[str]:
    """Raises QueryFailed, with the request, if the model of a recipe fails."""
    try:
        found = registry.find_tools(request.text, limit=TOP, recipe=recipe)
    except LanguageModelError as error:
        raise QueryFailed(request.text, str(error)) from error
    return [match.tool.id for match in found.matches]


def _judge(  # noqa: PLR0917 - what it is judged by
    registry: Searchable,
    agent: Agent,
    tool: Tool,
    requests: Sequence[Request],
    faults: tuple[str, ...],
    recipe: str | Recipe,
) -> Findability:
    top, lost, winners = 0, list[Request](), Counter[str]()
    for request in requests:
        ids = _find(registry, request, recipe)
        top += not request.right.isdisjoint(ids)
        if request.right.isdisjoint(ids[:1]):
            lost.append(request)
            winners.update(ids[:1])
    given = [each.text for each in lost if not each.is_own]
    sentence, mended = advise(agent, tool, given) if lost else ("", tool.description)
    return Findability(
        tool_id=tool.id,
        requests=len(requests),
        first=len(requests) - len(lost),
        top=top,
        winners=dict(winners.most_common()),
        lost=tuple(each.text for each in lost),
        faults=faults,
        sentence=sentence,
        mended=mended,
    )


def _bare_description(tool: Tool) -> str:
    return " ".join(tool.description.split()).casefold()


def _faults(agent: Agent, tool: Tool, *, is_repeated: bool) -> Iterator[str]:
    known = {term for term, _ in telling_words(f"{agent.name} {tool.name}")}
    if not tool.description.strip():
        yield "no description"
    elif known.issuperset(term for term, _ in telling_words(tool.description)):
        yield "the description says no more than the name"
    elif is_repeated:
        yield "another tool has the same description"


def advise(agent: Agent, tool: Tool, lost: Sequence[str] = ()) -> tuple[str, str]:
    """A sentence to add, and the description with it. `lost`: given requests that another tool wins.

    The first of them come last, as examples. Without any the tool's name comes first, as a sentence; where the first
    sentence holds its words already, agent and parameters come last.
    """
    if lost:
        sentence = f"For example: {' '.join(lost[:_EXAMPLES])}"
        return sentence, f"{tool.description.rstrip()} {sentence}".strip()
    verb, thing = verb_and_thing(tool.name)
    name = f"{verb} {thing or agent.name}".removeprefix("use ")
    name = name[:1].upper() + name[1:]
    held = {term for term, _ in telling_words(first_sentence(tool.description))}
    if not held.issuperset(term for term, _ in telling_words(name)):
        return f"{name}.", f"{name}. {tool.description}".strip()
    parameters = parameter_words(tool)
    sentence = f"{name} of {agent.name}{', by ' if parameters else ''}{', '.join(parameters)}."
    return sentence, f"{tool.description.rstrip()} {sentence}"


@contextmanager
def described(registry: "LocalRegistry", descriptions: Mapping[str, str]) -> "Iterator[LocalRegistry]":
    """A copy of the registry, gone at the end, in which these tools, by id, have other descriptions.

    Raises InvalidSetting for a text that no description may be.
    """
    from waygraph.registry.storage.local_registry import LocalRegistry
    from waygraph.registry.storage.location import open_store
    from waygraph.registry.storage.migrate import migrate

    with TemporaryDirectory(prefix="waygraph-") as folder:
        place = str(Path(folder, "copy.grafeo"))
        with closing(open_store(place, registry.settings)) as store:
            migrate(registry.store, store)
        with LocalRegistry.open(place, settings=registry.settings) as copy:
            for tool_id, text in descriptions.items():
                copy.operator.set_tool(tool_id, {"description": text})
            yield copy
