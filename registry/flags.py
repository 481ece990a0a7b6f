"""Flags that tell of another agent: only who may see that agent reads them."""

import re
from collections.abc import Callable, Collection
from dataclasses import replace

from waygraph.registry.model import Agent, Tool

MAX_OWNERS = 5
_IN_PLACE = "puts itself in the place of a tool of "
_OF_ANOTHER = re.compile(rf"(?P<before>[a-z ]+: {_IN_PLACE})(?P<owners>[^:]+)(?P<after>: .*)", re.DOTALL)
"""What a source wrote stands behind the second colon only: nobody writes an owner into it, or out of it."""

Shows = Callable[[str], bool]
"""Whether somebody may see the agent of an id."""


def in_place_of(owners: Collection[str], words: str) -> str:
    """The reason that names the agents, the first `MAX_OWNERS` by id, whose tool is meant by the words."""
    return f"{_IN_PLACE}{', '.join(sorted(owners)[:MAX_OWNERS])}: {words}"


def as_seen[E: (Agent, Tool)](entity: E, shows: Shows | None) -> E:
    """With those flags that tell of no agent which somebody may not see. `shows` None: of somebody who sees all."""
    if shows is None or not entity.flags:
        return entity
    return replace(entity, flags=seen_flags(entity.flags, shows))


def seen_flags(flags: Collection[str], shows: Shows | None) -> tuple[str, ...]:
    """Without the owners that may not be seen, and without what tells of no others."""
    if shows is None:
        return tuple(flags)
    return tuple(told for flag in flags if (told := _told(flag, shows)))


def _told(flag: str, shows: Shows) -> str:
    """Empty: nothing of it may be told."""
    found = _OF_ANOTHER.fullmatch(flag)
    if not found:
        return flag
    owners = [owner for owner in found["owners"].split(", ") if shows(owner)]
    return f"{found['before']}{', '.join(owners)}{found['after']}" if owners else ""
