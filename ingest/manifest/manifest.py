"""What one source says now: agents with their tools, and what of it could not be taken."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from waygraph.registry.model.changes import AgentEntry, OperatorSettings, Policy, Rejected


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What one source says now. `rank`: a live source (1) speaks before a catalogue (0) for a shared agent.

    `partial`: some of the source could not be read, so that what it does not list is not gone for certain.
    """

    source: str
    namespace: str = ""
    rank: int = 0
    entries: tuple[AgentEntry, ...] = ()
    rejected: tuple[Rejected, ...] = ()
    cut: tuple[Rejected, ...] = ()
    partial: bool = False
    operator: tuple[OperatorSettings, ...] = ()
    """What an export says that operators had set."""
    unrestored: int = 0
    """How many of those an export holds that was not asked to restore them."""
    restores: bool = False
    """Whether it is an export that was: what it does not say waits was in routing, whatever the policy."""
    values: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """By kind, such as toolsets: those of an export that are put where the registry has none of the name."""
    gone: tuple[str, ...] = ()
    """Keys of agents that the source says are no more; also a partial one can say so."""
    policy: Policy | None = None
    """None: as it was, and `accept` for a new source."""
    owner: str = ""
    """Of an export: the writer whose source it was; empty: it was the operators'."""
    silent: tuple[tuple[str, str], ...] = ()
    """Of servers that were asked and did not answer as they should: the key, and the status that this gives."""
    is_part: bool = False
    """Whether nothing else of the source was looked at: what failed of the rest still fails."""
    pause_s: int | None = None
    """As the source keeps it: how long a watch waits with the next change. None: as it was."""
