"""What a command gathers from several answers of the core, before it is shown."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from waygraph.registry.changes import OperatorSettings, SourceSummary, SyncReport
    from waygraph.registry.model import Agent, Tool


@dataclass(frozen=True, slots=True)
class Listed:
    """An agent in a list, with the number of its tools."""

    agent: "Agent"
    tools: int


@dataclass(frozen=True, slots=True)
class AgentPage:
    """All that is known of one agent. `settings` None: no operator said anything of it."""

    agent: "Agent"
    tools: "tuple[Tool, ...]"
    settings: "OperatorSettings | None"
    sources: "tuple[SourceSummary, ...]"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one source. `given` is the SOURCE as typed; without a `report` the `error` says why.

    `without_questions`: tools that its author of questions had no fit answer for.
    """

    given: str
    report: "SyncReport | None" = None
    error: str = ""
    without_questions: int = 0


@dataclass(frozen=True, slots=True)
class Exported:
    """An export: in the file `path`, or as `content` if there is no path."""

    form: str
    size_bytes: int
    path: str | None = None
    content: str | None = None
