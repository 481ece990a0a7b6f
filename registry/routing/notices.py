"""The notices of an answer: one list, made here, that every view draws."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import get_args

from waygraph.registry.model.nouns import Notice, NoticeCode, Route, ToolRoute, match_id
from waygraph.registry.routing.history import TOGETHER

NEAR = 0.02
"""Two candidates whose scores differ by less of the first's are near: either may be right."""
MOST_PAIRS = 3
_CODES: tuple[NoticeCode, ...] = get_args(NoticeCode)
"""The gravest first."""
_STAGES: Mapping[NoticeCode, str] = {
    "not_split": "Not split into steps",
    "not_walked": "Not walked",
    "not_reranked": "Not reranked",
}


def with_notices[R: (Route, ToolRoute)](answer: R) -> R:
    """Return the answer with all its notices, the gravest first; so far it has those of the router and its stages."""
    notices = (*answer.notices, *_own_notices(answer))
    if not (notices or answer.steps):
        return answer
    return replace(
        answer,
        steps=tuple(map(with_notices, answer.steps)),
        notices=tuple(sorted(notices, key=lambda each: _CODES.index(each.code))),
    )


def with_failure[R: (Route, ToolRoute)](answer: R, code: NoticeCode, reason: str) -> R:
    """Return the answer with a notice why a stage of its recipe did not happen; the same without a reason."""
    return replace(answer, notices=(*answer.notices, failure(code, reason))) if reason else answer


def failure(code: NoticeCode, reason: str) -> Notice:
    """Return the notice why a stage of a recipe did not happen. `code`: that of a stage."""
    return Notice(code=code, text=f"{_STAGES[code]}: {reason}.")


def skill_notice(skill: str, tools: tuple[str, ...]) -> Notice:
    """Return the notice that a skill teaches these tools; `about` has all ids, the skill's first."""
    return Notice(code="skill", text=f"A skill explains {', '.join(tools)}: {skill}.", about=(skill, *tools))


def _own_notices(answer: Route | ToolRoute) -> Iterator[Notice]:
    if answer.reason:
        code: NoticeCode = "withheld" if answer.nearest else "nothing"
        near = f" Nearest: {', '.join(answer.nearest)}." if answer.nearest else ""
        yield Notice(code=code, text=f"{answer.reason[:1].upper()}{answer.reason[1:]}.{near}", about=answer.nearest)
    if isinstance(answer, ToolRoute) and answer.agents:
        yield Notice(code="better_agents", text=f"Agents fit better: {', '.join(answer.agents)}.", about=answer.agents)
    if answer.is_doubtful:
        yield Notice(code="unlikely", text="Probably nothing here fits.")
    elif len(near_ids := _near(answer)) == 2:
        yield Notice(code="unsure", text=f"Unsure between {' and '.join(near_ids)}.", about=near_ids)
    for pair in _pairs(answer) if isinstance(answer, ToolRoute) else ():
        yield Notice(code="together", text=f"Often used together: {' and '.join(pair)}.", about=pair)
    if answer.exclusions:
        text = f"Left out, as the request says: {', '.join(answer.exclusions)}."
        yield Notice(code="excluded", text=text, about=answer.exclusions)


def _pairs(answer: ToolRoute) -> list[tuple[str, str]]:
    """The first pairs of tools of the answer that conversations call together, each once."""
    ids = [] if answer.steps else [match.tool.id for match in answer.matches]
    places = {each: at for at, each in enumerate(ids)}
    votes = ((match.tool.id, vote) for match in answer.matches for vote in match.votes if vote.leg == TOGETHER)
    pairs = [(places[tool], places[vote.entity_id]) for tool, vote in votes if vote.entity_id in places]
    return [(ids[one], ids[other]) for one, other in sorted({(min(pair), max(pair)) for pair in pairs})[:MOST_PAIRS]]


def _near(answer: Route | ToolRoute) -> tuple[str, ...]:
    """The first two, if either may be right and the request names neither outright."""
    if answer.steps or answer.confidence in (None, 1.0) or len(answer.matches) < 2:
        return ()
    first, second = answer.matches[:2]
    if not 0 <= first.score - second.score < NEAR * first.score:  # a reranker may put the lower score first
        return ()
    return match_id(first), match_id(second)
