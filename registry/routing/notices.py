"""The notices of an answer: one list, made here, that every view draws."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import get_args

from waygraph.registry.model.nouns import Notice, NoticeCode, Route, ToolMatch, ToolRoute, match_id
from waygraph.registry.model.transitions import Partner

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
    notices = (*_keep_pairs(answer), *_own_notices(answer))
    if not (notices or answer.steps):
        return answer
    return replace(
        answer,
        steps=tuple(map(with_notices, answer.steps)),
        notices=tuple(sorted(notices, key=lambda each: _CODES.index(each.code))),
    )


def _keep_pairs(answer: Route | ToolRoute) -> Sequence[Notice]:
    """Return the notices so far, of pairs of tools the first whose tools are both left: a stage may leave some out."""
    pairs = [each for each in answer.notices if each.code == "together"]
    if not pairs:
        return answer.notices
    ids = {match_id(match) for match in answer.matches}
    some = [each for each in pairs if ids.issuperset(each.about)][:MOST_PAIRS]
    return [*some, *(each for each in answer.notices if each.code != "together")]


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
    if answer.exclusions:
        text = f"Left out, as the request says: {', '.join(answer.exclusions)}."
        yield Notice(code="excluded", text=text, about=answer.exclusions)


def pair_notices(matches: Sequence[ToolMatch], partners: Mapping[str, Partner]) -> list[Notice]:
    """Return what is told of tools that conversations call together; each pair once, the first tools first."""
    places = {match.tool.id: at for at, match in enumerate(matches)}
    pairs = {
        tuple(sorted((places[each], places[partner.tool]))): (each, partner)
        for each, partner in sorted(partners.items(), key=lambda pair: places.get(pair[0], 0))  # the last of two counts
        if each in places and partner.tool in places
    }
    return [
        Notice(
            code="together",
            text=f"{each} is often used with {tool}: in {times:.0f} of {calls:.0f} calls of that.",
            about=(each, tool),
        )
        for _, (each, (tool, _, times, calls)) in sorted(pairs.items())
    ]


def _near(answer: Route | ToolRoute) -> tuple[str, ...]:
    """The first two, if either may be right and the request names neither outright."""
    if answer.steps or answer.confidence in (None, 1.0) or len(answer.matches) < 2:
        return ()
    first, second = answer.matches[:2]
    if not 0 <= first.score - second.score < NEAR * first.score:  # a reranker may put the lower score first
        return ()
    return match_id(first), match_id(second)
