"""What a registry says of itself: its state, parts of its lists, all of one agent, rows of a Cypher statement."""

from dataclasses import dataclass

from waygraph.registry.model.changes import OperatorSettings
from waygraph.registry.model.nouns import Agent, TextForm, Tool


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexState:
    """Which revision the index shows, and by what its vectors were made (empty: it has none)."""

    revision: int
    agents: int
    tools: int
    embedder: str
    embedder_spec: str
    texts: TextForm
    dimension: int
    schema_version: int
    commit: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """Where a registry is and what it holds. `revision` grows by one with every committed change."""

    location: str
    state: IndexState
    sources: int


@dataclass(frozen=True, slots=True)
class Listed:
    """An agent in a list, with the number of its tools."""

    agent: Agent
    tools: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Page[T]:
    """A part of a list, in order of id. `following`: where the next part begins; empty: nothing follows."""

    items: tuple[T, ...]
    revision: int
    following: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """All that is known of one agent. `settings` None: no operator said anything of it."""

    agent: Agent
    tools: tuple[Tool, ...]
    settings: OperatorSettings | None
    sources: tuple[str, ...]
    """The names of those that claim it."""
    revision: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CypherResult:
    """Rows in JSON's types, each with as many values as there are columns, at most `cypher_max_rows` of them."""

    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]
    truncated: bool
    elapsed_ms: float
    notice: str = ""
    """Of names in the statement that no registry in a file has."""
