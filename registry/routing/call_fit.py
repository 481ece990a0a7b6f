"""How well a request fits the call of a tool: whether it gives what the call needs, names the tool, and asks for what
only a destructive tool does.

Shares were chosen on development sets (evals/decisions.md): they are parts of the best tool's score, so that they mean
the same in every recipe.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from heapq import nlargest
from typing import Any

from waygraph.registry.access.policy import danger_in
from waygraph.registry.index.analyser import CAMEL, STOP_WORDS, query_terms, terms
from waygraph.registry.index.search_index import LegHits
from waygraph.registry.model.nouns import JsonText, Tool
from waygraph.registry.model.parameters import parameters_of_text
from waygraph.registry.model.process import remember
from waygraph.registry.routing.fusion import Standing

LEG = "call"
READ = 30
"""The best so many tools are judged."""
ARGUMENT_SHARE, MOST_ARGUMENTS = 0.05, 3
"""Against a tool, for each required argument of which the request gives no value; for so many at most."""
NAME_SHARE = 0.1
"""For a tool whose whole name the request says, in half of its telling words or more."""
REMOVAL_SHARE = 0.25
"""Against a destructive tool where the request asks for nothing of the kind."""
LEAN = 0.02
"""A request asks to end or remove something if its vector leans so far, as a cosine, from `OTHERS` to `REMOVALS`."""

REMOVALS = (
    *("Cancel it.", "Delete this.", "Remove it.", "Take it away.", "Call it off.", "Stop it.", "End it.", "Close it."),
    *("Get rid of it.", "Withdraw it.", "Throw it away.", "Undo it.", "It must go.", "We won't come."),
    *("I do not want it any more.", "It is no longer needed."),
)
OTHERS = (
    *("Make a new one.", "Add this.", "Show it to me.", "What is it?", "Book one.", "Set it up.", "I need one."),
    *("Send it.", "Find some.", "Which ones are there?", "Start it.", "Change it to another.", "Save it."),
    *("Put it there.", "List them.", "Let me have it."),
)
_REMOVING = frozenset(
    """block cancel clear close deactivate delete destroy detach disable disconnect discard dismiss drop end erase kill
    purge reject remove revoke rollback stop terminate truncate uninstall unlink unpublish unsubscribe wipe
    withdraw""".split()
)
"""How tools that end or remove something are named: the verbs of public servers whose tools lean so, and their kin."""
_WORD = re.compile(r"[^\W_]+")

_DAY = r"(to|yester)day|to(night|morrow)|(mon|tues|wednes|thurs|fri|satur|sun)day|week(end)?|month|year"
_MONTH = r"january|february|march|april|may|june|july|august|september|october|november|december"
_NUMBER = "one|two|three|four|five|six|seven|eight|nine|ten|dozen|half|couple"
_VALUES: Mapping[str, re.Pattern[str]] = {
    "id": re.compile(r"\d"),
    "date": re.compile(
        rf"\d{{4}}-\d\d|\d(st|nd|rd|th)\b|\d:\d|\b\d{{1,2}} ?[ap]m\b|\b({_DAY}|{_MONTH})\b", re.IGNORECASE
    ),
    "url": re.compile(r"://|www\.|\w\.(com|org|net|io)\b", re.IGNORECASE),
    "email": re.compile("@"),
    "number": re.compile(rf"\d|\b({_NUMBER})\b", re.IGNORECASE),
}
"""How a value of each kind looks in a request."""
_IDENTIFIER = re.compile(r"(^|[_-])(?i:id|uuid|guid)s?$|[a-z](Id|ID|Uuid|UUID|Guid)s?$")
_OF_FORMAT = {"uuid": "id", "uri": "url", "email": "email", **dict.fromkeys(("date", "date-time", "time"), "date")}
_OF_WORD = {
    **dict.fromkeys(("date", "time", "day", "since", "until"), "date"),
    **dict.fromkeys(("url", "uri", "link"), "url"),
    "email": "email",
}
_OF_TYPE = {"integer": "number", "number": "number"}

MOST_CHOICES = 50
"""Of a longer list of values nothing is read."""

Lean = Callable[[], float]
"""How far the request leans from `OTHERS` to `REMOVALS`, as a cosine."""


@dataclass(frozen=True, slots=True)
class CallNeeds:
    """What the required arguments of a tool want: kinds of value, and where values are enums, the terms of each."""

    kinds: tuple[str, ...] = ()
    choices: tuple[tuple[frozenset[str], ...], ...] = ()


def judge_calls(text: str, tools: Mapping[str, Tool], scores: Mapping[str, float], lean: Lean) -> Standing | None:
    """A share of the best score for each tool, or against it; None where nothing speaks for or against any.

    `scores`: of all candidates. `tools`: those that are judged, by id.
    """
    request = frozenset(query_terms(text))
    values = frozenset(kind for kind, pattern in _VALUES.items() if pattern.search(text))
    shares = {
        each.id: share
        for each in tools.values()
        if (
            share := _count_name(each, request)
            - _count_missing(each, request, values)
            - _count_removal(each, request, lean)
        )
    }
    if not shares:
        return None
    ids = sorted(shares, key=lambda each: (-shares[each], each))
    best = max(scores.values())
    hits = LegHits(ids, [tools[each].agent_id for each in ids], [shares[each] for each in ids])
    return Standing(LEG, hits, ids, best, {each: best * shares[each] for each in ids}, may_bring=False)


def best_tools(scores: Mapping[str, float]) -> list[str]:
    """The ids of those that are judged."""
    return nlargest(READ, scores, key=scores.__getitem__)


def _count_name(tool: Tool, request: frozenset[str]) -> float:
    """A name of one word is said by chance too."""
    name = _name_terms(tool.name)
    return NAME_SHARE if len(name) > 1 and name <= request and 2 * len(name) >= len(request) else 0.0


@lru_cache(maxsize=4096)
def _name_terms(name: str) -> frozenset[str]:
    return frozenset(terms(name)) - STOP_WORDS


def _count_missing(tool: Tool, request: frozenset[str], values: frozenset[str]) -> float:
    needs = read_needs(tool.input_schema)
    missing = sum(kind not in values for kind in needs.kinds)
    missing += sum(not any(each <= request for each in choices) for choices in needs.choices)
    return ARGUMENT_SHARE * min(missing, MOST_ARGUMENTS)


@remember
def read_needs(schema: JsonText) -> CallNeeds:
    """Of what is no schema none."""
    parameters = parameters_of_text(schema)
    arguments = [(name, parameters.properties.get(name)) for name in sorted(parameters.required)]
    kinds = [_kind_of(name, each if isinstance(each, dict) else {}) for name, each in arguments]
    enums = [each["enum"] for _, each in arguments if isinstance(each, dict) and isinstance(each.get("enum"), list)]
    choices = [tuple(frozenset(terms(str(value))) for value in some) for some in enums if len(some) <= MOST_CHOICES]
    return CallNeeds(tuple(filter(None, kinds)), tuple(filter(None, choices)))


def _kind_of(name: str, schema: Mapping[str, Any]) -> str:
    """Of the value that an argument takes; empty: a text, or anything else that every request may give."""
    if _IDENTIFIER.search(name):
        return "id"
    kinds = (_OF_FORMAT.get(str(schema.get("format"))), *map(_OF_WORD.get, _words(name)))
    return next(filter(None, kinds), None) or _OF_TYPE.get(str(schema.get("type")), "")


def _words(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(CAMEL.sub(" ", text))]


def _count_removal(tool: Tool, request: frozenset[str], lean: Lean) -> float:
    verbs = _removing_verbs(tool.name, tool.description, tool.annotations)
    if not verbs or not verbs.isdisjoint(request):
        return 0.0
    return REMOVAL_SHARE if lean() < LEAN else 0.0


@lru_cache(maxsize=4096)
def _removing_verbs(name: str, description: str, annotations: JsonText) -> frozenset[str]:
    """Terms of the verbs by which a tool says that it ends or removes something: at either end of its name, or first in
    its description. None for one that only reads, or says that it destroys nothing.
    """
    if danger_in(annotations) in ("reads", "none"):
        return frozenset()
    of_name, of_text = _words(name), _words(description[:80])[:1]
    stems = {terms(word)[0] for word in (*of_name[:1], *of_name[-1:], *of_text)}
    return frozenset(stems & _removing_stems())


@lru_cache(maxsize=1)
def _removing_stems() -> frozenset[str]:
    return frozenset(terms(" ".join(_REMOVING)))
