"""The nouns of change: what a source says and claims, what a sync does, and what a registry tells of itself."""

from collections.abc import Container, Iterable
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Literal, get_args

from waygraph.registry.model.failures import Failure, bounded_key
from waygraph.registry.model.identity import MAX_NAME_CHARS, digest
from waygraph.registry.model.nouns import Agent, JsonText, TextForm, Tool
from waygraph.registry.model.taxonomy import Taxonomy
from waygraph.registry.model.toolset import Toolset

_IN = " @ "
"""Between the key of an entry and its document."""

Policy = Literal["accept", "hold", "strict"]
"""What becomes of a source's changes. accept: they hold at once. hold: tools that it changes or adds after its first
sync stay out of routing until they are approved. strict: so does all that it says from the first."""
STRICTNESS: tuple[Policy, ...] = get_args(Policy)
"""The policies, the most lenient first."""
TELLING_OF_AGENT = frozenset({"name", "description", "kind", "version", "transport"})
TELLING_OF_TOOL = frozenset({"description", "input_schema", "output_schema", "annotations"})
"""By these a model decides what to call, and how."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorSettings:
    """What an operator said of an agent id; survives every sync and the agent's own absence. None: not set.

    `tools`: what was said of its tools, by name, see `tool_settings`; it may hold values that callers must not see.
    """

    agent_id: str
    tags: tuple[str, ...] = ()
    visible_to: tuple[str, ...] | None = None
    pinned: bool = False
    hidden: bool = False
    removed: bool = False
    tools: JsonText = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How the agents that a source claims stand: how many of each status, and how many wait for approval.

    `pending_tools`: of their tools, those that wait themselves.
    """

    online: int = 0
    unreachable: int = 0
    failing: int = 0
    known: int = 0
    pending: int = 0
    pending_tools: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSummary:
    """A source and what it claims. `seen_at` is ISO 8601 in UTC, the last sync that confirmed it; empty: it was never
    read, and is here for its failures alone.

    `standing` is there where somebody looks at sources, not where they are kept.
    """

    name: str
    namespace: str
    rank: int = 0
    policy: Policy = "accept"
    seen_at: str = ""
    pause_s: int = 0
    """A watch writes changes of it at most once in so many seconds, since it changes often; 0: at once."""
    standing: Standing | None = None
    claims: tuple[tuple[str, str], ...] = ()
    """(the source's own key, agent id) of each agent it claims, by agent id."""
    failures: tuple[Failure, ...] = ()
    """What of it does not work, by key."""

    @property
    def agent_ids(self) -> tuple[str, ...]:
        return tuple(agent_id for _, agent_id in self.claims)

    def limit_to(self, agents: Container[str]) -> "SourceSummary":
        """What tells of these agents alone. What else fails, and how often the source changes, may tell of others."""
        claims = tuple(claim for claim in self.claims if claim[1] in agents)
        keys = {bounded_key(key) for key, _ in claims}
        failures = tuple(each for each in self.failures if each.key in keys)
        return replace(self, claims=claims, failures=failures, pause_s=0)


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
    unasked: bool = False
    """Whether only the server itself could tell what it offers, and was not asked: what is held of it stays."""
    document: str = field(default="", compare=False)
    """The file that states it, of a source that may have several: its path from there."""

    @property
    def key_in_document(self) -> str:
        """The key where several documents of the source have it; `plain_key` gives the other one back."""
        key = f"{self.key}{_IN}{self.document}"
        if not self.document or len(key) <= MAX_NAME_CHARS:
            return key if self.document else self.key
        return f"{self.key[:100]}{_IN}{digest(self.key, self.document)[:12]}"

    @property
    def entities(self) -> tuple[Agent | Tool, ...]:
        """The agent, then its tools."""
        return (self.agent, *self.tools)

    @property
    def bundle_hash(self) -> str:
        """SHA-256 over the content hashes of agent and tools: equal means nothing changed."""
        parts = [self.agent.content_hash, *sorted(f"{t.name}:{t.content_hash}" for t in self.tools)]
        return sha256("\n".join(parts).encode()).hexdigest()


def plain_key(key: str) -> str:
    """The key without the document that it is told apart by."""
    return key.rpartition(_IN)[0] or key


