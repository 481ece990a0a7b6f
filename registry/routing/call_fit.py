"""How well a request fits the call of a tool: whether it gives what the call needs, names the tool, and asks for what
only a destructive tool does.

Shares were chosen on development sets (evals/decisions.md): they are parts of the best tool's score, so that they mean
the same in every recipe.
"""

import re
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from waygraph.registry.index.analyser import query_terms
from waygraph.registry.index.call_facts import CallFacts
from waygraph.registry.routing.votes import Column, Places, column_of

SOURCE = "call"
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
Lean = Callable[[], float]
"""How far the request leans from `OTHERS` to `REMOVALS`, as a cosine."""


def judge_calls(text: str, at: Places, facts: Sequence[CallFacts], best: float, lean: Lean) -> Column | None:
    """Return a share of the `best` score for each tool, or against it; None where nothing speaks for or against any.

    `at`: positions of the tools that are judged, int64 of shape (tools,). `facts`: of each.
    """
    request = frozenset(query_terms(text))
    values = frozenset([kind for kind, pattern in _VALUES.items() if pattern.search(text)])
    shares = np.zeros(len(facts))
    for number, (name, kinds, choices, removing) in enumerate(facts):
        if name <= request and len(name) > 1 and 2 * len(name) >= len(request):  # one word is said by chance too
            shares[number] = NAME_SHARE
        missing = [kind for kind in kinds if kind not in values]
        missing += ["choice" for terms in choices if True not in [each <= request for each in terms]]
        if missing:
            shares[number] -= ARGUMENT_SHARE * min(len(missing), MOST_ARGUMENTS)
        if removing and removing.isdisjoint(request) and lean() < LEAN:
            shares[number] -= REMOVAL_SHARE
    some = shares.nonzero()[0]
    return column_of(SOURCE, at[some], shares[some], best, may_bring=False) if len(some) else None
