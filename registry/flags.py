"""Flags that tell of another agent: only who may see that agent reads them.

All of them are kept, and few are told: were they counted before it is known who reads them, those that tell of agents
nobody sees could leave no room for the others.
"""

import re
from collections.abc import Callable, Collection
from dataclasses import replace

from waygraph.registry.model import Agent, Tool

MAX_FLAGS, MAX_OWNERS = 5, 5
"""So many are told of one entity, and so many agents in one of them."""
_IN_PLACE = "puts itself in the place of a tool of "
_OF_ANOTHER = re.compile(rf"(?P<before>[a-z ]+: {_IN_PLACE})(?P<owners>[^:]+)(?P<after>: .*)", re.DOTALL)
"""What a source wrote stands behind the second colon only: nobody writes an owner into it, or out of it."""

Shows = Callable[[str], bool]
"""Whether somebody may see the agent of an id."""


def in_place_of(owners: Collection[str], words: str) -> str:
    """The reason that names the agents whose tool is meant by the words."""
    return f"{_IN_PLACE}{', '.join(sorted(owners))}: {words}"


def as_seen[E: (Agent, Tool)](entity: E, shows: Shows | None) -> E:
    """With those flags that tell of no agent which somebody may not see. `shows` None: of somebody who sees all."""
    return replace(entity, flags=seen_flags(entity.flags, shows)) if entity.flags else entity


def seen_flags(flags: Collection[str], shows: Shows | None) -> tuple[str, ...]:
    """The first `MAX_FLAGS`, without the owners that may not be seen, and without what tells of no others."""
    return tuple(told for flag in flags if (told := _told(flag, shows)))[:MAX_FLAGS]


def _told(flag: str, shows: Shows | None) -> str:
    """Empty: nothing of it may be told."""
    found = _OF_ANOTHER.fullmatch(flag)
    if not found:
        return flag
    owners = [owner for owner in found["owners"].split(", ") if shows is None or shows(owner)][:MAX_OWNERS]
    return f"{found['before']}{', '.join(owners)}{found['after']}" if owners else ""
