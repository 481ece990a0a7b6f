"""What a language model is shown of the turns before a request, and what its answer says.

Turns are shown the same wherever a model is asked, or trained. Of an answer count the text after its thoughts, and the
JSON in it. All of it is untrusted.
"""

import json
from collections.abc import Sequence
from typing import Any

from waygraph.registry.model.nouns import Turn

HISTORY_TURNS, HISTORY_CHARS = 20, 400
"""So many of the last turns are told, and so much of each text and result."""


def turn_rows(history: Sequence[Turn], request: str = "") -> list[dict[str, str]]:
    """As JSON carries them, oldest first, without the request itself, which hosts keep among them."""
    return [_turn_row(turn) for turn in without_request(history, request)[-HISTORY_TURNS:]]


def without_request(history: Sequence[Turn], request: str) -> list[Turn]:
    """All turns but what the user said last, if that is the request."""
    turns = list(history)
    at = max((at for at, turn in enumerate(turns) if turn.role == "user"), default=-1)
    if at >= 0 and turns[at].text.strip() == request.strip():
        del turns[at]
    return turns


def _turn_row(turn: Turn) -> dict[str, str]:
    """The end of what was said, since there the question stands; the begin of a result."""
    if turn.role != "call":
        return {turn.role: turn.text[-HISTORY_CHARS:]}
    row = {"call": turn.tool, "outcome": turn.outcome}
    return row | ({"result": turn.result[:HISTORY_CHARS]} if turn.result else {})


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
