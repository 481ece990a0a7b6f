"""Requests for tools that nobody asked for yet, and tools that do the opposite. Pure, given the random source.

What people want they seldom say in a tool's words: they name what is wrong, missing or too much, or take an everyday
verb. A tool of the same thing and another verb is what a request is most often mistaken for.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from random import Random

from waygraph.registry.index.analyser import CAMEL
from waygraph.registry.model.changes import AgentEntry
from waygraph.registry.model.nouns import Agent, Tool
from waygraph_lab.template_questions import ASKS, SYNONYMS, bare_sentence, imperative, verb_and_thing

WAYS: Mapping[str, tuple[str, ...]] = {
    "get": ("what do we know about {}", "pull up {}", "{} slipped my mind", "I have to see {}", "tell me {}"),
    "list": ("what {} do we have", "I lost track of {}", "everything about {}, one by one", "how many {} are there"),
    "search": ("where can {} be found", "hunt down {}", "I am after {}", "does anybody have {}"),
    "create": ("there is no {} so far", "{} is missing", "we could do with {}", "set up {}", "begin with {}"),
    "update": ("{} is out of date", "there is a mistake in {}", "{} should be different", "put {} right", "adjust {}"),
    "delete": ("{} has to go", "we are done with {}", "take {} away", "nobody wants {} any longer", "throw {} out"),
    "send": ("they should hear about {}", "pass {} on", "hand {} over", "let the others have {}"),
    "check": ("something is odd about {}", "can we rely on {}", "make sure of {}", "does {} hold up"),
    "convert": ("I need it as {}", "put this into the form of {}", "it should become {}"),
    "run": ("get {} going", "let {} do its work", "kick off {}", "it is time for {}"),
}
"""How people say, mostly without its verb, that they want a tool of such a verb; `{}` is what it is about."""
OTHER_WAYS = ("help me with {}", "I need {}", "what about {}", "I have a problem with {}")
ASIDES = ("{}", "please: {}", "{}, can you see to it?", "could you help? {}", "{}, in {agent}", "{} ({agent})")
JOINS = ("{}, then {}", "first {}, after that {}", "{}. And {}", "{}; once that is done, {}")
LEAST_AGENTS = 3
"""In whose tools two verbs stand before the same thing, for these to be contrasts."""
_WORD = re.compile(r"[^\W_]+")
_OF_CLASS: Mapping[str, tuple[str, ...]] = {
    verb: (verb, *(word for word, of in SYNONYMS.items() if of == verb)) for verb in ASKS
}


def write_requests(agent: Agent, tool: Tool, count: int, random: Random) -> list[str]:
    """At most `count` distinct ones, drawn of all that its name and first sentence give."""
    lines = list(dict.fromkeys(_lines(agent, tool)))
    chosen = random.sample(lines, min(count, len(lines)))
    return [_aside(line, agent, random) for line in chosen]


def _lines(agent: Agent, tool: Tool) -> Iterator[str]:
    verb, thing = verb_and_thing(tool.name)
    of_class, sentence = SYNONYMS.get(verb, verb), imperative(bare_sentence(tool.description))
    first, _, rest = sentence.partition(" ")
    things = [thing or agent.name]
    is_of_verb = SYNONYMS.get(first, first) == of_class
    if is_of_verb and rest:
        things.append(rest)
    for each in things:
        yield from (way.format(each) for way in (*WAYS.get(of_class, OTHER_WAYS), *ASKS.get(of_class, ())))
        yield from (f"{word} {each}" for word in _OF_CLASS.get(of_class, (verb,)))
    if sentence:
        yield sentence
        yield f"I would like to {sentence}" if rest else sentence


def _aside(line: str, agent: Agent, random: Random) -> str:
    return random.choice(ASIDES).replace("{agent}", agent.name).replace("{}", line)


def join_requests(first: str, second: str, random: Random) -> str:
    """One request for two things, in this order."""
    before, between, after = random.choice(JOINS).split("{}")
    return f"{before}{first}{between}{second}{after}"


Contrasts = Mapping[str, Sequence[str]]
"""Verb → verbs of another meaning that tools have of the same thing, the usual ones more than once."""


def find_contrasts(entries: Iterable[AgentEntry]) -> Contrasts:
    """Which first words of tools' names take each other's place before the same words, in `LEAST_AGENTS` or more."""
    counts: Counter[tuple[str, str]] = Counter()
    for entry in entries:
        by_thing: dict[str, set[str]] = {}
        for tool in entry.tools:
            verb, thing = _split(tool.name)
            by_thing.setdefault(thing.removesuffix("s"), set()).add(verb)
        counts.update({(one, other) for verbs in by_thing.values() for one in verbs for other in verbs})
    found: dict[str, list[str]] = {}
    for (one, other), count in sorted(counts.items()):
        if count >= LEAST_AGENTS and SYNONYMS.get(one, one) != SYNONYMS.get(other, other):
            found.setdefault(one, []).extend([other] * count)
    return found


def contrast_tool(tool: Tool, contrasts: Contrasts, random: Random) -> Tool | None:
    """The tool with another verb in its name and first sentence; None where these do not begin with a known verb."""
    verb, thing = _split(tool.name)
    first, _, rest = imperative(bare_sentence(tool.description)).partition(" ")
    if verb not in contrasts or not rest or (first not in contrasts and first not in SYNONYMS):
        return None
    other = random.choice(contrasts[verb])
    return replace(tool, name=f"{other}_{thing.replace(' ', '_')}", description=f"{other.capitalize()} {rest}.")


def _split(name: str) -> tuple[str, str]:
    """`getUserById` → `get`, `user by id`."""
    verb, *words = [word.lower() for word in _WORD.findall(CAMEL.sub(" ", name))] or [""]
    return verb, " ".join(words)
