"""What ranking reads of a tool beside its texts: read once, when the tool is written, and kept with its row."""

import re
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

from waygraph.registry.index.analyser import CAMEL, STOP_WORDS, terms
from waygraph.registry.model.nouns import Tool
from waygraph.registry.model.parameters import parameters_of_text

MOST_CHOICES = 50
"""Of a longer list of values nothing is read."""
_REMOVING = frozenset(
    """block cancel clear close deactivate delete destroy detach disable disconnect discard dismiss drop end erase kill
    purge reject remove revoke rollback stop terminate truncate uninstall unlink unpublish unsubscribe wipe
    withdraw""".split()
)
"""How tools that end or remove something are named: the verbs of public servers whose tools lean so, and their kin."""
_WORD = re.compile(r"[^\W_]+")
_IDENTIFIER = re.compile(r"(^|[_-])(?i:id|uuid|guid)s?$|[a-z](Id|ID|Uuid|UUID|Guid)s?$")
_OF_FORMAT = {"uuid": "id", "uri": "url", "email": "email", **dict.fromkeys(("date", "date-time", "time"), "date")}
_OF_WORD = {
    **dict.fromkeys(("date", "time", "day", "since", "until"), "date"),
    **dict.fromkeys(("url", "uri", "link"), "url"),
    "email": "email",
}
_OF_TYPE = {"integer": "number", "number": "number"}

Terms = frozenset[str]


class CallFacts(NamedTuple):
    """`name`: the telling terms of a tool's name. `kinds` and `choices`: of its required arguments the kinds of value
    (id, date, url, email, number), and where values are enums the terms of each. `removing`: terms of the verbs by
    which it says that it ends or removes something.
    """

    name: Terms = frozenset()
    kinds: tuple[str, ...] = ()
    choices: tuple[tuple[Terms, ...], ...] = ()
    removing: Terms = frozenset()

    @classmethod
    def of(cls, tool: Tool) -> "CallFacts":
        """Of what is no schema no arguments."""
        parameters = parameters_of_text(tool.input_schema)
        arguments = [(name, parameters.properties.get(name)) for name in sorted(parameters.required)]
        kinds = [_kind_of(name, each if isinstance(each, dict) else {}) for name, each in arguments]
        enums = [each["enum"] for _, each in arguments if isinstance(each, dict) and isinstance(each.get("enum"), list)]
        choices = [tuple(frozenset(terms(str(value))) for value in some) for some in enums if len(some) <= MOST_CHOICES]
        return cls(
            frozenset(terms(tool.name)) - STOP_WORDS,
            tuple(filter(None, kinds)),
            tuple(filter(None, choices)),
            _removing_verbs(tool),
        )

    def pack(self) -> str:
        """As one text: a line for the name, the kinds and the verbs, then one for the choices of each argument."""
        fields = [self.name, self.kinds, self.removing]
        choices = ["\t".join(" ".join(sorted(each)) for each in some) for some in self.choices]
        return "\n".join([*(" ".join(sorted(each)) for each in fields), *choices])

    @classmethod
    def unpack(cls, text: str) -> "CallFacts":
        name, kinds, removing, *choices = text.split("\n")
        of_arguments = tuple(tuple(frozenset(each.split()) for each in line.split("\t")) for line in choices)
        return cls(frozenset(name.split()), tuple(kinds.split()), of_arguments, frozenset(removing.split()))


def _kind_of(name: str, schema: Mapping[str, Any]) -> str:
    """Of the value that an argument takes; empty: a text, or anything else that every request may give."""
    if _IDENTIFIER.search(name):
        return "id"
    kinds = (_OF_FORMAT.get(str(schema.get("format"))), *map(_OF_WORD.get, _words(name)))
    return next(filter(None, kinds), None) or _OF_TYPE.get(str(schema.get("type")), "")


def _words(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(CAMEL.sub(" ", text))]


def _removing_verbs(tool: Tool) -> Terms:
    """At either end of its name, or first in its description. None for one that only reads, or says that it destroys
    nothing.
    """
    from waygraph.registry.access.policy import danger_in

    if danger_in(tool.annotations) in ("reads", "none"):
        return frozenset()
    of_name, of_text = _words(tool.name), _words(tool.description[:80])[:1]
    return frozenset(terms(word)[0] for word in (*of_name[:1], *of_name[-1:], *of_text)) & _removing_stems()


@cache
def _removing_stems() -> Terms:
    return frozenset(terms(" ".join(_REMOVING)))
