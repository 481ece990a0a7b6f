"""Which of the known names was probably meant: by letters, and quick among thousands of foreign names."""

from collections.abc import Iterable

MOST_CHARS = 300
"""Of a name that is looked for; no name is longer."""


def nearest(name: str, known: Iterable[str], most: int = 1, *, least: float = 0.6) -> list[str]:
    """At most `most` of the known names, at least so like, best first, equal ones by name."""
    from rapidfuzz import fuzz, process  # not every process meets a name that is not known

    found = process.extract(name[:MOST_CHARS], sorted(known), scorer=fuzz.ratio, limit=most, score_cutoff=100 * least)
    return [told for told, _, _ in found]


def likeness(one: str, other: str) -> float:
    """From 0 to 1: twice the letters that both have in the same order, over the letters of both."""
    from rapidfuzz import fuzz

    return fuzz.ratio(one[:MOST_CHARS], other) / 100
