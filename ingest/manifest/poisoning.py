"""Text that looks as if it were written for the model and against its user: rules, each with a reason.

A flag is a hint to a person, not a verdict: flagged text is shown with it, never dropped. The rules look for what
published attacks on tool descriptions do: orders (`order_rules`), smuggled characters and commands (`hidden_text`), and
tools of other servers that are named or put aside (here). Whoever knows them can write around them.
"""

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import chain

from waygraph.ingest.manifest.hidden_text import (
    encoded_text,
    hidden_characters,
    in_latin,
    quote,
    without_hidden,
)
from waygraph.ingest.manifest.order_rules import Purpose, harm, has_one, may_order, orders
from waygraph.registry.access.visibility import CALLS_ANOTHER, IN_PLACE, MAX_FLAGS, of_others
from waygraph.registry.model.nouns import NOTICE, Agent, JsonText, Tool

OwnedElsewhere = Callable[[Collection[str]], Mapping[str, Collection[str]]]
"""Of these names those that are other agents' tools, and not this one's: with the ids of these agents."""


_NAME = r"""(?: [`'"“](?P<{0}q>[\w.:/-]{{2,128}})[`'"”] | (?P<{0}c>\w+(?:[_-]\w+)+|[a-z]+(?:[A-Z][a-z0-9]+)+)
    | (?:the\s+)?(?P<{0}t>[\w-]{{2,128}})\s+tool\b | (?:the\s+)?tool\s+(?P<{0}u>[\w-]{{2,128}})\b )"""
_INSTEAD = re.compile(
    r"\b(?i:(?:instead\s+of|rather\s+than|in\s+place\s+of)\s+(?:(?:use|using|call|calling|invoking|the)\s+){0,2}"
    r"|(?:not|never)\s+(?:ever\s+)?(?:use|call|invoke)\s+(?:the\s+)?)" + _NAME.format("a"),
    re.VERBOSE,
)
_REPLACES = re.compile(
    r"\b(?i:overrides?|replaces?|supersedes?|takes?\s+precedence\s+over|disables?)\s+(?i:(?:the|any|existing|original)\s+){0,2}"
    + _NAME.format("b"),
    re.VERBOSE,
)
_CALLS = re.compile(r"\b(?i:call|invoke|run|execute|trigger)\s+(?i:the\s+)?" + _NAME.format("d"), re.VERBOSE)
_CALLING = ("call", "invoke", "run", "execute", "trigger")
_WORDS_OF_SHADOWING = (
    "instead", "rather", "in place", "not use", "not call", "not invoke", "never", "overrid", "replace", "supersede",
    "precedence", "disable", "call", "invoke", "run ", "execute ", "trigger ",
)  # fmt: skip
MAX_NAMES = 50
MAX_READ_CHARS = 100_000
"""Of one text; that one is longer is told, as nobody looked through the rest."""
_SPACES = re.compile(r"\s{2,}")


def agent_flags(agent: Agent, elsewhere: OwnedElsewhere) -> tuple[str, ...]:
    """Why an agent's name and description look suspicious: at most `MAX_FLAGS` reasons, and behind them those that tell
    of other agents, so that each such agent is in one of them. One that begins with NOTICE is no suspicion."""
    return _flags((("name", agent.name), ("description", agent.description)), Purpose(agent.name.lower()), elsewhere)


def tool_flags(tool: Tool, elsewhere: OwnedElsewhere) -> tuple[str, ...]:
    """As of an agent, and of all texts in schemas and annotations, names of properties included."""
    texts = [("name", tool.name), ("description", tool.description)]
    for where, schema in (
        ("input schema", tool.input_schema),
        ("output schema", tool.output_schema),
        ("annotations", tool.annotations),
    ):
        if "\\" in schema or _needs_a_look(schema):  # what JSON escapes is not read as it stands
            texts += [(where, text) for text in _strings(schema)]
    return _flags(texts, Purpose(tool.name.lower(), _parameters(tool.input_schema)), elsewhere)


def _parameters(schema: JsonText) -> tuple[str, ...]:
    parsed = json.loads(schema) if schema else {}
    properties = parsed.get("properties") if isinstance(parsed, dict) else None
    return tuple(name.lower() for name in properties) if isinstance(properties, dict) else ()


