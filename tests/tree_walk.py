"""Whoever knows nothing but what answers of find_tools show: it opens all that they list, part by part."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

type Ask = Callable[..., dict[str, Any]]
"""Arguments of find_tools, beside an empty query → the answer."""


def check_types(answer: Mapping[str, Any]) -> None:
    """Each key has one meaning in all answers, and one kind of list is in each."""
    types: Mapping[str, Callable[[Any], bool]] = {
        "tools": lambda value: all(isinstance(each["name"], str) for each in value),
        "categories": _are_texts,
        "members": _are_texts,
        "overview": lambda value: isinstance(value["tools"], int),
        "holds": lambda value: all(isinstance(each, int) for each in value.values()),
        "next_offset": lambda value: isinstance(value, int) and value > 0,
        "not_callable": lambda value: all(each["name"] and each["why"] for each in value),
        "not_callable_more": lambda value: isinstance(value, int),
        "notices": lambda value: all(each.keys() == {"code", "text"} and _are_texts(each) for each in value),
        **{name: lambda value: isinstance(value, str) for name in ("within", "by", "hint", "reason")},
    }
    assert answer.keys() <= types.keys(), answer
    wrong = [name for name, value in answer.items() if not types[name](value)]
    assert not wrong, (wrong, answer)
    assert len(answer.keys() & {"tools", "categories", "members", "overview"}) == 1, answer


def _are_texts(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(text, str) for text in value.values())


def parts_of(ask: Ask, within: str) -> Iterator[dict[str, Any]]:
    """All answers of a category."""
    offset = 0
    while True:
        answer = ask(within=within, **({"offset": offset} if offset else {}))
        check_types(answer)
        yield answer
        assert answer.get("next_offset", offset + 1) > offset
        offset = answer.get("next_offset", 0)
        if not offset:
            return


def reach_tools(ask: Ask, within: str = "") -> set[str]:
    """Call names of all tools below, of those too that may not be called."""
    names: set[str] = set()
    for answer in parts_of(ask, within):
        names |= {each["name"] for key in ("tools", "not_callable") for each in answer.get(key, ())}
        for path in (*answer.get("categories", ()), *answer.get("members", ())):
            names |= reach_tools(ask, path)
    return names
