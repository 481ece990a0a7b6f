"""What a language model's answer says: the text after its thoughts, and the JSON in it. All of it is untrusted."""

import json
from typing import Any

_FIRST_MARK, _LAST_MARK = "<think>", "</think>"
_ANSWER_STARTS = ("{", "[", "```")


def after_thoughts(text: str) -> str:
    """The answer of a model that thinks aloud first; empty if it did not end its thoughts.

    A text that starts as an answer has none: what it quotes of others may hold the mark. Some endpoints leave out the
    first mark, so the last one counts.
    """
    if text.lstrip().startswith(_ANSWER_STARTS):
        return text
    _, end, answer = text.rpartition(_LAST_MARK)
    if end:
        return answer.lstrip()
    return "" if text.lstrip().startswith(_FIRST_MARK) else text


def object_in(answer: str) -> dict[str, Any]:
    """The first JSON object of an answer, whatever thoughts, fences or words are around it; empty if none is whole."""
    answer = after_thoughts(answer)
    start = answer.find("{")
    try:
        document, _ = json.JSONDecoder().raw_decode(answer[start:]) if start >= 0 else ({}, 0)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def begins_with_object(answer: str) -> bool:
    """Whether a whole JSON object is first: of an answer that was cut off, words before one may be thoughts."""
    return answer.lstrip().startswith(_ANSWER_STARTS) and bool(object_in(answer))


def list_in(answer: str, key: str) -> list[object]:
    """What stands under the only key of a JSON object; empty if the answer is anything else than `{key: [...]}`."""
    document = object_in(answer)
    entries = document.get(key) if document.keys() == {key} else None
    return entries if isinstance(entries, list) else []