def _flags(texts: Collection[tuple[str, str]], purpose: Purpose, elsewhere: OwnedElsewhere) -> tuple[str, ...]:
    begun = [(where, text[:MAX_READ_CHARS]) for where, text in texts]
    looked_at = [(where, text, _readings(text)) for where, text in begun if _needs_a_look(text)]
    found = dict.fromkeys(
        f"{where}: has {len(text)} characters, of which {MAX_READ_CHARS} were looked through"
        for where, text in texts
        if len(text) > MAX_READ_CHARS
    )
    found |= dict.fromkeys(
        f"{where}: {reason}" for where, text, reads in looked_at for reason in _reasons(text, reads, purpose)
    )
    others = _of_others([(where, reads) for where, _, reads in looked_at], elsewhere)
    notices = (
        f"{NOTICE}{where}: says that it does harm ({quote(words)})" for where, text in begun if (words := harm(text))
    )
    return (*tuple(found)[:MAX_FLAGS], *others, *dict.fromkeys(notices))


def _of_others(texts: Iterable[tuple[str, Collection[str]]], elsewhere: OwnedElsewhere) -> Iterator[str]:
    """What tells of agents that nothing before told of: who reads it may see no other."""
    told: set[str] = set()
    for where, readings in texts:
        for owners, reason in chain.from_iterable(_shadowing(read, elsewhere) for read in readings):
            if not told.issuperset(owners):
                told.update(owners)
                yield f"{where}: {reason}"


def _needs_a_look(text: str) -> bool:
    """False for most texts, and for JSON as it is written, in which no rule can find anything."""
    if not text.isascii():
        return True
    small = text.lower()
    return may_order(small) or has_one(_WORDS_OF_SHADOWING, small) or any(encoded_text(text))


def _reasons(text: str, readings: Collection[str], purpose: Purpose) -> Iterator[str]:
    if not text.isascii():
        yield from hidden_characters(text)
    for read in readings:
        yield from (f"{reason} ({quote(words)})" for reason, words in orders(read, purpose))
        yield from _many_names(read)
    yield from encoded_text(text)


def _readings(text: str) -> Collection[str]:
    """The text as a model may read it, with one space or line break for several: rules look at each anew."""
    plain = _SPACES.sub(_one_space, without_hidden(text))
    return dict.fromkeys((plain, in_latin(plain)))


def _one_space(several: re.Match[str]) -> str:
    return "\n" if "\n" in several.group() else " "


# Other tools' names.


def _shadowing(text: str, elsewhere: OwnedElsewhere) -> Iterator[tuple[Collection[str], str]]:
    """The owners of another tool that the text puts itself in the place of, or has the model call; and the reason."""
    aside, called = _put_aside(text), _names_to_call(text)
    named = {**called, **aside}
    owners = elsewhere(list(named)[:MAX_NAMES]) if named else {}
    for name, words in named.items():
        if owners.get(name):
            reason = IN_PLACE if name in aside else CALLS_ANOTHER
            yield owners[name], of_others(reason, owners[name], f"{quote(name)} ({quote(words)})")


def _many_names(text: str) -> Iterator[str]:
    """A crowd of names would hide the one that is a tool's."""
    if (many := len(_put_aside(text))) > MAX_NAMES:
        yield f"puts itself in the place of {many} names"


def _put_aside(text: str) -> dict[str, str]:
    """Names that are not to be used, with the words that say so."""
    if not has_one(_WORDS_OF_SHADOWING, text.lower()):
        return {}
    instead = {_name_in(found, "a"): found.group() for found in _INSTEAD.finditer(text)}
    return instead | {_name_in(found, "b"): found.group() for found in _REPLACES.finditer(text)}


def _names_to_call(text: str) -> dict[str, str]:
    """Names that the model is to call beside this one, with the words that say so."""
    if not has_one(_CALLING, text.lower()):
        return {}
    return {_name_in(found, "d"): found.group() for found in _CALLS.finditer(text)}


def _name_in(found: re.Match[str], which: str) -> str:
    return next(name for kind in "qctu" if (name := found.group(which + kind)))


# Texts.


def _strings(schema: JsonText) -> Iterator[str]:
    """Every text in a JSON value, names included, at any depth."""
    left: list[object] = [json.loads(schema)]
    while left:
        value = left.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, Mapping):
            left += [*value.values(), *value]
        elif isinstance(value, list):
            left += value
