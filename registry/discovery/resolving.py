"""use_tool: which one tool is meant, by a name or by a request. Never a guess: else nothing runs."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from waygraph.registry.discovery.naming import (
    BORNE_BY,
    bare,
    exact_first,
    exactness,
    is_name_like,
    named_outright,
    nearest,
)
from waygraph.registry.discovery.skill_reading import skill_read
from waygraph.registry.errors import AmbiguousTool, InvalidQuery, UnknownName
from waygraph.registry.index.search_index import Leg
from waygraph.registry.model import Principal, Tool, ToolMatch

if TYPE_CHECKING:
    from waygraph.registry.registry import Registry

CANDIDATES = 5
"""Named where several tools fit, at most."""
CLEAR_LEAD = 0.1
"""The best tool's score must be ahead of the second's by at least this share of it."""
TOLD_CHARS = 200
_AGREEING: tuple[Leg, ...] = ("capability_vector", "capability_text")


def tool_meant(
    registry: "Registry",
    *,
    name: str = "",
    query: str = "",
    principal: Principal | None = None,
    agent_ids: frozenset[str] | None = None,
) -> Tool:
    """The tool of that name, or the one that clearly fits the request best; one of the two is given.

    A name is an id, a call name, or the bare name of one tool only, whatever its case; the id of a skill means the tool
    that reads it. A request is clear if it is
    such a name, or if one tool is first by meaning and first by words, and ahead of all others by `CLEAR_LEAD`: so
    without a model none is. Raises InvalidQuery, UnknownName with the nearest names, AmbiguousTool with up to 5
    candidates.
    """
    if bool(name.strip()) == bool(query.strip()):
        raise InvalidQuery("say which tool: its `name`, or a `query` that says what it is to do, and not both")
    by_name, asked = bool(name.strip()), (name if name.strip() else query).strip()
    if agent_ids is not None and not agent_ids:
        raise UnknownName("tool", _short(asked), ())
    outright = by_name or is_name_like(asked)
    if outright and (found := named_outright(registry, asked, principal, agent_ids)):
        return found[1]
    if by_name and (read := skill_read(registry, asked, principal, agent_ids)):
        return read
    matches = _matches(registry, asked, principal, agent_ids)
    bearers = [match for match in matches if exactness(asked, match.tool) < 4]
    if bearers:
        return _only(asked, bearers)
    if by_name or not matches:
        raise _unknown(registry, asked, principal, agent_ids)
    return _clearly_best(asked, matches)


def is_exact_name(tool: Tool, name: str) -> bool:
    """Whether the tool was called by its own full name, as those must be that may destroy."""
    return exactness(name, tool) == 0


def _matches(
    registry: "Registry", asked: str, principal: Principal | None, agent_ids: frozenset[str] | None
) -> list[ToolMatch]:
    if not bare(asked):
        return []
    among = None if agent_ids is None else sorted(agent_ids)
    found = registry.find_tools(asked, limit=BORNE_BY, agent_ids=among, principal=principal)
    return exact_first(asked, found.matches)


def _only(asked: str, matches: Sequence[ToolMatch]) -> Tool:
    """The one that is named most exactly. Raises AmbiguousTool."""
    best = exactness(asked, matches[0].tool)
    same = [match.tool for match in matches if exactness(asked, match.tool) == best]
    if len(same) > 1:
        raise AmbiguousTool(_short(asked), [tool.call_name for tool in same[:CANDIDATES]])
    return same[0]


def _clearly_best(asked: str, matches: Sequence[ToolMatch]) -> Tool:
    """Raises AmbiguousTool."""
    best, second = matches[0], matches[1].score if len(matches) > 1 else 0.0
    if best.score - second >= CLEAR_LEAD * best.score and _is_agreed(best):
        return best.tool
    raise AmbiguousTool(_short(asked), [match.tool.call_name for match in matches[:CANDIDATES]])


def _is_agreed(match: ToolMatch) -> bool:
    """Whether meaning and words, each by itself, put this tool first. Either alone is often wrong."""
    first = {vote.leg for vote in match.votes if vote.entity_id == match.tool.id and vote.rank == 1}
    return first.issuperset(_AGREEING)


def _unknown(
    registry: "Registry", asked: str, principal: Principal | None, agent_ids: frozenset[str] | None
) -> UnknownName:
    near = nearest(registry, asked, principal, agent_ids) if bare(asked) else []
    error = UnknownName("tool", _short(asked), (), hint=f"Nearest: {', '.join(near)}." if near else "")
    error.name, error.nearest = asked, tuple(near)
    return error


def _short(asked: str) -> str:
    """Messages repeat what was asked, and a model pays for it; the error's own `name` is whole."""
    return asked if len(asked) <= TOLD_CHARS else asked[: TOLD_CHARS - 1] + "…"
