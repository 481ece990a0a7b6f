"""What a call needs that another tool of the same agent gives: the id of what it works on.

An argument such as `taskId` names what it is the id of. A tool gives it whose output says so, or that lists, finds or
makes just that. Of such pairs of public servers 96 % are right (evals/call_needs).
"""

import re
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from waygraph.registry.index.analyser import terms
from waygraph.registry.index.call_graph import fold_name, given_names
from waygraph.registry.model.nouns import Tool
from waygraph.registry.model.parameters import parameters_of_text

_GIVES = tuple(terms("list search find query lookup browse get fetch read retrieve create add start open"))
"""Verbs of tools that give ids; the first are asked rather."""
_ANY = frozenset(terms("next all recent latest current available new top popular trending"))
_PREPOSITIONS = frozenset(terms("by for in of from with to"))
"""Behind them a name says of what, or by what."""
_ID = re.compile(r"(?:(?<=\w)[_-](?i:id|uuid|guid)|(?<=[a-z])(?:Id|ID|Uuid|UUID|Guid))s?$")
_ID_NAMES = re.compile(r'"([^"]*(?:[_-](?i:id|uuid|guid)|[a-z](?:Id|ID|Uuid|UUID|Guid))s?)"')
"""In the text of a schema."""


class Need(NamedTuple):
    """A required argument, and the tool that gives it."""

    argument: str
    tool: Tool


class Givers:
    """Tools of one agent, by what they give."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        names = {each.id: terms(each.name) for each in tools}
        firsts = {words[0] for words in names.values() if words}
        prefix = len(firsts) == 1 < len(names)  # all begin with the name of the server
        self._names = {tool_id: words[prefix:] for tool_id, words in names.items()}
        self._by_word: dict[str, list[Tool]] = defaultdict(list)
        """By the last word of what a name says, and by each name in an output, folded."""
        for each in tools:
            for word in {*_things_of(self._names[each.id])[-1:], *map(_fold, given_names(each.output_schema))}:
                self._by_word[word].append(each)

    def need_of(self, tool: Tool) -> Need | None:
        """Return the first id that a call of the tool requires and one of these gives; None: there is none."""
        # Most need nothing that one of these gives, which is seen sooner than a schema is read.
        if not any(each.id != tool.id for name in _ID_NAMES.findall(tool.input_schema) for each in self._near(name)):
            return None
        subject = frozenset(terms(tool.name))
        for argument in required_ids(tool):
            noun = terms(_ID.sub("", argument))
            ranks = [
                (rank, each.name, each)
                for each in self._near(argument)
                if each.id != tool.id and (rank := _rank(each, self._names[each.id], argument, noun, subject))
            ]
            if ranks:
                return Need(argument, min(ranks, key=lambda each: each[:2])[2])
        return None

    def _near(self, argument: str) -> list[Tool]:
        """Those that may give it."""
        noun = terms(_ID.sub("", argument))
        return [*self._by_word.get(noun[-1], ()), *self._by_word.get(_fold(argument), ())] if noun else []


def required_ids(tool: Tool) -> list[str]:
    """Arguments that are the id of something that they name."""
    return [name for name in sorted(parameters_of_text(tool.input_schema).required) if _ID.search(name)]


def _rank(
    giver: Tool, words: Sequence[str], argument: str, noun: Sequence[str], subject: frozenset[str]
) -> tuple[int, ...]:
    """How far a tool is from giving the argument, the nearest lowest; empty: it does not give it.

    `words`: of its name. `subject`: words of the tool that requires it; the giver's name says nothing narrower.
    """
    ids = required_ids(giver)
    if _fold(argument) in map(_fold, ids) or "id" in parameters_of_text(giver.input_schema).required:
        return ()
    if _fold(argument) in map(_fold, given_names(giver.output_schema)):
        return (0, len(ids))
    things = _things_of(words)
    extra = set(things).difference(noun)
    if things[-len(noun) :] != list(noun) or not extra <= subject:
        return ()
    return (1, len(ids), len(extra), next(_GIVES.index(word) for word in words if word in _GIVES))


def _things_of(words: Sequence[str]) -> list[str]:
    """What a tool gives by the words of its name, up to a preposition; empty: it has no verb that gives."""
    end = next((at for at, word in enumerate(words) if word in _PREPOSITIONS), len(words))
    gives = any(word in _GIVES for word in words)
    return [word for word in words[:end] if gives and word not in _GIVES and word not in _ANY]


def _fold(name: str) -> str:
    """`taskIds` and `task_id` are one argument."""
    return fold_name(name).removesuffix("s")