def entries_of(agents: Iterable[Agent], tools: Iterable[Tool]) -> list[AgentEntry]:
    """An entry for each agent, under its id, with its tools in their order. Tools of other agents are left out."""
    tools_by_agent: dict[str, list[Tool]] = {}
    for tool in tools:
        tools_by_agent.setdefault(tool.agent_id, []).append(tool)
    return [AgentEntry(key=agent.id, agent=agent, tools=tuple(tools_by_agent.get(agent.id, ()))) for agent in agents]


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
    taxonomies: tuple[Taxonomy, ...] = ()
    """Those of an export that are put where the registry has none of the name."""
    toolsets: tuple[Toolset, ...] = ()
    """The same."""
    gone: tuple[str, ...] = ()
    """Keys of agents that the source says are no more; also a partial one can say so."""
    policy: Policy | None = None
    """None: as it was, and `accept` for a new source."""
    silent: tuple[tuple[str, str], ...] = ()
    """Of servers that were asked and did not answer as they should: the key, and the status that this gives."""
    is_part: bool = False
    """Whether nothing else of the source was looked at: what failed of the rest still fails."""
    pause_s: int | None = None
    """As the source keeps it: how long a watch waits with the next change. None: as it was."""


@dataclass(frozen=True, slots=True)
class Document:
    """A file of a source as text, on its way to where it is read. `unreadable`: why there is no text."""

    name: str
    text: str = ""
    unreadable: str = ""


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
class Update:
    """An entity that changed, and which of its fields did."""

    id: str
    fields: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Flagged:
    """An agent or tool, and why its text looks suspicious."""

    id: str
    flags: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Approved:
    """What somebody approved: ids, in order. `revision` is the registry's after it."""

    agents: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    revision: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What a sync did to an agent that was known before, or to a tool of such an agent: its log, kept in the graph.

    Or what an operator did to a toolset: then `agent_id` is `toolset:NAME`, and there is no source.

    `tool` is the tool's name, empty for the agent itself. `before` and `after` hold the fields that differ, as JSON
    objects; hashes are content hashes, empty where there is none.
    """

    id: str = ""
    """In order of id is in order of time."""
    at: str = ""
    """ISO 8601 in UTC."""
    revision: int = 0
    source: str
    agent_id: str
    tool: str = ""
    what: Literal["added", "changed", "removed"]
    fields: tuple[str, ...] = ()
    before_hash: str = ""
    after_hash: str = ""
    before: JsonText = "{}"
    after: JsonText = "{}"
    flags: tuple[str, ...] = ()
    """Why the new text looks suspicious."""
    covered: tuple[str, ...] = ()
    """The fields over which an operator's own words stand: of these callers saw no change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeSet:
    """What a sync will do. `written` holds the new state of each created or updated agent, whole."""

    source: str
    namespace: str = ""
    rank: int = 0
    policy: Policy = "accept"
    new_terms: bool = False
    """Whether the source was known before, with another namespace, rank or policy."""
    written: tuple[AgentEntry, ...] = ()
    created_agents: tuple[str, ...] = ()
    created_tools: tuple[str, ...] = ()
    updated_agents: tuple[Update, ...] = ()
    updated_tools: tuple[Update, ...] = ()
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
    waiting: tuple[str, ...] = ()
    """Ids of the agents and tools among those written that wait for approval."""
    flagged: tuple[Flagged, ...] = ()
    """New and changed texts that look suspicious."""
    log: tuple[Change, ...] = ()
    """What is to be kept of it, before it has an id, a time and a revision."""
    failures: tuple[Failure, ...] = ()
    """What of the source does not work from now on."""
    pause_s: int = 0

    @property
    def is_empty(self) -> bool:
        return not any(
            (
                self.written,
                self.removed_agents,
                self.removed_tools,
                self.claims,
                self.released,
                self.operator,
                self.new_terms,
            )
        )

    @property
    def took_nothing(self) -> bool:
        """Whether records were rejected, and none was taken: nothing of what the source says now is known."""
        any_known = self.created_agents or self.updated_agents or self.unchanged_agents or self.withheld
        return bool(self.rejected) and not any_known and not self.removed_agents

    @property
    def changed_behaviour(self) -> tuple[Update, ...]:
        """Known tools whose description or schema is another now: the sign of a rug pull."""
        return tuple(u for u in self.updated_tools if TELLING_OF_TOOL & set(u.fields))


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncReport:
    """What a sync did, or with `dry_run` would do. `revision` is the registry's after it."""

    changes: ChangeSet
    dry_run: bool = False
    revision: int
    seconds: float
    texts_embedded: int
    notice: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """The revision after a write, and how many texts it had to embed."""

    revision: int
    texts_embedded: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgotten(Written):
    """The ids of what went with a source.

    `ingest_again`: sources that speak for an agent now, and say something else than is held until they are read again.
    """

    agents: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    ingest_again: tuple[str, ...] = ()


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
    failures: tuple[Failure, ...] = ()
    """What of the sources does not work."""


@dataclass(frozen=True, slots=True)
class ListedAgent:
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
