"""Numbers that come from outside, in one check: finite and within bounds; `true` and `false` are none.

JSON, YAML and a server's answer may hold NaN, Infinity, or a whole number of 400 digits, which no float can hold.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from sys import float_info

MOST = float_info.max
EXACT = 2**53
"""Up to here a float holds every whole number: more than any count or size that is meant."""
FAR_S = 1e9
"""Thirty years: more than anybody waits, and less than what clocks and timers take."""
_MOST_DIGITS, _SHOWN_CHARS = 16, 100


def read_number(value: object, least: float = -MOST, most: float = MOST) -> float | None:
    """The number, from `least` to `most`; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    # Python compares whole numbers and floats exactly, whatever their size; with NaN each comparison is false.
    return float(value) if least <= value <= most else None


def read_whole(value: object, least: int, most: int = EXACT) -> int | None:
    """The same of a whole number. In JSON 5.0 is the same number as 5."""
    number = read_number(value, least, most)
    return int(number) if number is not None and number.is_integer() else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """From `least` to `most`; `above`: more than `least`; `whole`: an int."""

    least: float
    most: float
    above: bool = False
    whole: bool = False

    def __str__(self) -> str:
        if self.whole:
            return f"whole number from {self.least} to {self.most:,}"
        return f"number {'above' if self.above else 'from'} {self.least:g}, at most {self.most:,.0f}"


def find_unfit(values: Mapping[str, object], bounds: Mapping[str, Bounds]) -> str:
    """The first name whose value is out of its bounds; empty if none is."""
    for name, limits in bounds.items():
        value = values[name]
        number = read_number(value, limits.least, limits.most)
        is_kind = isinstance(value, int) or not limits.whole
        if number is None or not is_kind or (limits.above and number == limits.least):
            return name
    return ""


def read_digits(text: str, least: int = 0, most: int = EXACT) -> int | None:
    """The whole number that a text of ASCII digits says; None for any other text. Python reads no 5,000 digits."""
    is_number = text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS
    return read_whole(int(text), least, most) if is_number else None


def show_value(value: object) -> str:
    """What was seen in place of a number or name, cut, for an error. Python writes no whole number of 5,000 digits."""
    try:
        return repr(value)[:_SHOWN_CHARS]
    except (ValueError, RecursionError):
        return f"a {type(value).__name__} that is too long"
