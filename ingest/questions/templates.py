"""Questions without a language model: from a tool's name, description and parameters, in any domain. Pure."""

import json
import re
from collections.abc import Iterator, Mapping

from waygraph.registry.index.analyser import CAMEL
from waygraph.registry.model import Agent, Tool

ASKS: Mapping[str, tuple[str, ...]] = {
    "get": ("What is the {}?", "Show me the {}", "Look up the {}"),
    "list": ("Which {} are there?", "Show all {}", "Give me an overview of the {}"),
    "search": ("Find {}", "I am looking for {}", "Is there any {}?"),
    "create": ("Make a new {}", "Add a {}", "I want to set up a {}"),
    "update": ("Change the {}", "Edit the {}", "The {} needs to be modified"),
    "delete": ("Remove the {}", "Get rid of the {}", "The {} is not needed any more"),
    "send": ("Send {} to someone", "Please deliver the {}", "How do I get the {} across?"),
    "check": ("Is the {} all right?", "Verify the {}", "Tell me whether the {} is valid"),
    "convert": ("Turn this into {}", "Transform the {}", "How much is this as {}?"),
    "run": ("Start the {}", "Execute {}", "Carry out the {}"),
}
"""What people say who want a tool of such a verb; `{}` is the thing that the verb is about."""
SYNONYMS: Mapping[str, str] = {
    **dict.fromkeys(("fetch", "read", "retrieve", "show", "describe", "view", "load", "download"), "get"),
    **dict.fromkeys(("enumerate", "browse", "all"), "list"),
    **dict.fromkeys(("find", "query", "lookup", "discover", "filter", "match"), "search"),
    **dict.fromkeys(("add", "make", "new", "insert", "write", "generate", "build", "upload", "register"), "create"),
    **dict.fromkeys(("edit", "modify", "change", "set", "patch", "rename", "move", "replace", "put"), "update"),
    **dict.fromkeys(("remove", "drop", "clear", "cancel", "archive", "close"), "delete"),
    **dict.fromkeys(("post", "publish", "share", "reply", "notify", "forward", "email"), "send"),
    **dict.fromkeys(("validate", "verify", "test", "is", "has", "lint", "diagnose"), "check"),
    **dict.fromkeys(("translate", "transform", "parse", "render", "format", "export"), "convert"),
    **dict.fromkeys(("execute", "start", "launch", "call", "invoke", "trigger", "play"), "run"),
}
FALLBACK = ("Help me with {}", "I need {}", "Who can take care of {}?")
_WORD = re.compile(r"[^\W_]+")
_SENTENCE_END = re.compile(r"(?<=[.!?。！？])\s|\n")
_THIRD_PERSON = (
    (re.compile(r"(ch|sh|ss|x|o)es$"), r"\1"),
    (re.compile(r"ies$"), "y"),
    (re.compile(r"([^aius])s$"), r"\1"),
)
_LONGEST_SENTENCE_CHARS = 160
_PARAMETERS = 3


class TemplateAuthor:
    """The same questions for the same tool, always; fewer than asked for where a tool says little."""

    def questions(self, agent: Agent, tool: Tool, count: int) -> tuple[str, ...]:
        """At most `count`, the most telling first."""
        lines = (" ".join(line.split()) for line in _lines(agent, tool))
        return tuple(dict.fromkeys(line for line in lines if line))[:count]

    def close(self) -> None:
        """Nothing is open."""


def _lines(agent: Agent, tool: Tool) -> Iterator[str]:
    """What it does by its own words, what is asked of such a verb, and by what it can be asked."""
    verb, thing = _verb_and_thing(tool.name)
    thing = thing or agent.name
    sentence, parameters = _first_sentence(tool.description), _parameters(tool)
    asks = ASKS.get(SYNONYMS.get(verb, verb), FALLBACK)
    if sentence:
        yield f"Can you {_imperative(sentence)}?"
    yield asks[0].format(thing)
    if parameters:
        yield f"{verb.capitalize()} {thing} by {' and '.join(parameters)}"
    yield asks[1].format(thing)
    yield f"How do I {verb} {thing} with {agent.name}?"
    if sentence:
        yield f"I need something to {_imperative(sentence)}"
    yield asks[2].format(thing)
    for parameter in parameters:
        yield f"I have the {parameter}. What about {thing}?"
    yield f"{agent.name}: {thing}"
    yield f"Is there a tool to {verb} {thing}?"


def _verb_and_thing(name: str) -> tuple[str, str]:
    """`getUserById` → `get`, `user by id`; a name without a known verb is a thing to use."""
    words = [word.lower() for word in _WORD.findall(CAMEL.sub(" ", name))]
    at = next((at for at, word in enumerate(words) if word in ASKS or word in SYNONYMS), None)
    if at is None:
        return "use", " ".join(words)
    return words[at], " ".join(words[:at] + words[at + 1 :])


def _first_sentence(description: str) -> str:
    """Cut at a word where it is long; without its full stop."""
    first = _SENTENCE_END.split(description.strip(), maxsplit=1)[0]
    if len(first) > _LONGEST_SENTENCE_CHARS:
        first = first[:_LONGEST_SENTENCE_CHARS].rpartition(" ")[0] or first[:_LONGEST_SENTENCE_CHARS]
    return first.strip().rstrip(".!?。！？ ")


def _imperative(sentence: str) -> str:
    """`Returns the weather` → `return the weather`; a sentence in capitals or another script keeps its words."""
    first, _, rest = sentence.partition(" ")
    if not first.isascii() or not first.isalpha() or first.isupper():
        return sentence
    word = first.lower()
    for ending, stem in _THIRD_PERSON:
        if ending.search(word):
            return f"{ending.sub(stem, word)} {rest}".strip()
    return f"{word} {rest}".strip()


def _parameters(tool: Tool) -> list[str]:
    """The words of its first parameters' names, the required ones first."""
    try:
        schema = json.loads(tool.input_schema)
    except (ValueError, RecursionError):
        return []
    if not isinstance(schema, dict) or not isinstance(properties := schema.get("properties"), dict):
        return []
    required = schema.get("required")
    listed = required if isinstance(required, list) else []
    needed = [name for name in listed if isinstance(name, str) and name in properties]
    names = dict.fromkeys([*needed, *properties])
    told = (" ".join(_WORD.findall(CAMEL.sub(" ", name))).lower() for name in names)
    return [words for words in told if words][:_PARAMETERS]
