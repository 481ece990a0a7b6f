"""The nouns. Frozen, slotted, keyword-only values; checked where they enter, trusted inside."""

from dataclasses import dataclass, field
from hashlib import sha256
from typing import Literal

AgentKind = Literal["mcp_server", "a2a_agent", "skill", "openapi", "custom"]
EntityKind = Literal["agent", "tool"]
TextForm = Literal["contextual", "plain"]
JsonText = str
"""Canonical JSON: sorted keys, no spaces, UTF-8 text; equal text means equal value."""

AGENT_KINDS: tuple[AgentKind, ...] = ("mcp_server", "a2a_agent", "skill", "openapi", "custom")


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """Something that can act: an MCP server, an A2A agent, a skill, an OpenAPI service.

    `tags` and `visible_to` are what holds now: the source's word overlaid with the operator's.
    An empty `visible_to` means everyone. `transport` holds secret references only, never values.
    """

    id: str
    name: str
    description: str = ""
    kind: AgentKind = "mcp_server"
    version: str = ""
    transport: JsonText = ""
    tags: tuple[str, ...] = ()
    visible_to: tuple[str, ...] = ()
    pinned: bool = False
    hidden: bool = False
    status: str = "known"
    content_hash: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """One callable of an agent. `id` is `<agent id>/<tool name>`; `call_name` is legal for every host."""

    id: str
    agent_id: str
    name: str
    call_name: str = ""
    description: str = ""
    input_schema: JsonText = "{}"
    output_schema: JsonText = ""
    annotations: JsonText = ""
    tags: tuple[str, ...] = ()
    status: str = "known"
    content_hash: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """Who asks. Without groups it sees what is public; `principal=None` (library, local CLI) sees everything."""

    id: str = ""
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """What may be found at all. Within a field any value fits; all fields must fit; empty means no limit."""

    tags: tuple[str, ...] = ()
    kinds: tuple[AgentKind, ...] = ()
    agent_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A request: `text`, or `steps` of one. `limit` ≥ 1 is the number of agents wanted."""

    text: str = ""
    steps: tuple[str, ...] = ()
    limit: int = 5
    filters: Filters = field(default_factory=Filters)


@dataclass(frozen=True, slots=True, kw_only=True)
class Vote:
    """How one entity spoke for an agent. `rank` 1 is best; `contribution` = weight / (k + rank)."""

    entity_id: str
    kind: EntityKind
    leg: str
    rank: int
    score: float
    weight: float
    contribution: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentMatch:
    """An agent that fits. `score` is the sum of the votes' contributions; `tools` are its best for the query."""

    agent: Agent
    score: float
    votes: tuple[Vote, ...] = ()
    tools: tuple[Tool, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolMatch:
    tool: Tool
    agent: Agent
    score: float
    votes: tuple[Vote, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """The answer: agents best first. Same query, recipe and revision: the same route.

    `pinned` agents stand apart and never count to the limit. `steps` holds a route per step of the query.
    `notice` says what limits the answer (no model, say), `reason` why there is no match.
    """

    query: Query
    matches: tuple[AgentMatch, ...]
    pinned: tuple[AgentMatch, ...] = ()
    steps: tuple["Route", ...] = ()
    recipe: str
    revision: int
    notice: str = ""
    reason: str = ""
    elapsed_ms: float = field(default=0.0, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRoute:
    query: Query
    matches: tuple[ToolMatch, ...]
    recipe: str
    revision: int
    notice: str = ""
    reason: str = ""
    elapsed_ms: float = field(default=0.0, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorSettings:
    """What an operator said of an agent id; survives every sync and the agent's own absence. None: not set."""

    agent_id: str
    tags: tuple[str, ...] = ()
    visible_to: tuple[str, ...] | None = None
    pinned: bool = False
    hidden: bool = False
    removed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSummary:
    """A source and what it claims. `seen_at` is ISO 8601 in UTC, the last sync that confirmed it."""

    name: str
    namespace: str
    rank: int = 0
    seen_at: str = ""
    claims: tuple[tuple[str, str], ...] = ()
    """(the source's own key, agent id) of each agent it claims, by agent id."""

    @property
    def agent_ids(self) -> tuple[str, ...]:
        return tuple(agent_id for _, agent_id in self.claims)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    """A record that was not taken, or (in `cut`) not whole. `where` names file and JSON pointer.

    `key` is the agent's, if it could be read: what is held of that agent then stays as it is.
    """

    where: str
    reason: str
    key: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentEntry:
    """An agent with its tools, as one source states them. `key` is the source's own name for it."""

    key: str
    agent: Agent
    tools: tuple[Tool, ...] = ()

    @property
    def bundle_hash(self) -> str:
        """SHA-256 over the content hashes of agent and tools: equal means nothing changed."""
        parts = [self.agent.content_hash, *sorted(f"{t.name}:{t.content_hash}" for t in self.tools)]
        return sha256("\n".join(parts).encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What one source says now. `rank`: a live source (1) speaks before a catalogue (0) for a shared agent."""

    source: str
    namespace: str = ""
    rank: int = 0
    entries: tuple[AgentEntry, ...] = ()
    rejected: tuple[Rejected, ...] = ()
    cut: tuple[Rejected, ...] = ()
    operator: tuple[OperatorSettings, ...] = ()
    """What an export says that operators had set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """That a source claims an agent. `hash` is the bundle hash it stated; times are ISO 8601 in UTC."""

    source: str
    agent_id: str
    key: str
    hash: str
    rank: int = 0
    since: str = ""
    seen_at: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Updated:
    """An entity that changed, and which of its fields did."""

    id: str
    fields: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeSet:
    """What a sync will do. `written` holds the new state of each created or updated agent, whole."""

    source: str
    namespace: str = ""
    rank: int = 0
    written: tuple[AgentEntry, ...] = ()
    created_agents: tuple[str, ...] = ()
    created_tools: tuple[str, ...] = ()
    updated_agents: tuple[Updated, ...] = ()
    updated_tools: tuple[Updated, ...] = ()
    removed_agents: tuple[str, ...] = ()
    removed_tools: tuple[str, ...] = ()
    unchanged_agents: int = 0
    unchanged_tools: int = 0
    claims: tuple[Claim, ...] = ()
    released: tuple[str, ...] = ()
    renamed: tuple[tuple[str, str], ...] = ()
    """(key in the source, id in the registry) of agents whose own id another agent holds."""
    withheld: tuple[str, ...] = ()
    """Ids that an operator removed and the source still lists."""
    rejected: tuple[Rejected, ...] = ()
    cut: tuple[Rejected, ...] = ()
    operator: tuple[OperatorSettings, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not any(
            (self.written, self.removed_agents, self.removed_tools, self.claims, self.released, self.operator)
        )

    @property
    def changed_behaviour(self) -> tuple[Updated, ...]:
        """Known tools whose description or schema is another now: the sign of a rug pull."""
        telling = {"description", "input_schema", "output_schema", "annotations"}
        return tuple(u for u in self.updated_tools if telling & set(u.fields))


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncReport:
    """What a sync did, or with `dry_run` would do. `revision` is the registry's after it."""

    changes: ChangeSet
    revision: int
    seconds: float
    texts_embedded: int
    dry_run: bool = False
    notice: str = ""
