"""Questions for tools from their own words, by templates: the same for the same tool, always.

The product makes none of them up: by measurement nothing is found better by them (evals/decisions.md).
"""

import re
from collections.abc import Iterator, Mapping

from waygraph.registry.embedding.texts import first_sentence
from waygraph.registry.index.analyser import CAMEL, telling_words
from waygraph.registry.model.nouns import Agent, Tool
from waygraph.registry.model.parameters import parameters_of_text

ASKS: Mapping[str, tuple[str, ...]] = {
    "get": ("What is the {}?", "Show me the {}", "Look up the {}"),
    "list": ("Which {} are there?", "Show all {}", "Give me an overview of the {}"),
    "search": ("Find {}", "I am looking for {}", "Is there any {}?"),
    "create": ("Make a new {}", "Add a {}", "I want to set up a {}"),
    "update": ("Change the {}", "Edit the {}", "The {} needs to be modified"),
    "delete": ("Remove the {}", "Get rid of the {}", "The {} is not needed any more"),
    "send": ("Send {} to someone", "Please deliver the {}", "How do I get the {} across?"),
    "check": ("Is the {} all right?", "Verify the {}", "Tell me whether the {} is valid"),
    "convert": ("Convert {}", "Transform {}", "Please convert {} for me"),
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
_NO_THING = frozenset({*ASKS, *SYNONYMS, "one", "each", "every", "another"})
FALLBACK = ("Help me with {}", "I need {}", "Who can take care of {}?")
_WORD = re.compile(r"[^\W_]+")
_THIRD_PERSON = (
    (re.compile(r"(ch|sh|ss|x|o)es$"), r"\1"),
    (re.compile(r"ies$"), "y"),
    (re.compile(r"([^aius])s$"), r"\1"),
)
_PARAMETERS = 3


class TemplateAuthor:
    """The same questions for the same tool, always; fewer than asked for where a tool says little."""

    def questions(self, agent: Agent, tool: Tool, count: int) -> tuple[str, ...]:
        """At most `count`, the most telling first."""
        lines = (" ".join(line.split()) for line in _lines(agent, tool))
        return tuple(dict.fromkeys(line for line in lines if line))[:count]


def _lines(agent: Agent, tool: Tool) -> Iterator[str]:
    """What it does by its own words, what is asked of such a verb, and by what it can be asked."""
    verb, thing = verb_and_thing(tool.name)[0], thing_of(agent, tool)
    sentence, parameters = bare_sentence(tool.description), parameter_words(tool)
    asks = ASKS.get(SYNONYMS.get(verb, verb), FALLBACK)
    if sentence:
        yield f"Can you {imperative(sentence)}?"
    yield asks[0].format(thing)
    if parameters:
        yield f"{verb.capitalize()} {thing} by {' and '.join(parameters)}"
    yield asks[1].format(thing)
    yield f"How do I {verb} {thing} with {agent.name}?"
    if sentence:
        yield f"I need something to {imperative(sentence)}"
    yield asks[2].format(thing)
    for parameter in parameters:
        yield f"I have the {parameter}. What about {thing}?"
    yield f"{agent.name}: {thing}"
    yield f"Is there a tool to {verb} {thing}?"


def verb_and_thing(name: str) -> tuple[str, str]:
    """`getUserById` → `get`, `user by id`; a name without a known verb is a thing to use."""
    words = [word.lower() for word in _WORD.findall(CAMEL.sub(" ", name))]
    at = next((at for at, word in enumerate(words) if word in ASKS or word in SYNONYMS), None)
    if at is None:
        return "use", " ".join(words)
    return words[at], " ".join(words[:at] + words[at + 1 :])


def thing_of(agent: Agent, tool: Tool) -> str:
    """What a tool is about: by its name, else the first word of its description that is neither a verb nor one of its
    parameters, else its agent.
    """
    if thing := verb_and_thing(tool.name)[1]:
        return thing
    parameters = {term for name in parameters_of_text(tool.input_schema).properties for term, _ in telling_words(name)}
    words = telling_words(bare_sentence(tool.description).partition(" ")[2])  # the first one is the verb
    others = (word for term, word in words if not ({term, word} & (parameters | _NO_THING)))
    return next((word for word in others if not word.endswith("ed")), agent.name)


def bare_sentence(description: str) -> str:
    """The first sentence without its full stop."""
    return first_sentence(description).rstrip(".!?。！？ ")


def imperative(sentence: str) -> str:
    """`Returns the weather` → `return the weather`; a sentence in capitals or another script keeps its words."""
    first, _, rest = sentence.partition(" ")
    if not first.isascii() or not first.isalpha() or first.isupper():
        return sentence
    word = first.lower()
    for ending, stem in _THIRD_PERSON:
        if ending.search(word):
            return f"{ending.sub(stem, word)} {rest}".strip()
    return f"{word} {rest}".strip()


def parameter_words(tool: Tool) -> list[str]:
    """The words of its first parameters' names, the required ones first."""
    parameters = parameters_of_text(tool.input_schema)
    names = sorted(parameters.properties, key=lambda name: name not in parameters.required)
    phrases = (" ".join(_WORD.findall(CAMEL.sub(" ", name))).lower() for name in names)
    return [words for words in phrases if words][:_PARAMETERS]
