"""Who may set what operators set. One rule for every way in; docs/security.md has it as a table.

What operators set holds for everybody who sees an agent, whatever its source says, and survives every sync. So it takes
a caller who sees everything, or the scope `admin`. Of an agent that only the caller's own groups see a writer may set
what can do no harm to others, also if its source shows it to all later: that it is hidden, removed, tagged, or for
fewer groups.

What a source says is changed by its owner: the writer who made it, or the operators. What operators write is theirs
from then on, and so is a source of which no owner is known.
"""

from collections.abc import Collection

from waygraph.registry.model.changes import SourceSummary
from waygraph.registry.model.errors import NotAllowed
from waygraph.registry.model.nouns import Agent, Principal

OWN_FIELDS = frozenset({"hidden", "removed", "tags", "visible_to"})
"""What a writer may set of its groups' own agents."""


def is_operator(principal: Principal | None) -> bool:
    return principal is None or principal.operates


def refuse_non_operator(what: str, principal: Principal | None) -> None:
    """Raises NotAllowed, whatever there is: the answer tells nothing of it."""
    if not is_operator(principal):
        raise NotAllowed(f"{what} needs the scope 'admin', or a caller who sees everything")


def is_own(agent: Agent, principal: Principal | None) -> bool:
    """Whether nobody sees the agent but operators and the principal's groups."""
    return principal is None or (bool(agent.visible_to) and set(agent.visible_to) <= set(principal.groups))


def owner_after(before: SourceSummary | None, principal: Principal | None) -> str:
    """The owner of a source that the principal writes."""
    if is_operator(principal) or principal is None:
        return ""
    return before.owner if before else principal.id


def refuse_source(source: SourceSummary | None, agents: Collection[Agent], principal: Principal | None) -> None:
    """Raises NotAllowed, in the same words whatever there is, for a source (None: it is new) that is another's.

    `agents`: all that it claims. A source of which only the principal's groups see anything is theirs together.
    """
    is_owner = source is None or (principal is not None and source.owner == principal.id != "")
    if not (is_operator(principal) or is_owner or (agents and all(is_own(each, principal) for each in agents))):
        raise NotAllowed(
            "this source is not the caller's: what it says is changed by the writer who made it; else that needs the "
            "scope 'admin', or a caller who sees everything. Use another name for a source of your own"
        )


def refuse_setting(before: Agent, after: Agent, fields: Collection[str], principal: Principal | None) -> None:
    """Raises NotAllowed if the principal may not set these fields of an agent that it sees."""
    is_harmless = OWN_FIELDS.issuperset(fields) and is_own(before, principal) and is_own(after, principal)
    if not (is_harmless or is_operator(principal)):
        raise NotAllowed(
            "this sets what holds for others too: it needs the scope 'admin', or a caller who sees everything. Of an "
            "agent that only the caller's groups see, before and after, a writer sets "
            f"{', '.join(sorted(OWN_FIELDS))}"
        )


def refuse_limited(principal: Principal | None, doing: str) -> None:
    """Raises NotAllowed: the rule of a toolset may name what a caller must not learn of, and its answer would tell; a
    taxonomy holds what others see.
    """
    if principal is not None:
        raise NotAllowed(f"{doing} by a caller who sees everything")
