"""Options that several commands share, and what is made of them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from waygraph.registry.model import AgentKind, Filters, Principal

TextForm = Literal["contextual", "plain", "concat", "tdwa-1", "tdwa-2"]
Policy = Literal["accept", "hold", "strict"]
Surface = Literal["default", "rfc"]
"""What the core knows and the help repeats, which must not import it; a test compares them."""

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, in the shape that docs/json-output.md describes.")]
Limit = Annotated[int, typer.Option("--limit", "-k", help="How many to give at most.")]
RecipeName = Annotated[
    str, typer.Option("--recipe", metavar="NAME", help="How to rank: agents, hybrid, lexical, paper, ranks or tools.")
]
Tags = Annotated[
    list[str] | None, typer.Option("--tag", metavar="TAG", help="Only agents with this tag. Repeat for any of several.")
]
Kinds = Annotated[
    list[str] | None,
    typer.Option(
        "--kind",
        metavar="KIND",
        help="Only agents of this kind: mcp_server, a2a_agent, skill, openapi, custom. Repeat.",
    ),
]
Agents = Annotated[
    list[str] | None, typer.Option("--agent", metavar="ID", help="Only this agent. Repeat for any of several.")
]
Reachable = Annotated[
    bool, typer.Option("--reachable", help="Leave out agents that `watch` could not reach, or that fail.")
]
Groups = Annotated[
    list[str] | None,
    typer.Option("--group", metavar="GROUP", help="See what a member of this group sees. Repeat. Default: everything."),
]


def filters(
    tags: Sequence[str] | None,
    kinds: Sequence[str] | None,
    agents: Sequence[str] | None,
    *,
    reachable: bool = False,
) -> "Filters":
    """What may be found. Raises BadParameter for an unknown kind."""
    from waygraph.registry.model import AGENT_KINDS, Filters

    for kind in kinds or ():
        if kind not in AGENT_KINDS:
            raise typer.BadParameter(f"{kind!r} is not one of {', '.join(AGENT_KINDS)}", param_hint="'--kind'")
    chosen: tuple[AgentKind, ...] = tuple(known for known in AGENT_KINDS if known in (kinds or ()))
    return Filters(tags=tuple(tags or ()), kinds=chosen, agent_ids=tuple(agents or ()), reachable=reachable)


def principal(groups: Sequence[str] | None) -> "Principal | None":
    """Who asks: a member of these groups, or without any the owner of this machine, who sees everything."""
    from waygraph.registry.model import Principal

    return Principal(groups=tuple(groups)) if groups else None
