"""How a language model is shown the turns before a request: the same wherever one is asked, or trained."""

from collections.abc import Sequence

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
