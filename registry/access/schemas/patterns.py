"""Patterns of foreign schemas, run by Rust's `regex`: its time grows with the text alone, whatever the pattern is.

What remains is the cost of a pattern itself, some milliseconds and megabytes for a class of Unicode repeated a hundred
times, so that is estimated first.
"""

import re
from collections.abc import Callable
from functools import lru_cache

from waygraph.registry.access.schemas.steps import spend

MAX_CHARS = 2_000
MAX_MATCHED_CHARS = 100_000
"""A longer text is not matched."""
MAX_MATCHED = 20_000_000
"""Weight of the pattern times characters of the text, which is what a match costs: about 150 ms."""
MAX_WEIGHT = 10_000
"""Of one pattern: about 80 ms and 10 MiB."""
_KEPT = 32
_CLASS, _PART, _SIGN = 100, 10, 1
"""Weights: a class of Unicode such as `\\w`, what matches any sign but some, a sign."""
_WEIGHT_OF_STEP = 5
_MOST = 1_000
"""`{1,}` is no repetition of a known number, and weighs as one; a larger number is taken for this."""
_TOKEN = re.compile(
    r"(?P<class>\\[pP](?:\{[^}]*+\})?|\\[wWdDsS])"
    r"|(?P<set>\[(?:[^\]\\]|\\.)*+\])|(?P<any>\.)"
    r"|\{(?P<least>\d+)(?P<to>,(?P<most>\d*))?\}"
    r"|(?P<opens>\((?:\?[^:)(]*+:)?)|(?P<closes>\))|(?P<sign>\\.|[^*+?|^$])",
    re.DOTALL,
)
_OF_UNICODE = re.compile(r"\\[pPwWdDsS]")


@lru_cache(maxsize=_KEPT)
def matcher(pattern: str) -> Callable[[str], bool] | None:
    """Whether a text holds a match; None for a pattern that is too heavy, or that Rust does not take.

    To be called within `steps.counted`. Raises OutOfSteps.
    """
    from pydantic_core import SchemaError, SchemaValidator, core_schema

    if len(pattern) > MAX_CHARS or (heavy := weight(pattern)) > MAX_WEIGHT:
        return None
    spend(heavy // _WEIGHT_OF_STEP)
    try:
        made = SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex", strict=True))
    except SchemaError:
        return None
    most = min(MAX_MATCHED_CHARS, MAX_MATCHED // max(heavy, 1))
    return lambda text: len(text) > most or made.isinstance_python(text)


def weight(pattern: str) -> int:
    """About how large it is once it is compiled, repetitions written out."""
    open_groups, last = [0], 0
    for token in _TOKEN.finditer(pattern):
        kind = token.lastgroup
        if token["least"]:
            last *= min(int(token["most"] or token["least"]), _MOST)
            open_groups[-1] += last
        elif kind == "opens":
            open_groups.append(0)
        elif kind == "closes":
            last = open_groups.pop() if len(open_groups) > 1 else 0
            open_groups[-1] += last
        else:
            last = _weight_of(token)
            open_groups[-1] += last
        if sum(open_groups) > MAX_WEIGHT:
            break
    return sum(open_groups)


def _weight_of(token: re.Match[str]) -> int:
    """Of what matches one sign."""
    match token.lastgroup:
        case "class":
            return _CLASS
        case "set":
            return _CLASS if _OF_UNICODE.search(token[0]) else _PART
        case "any":
            return _PART
        case _:
            return _SIGN
