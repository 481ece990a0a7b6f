"""The shapes of answers, for the OpenAPI document. `registry.model.shapes` makes them; a test compares the two."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from waygraph.registry.model.changes import Policy
from waygraph.registry.model.nouns import AgentKind, EntityKind, TextForm
from waygraph.registry.taxonomy.tree import Of


class Answer(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Problem(Answer):
    """RFC 9457. `code` names the kind of error, `facts` is what it knows; `instance` finds it in the service's log."""

    type: str
    title: str
    status: int
    detail: str
    instance: str
    code: str
    retryable: bool = Field(description="Whether the same request may succeed later, unchanged.")
    facts: dict[str, Any]


class Agent(Answer):
    id: str
    name: str
    description: str
    kind: AgentKind
    version: str
    transport: dict[str, Any] | None = Field(
        description="How it is reached. Without the scope `admin`: its kind and public address."
    )
    tags: list[str]
    visible_to: list[str] = Field(description="The groups that may see it; empty: everyone.")
    pinned: bool
    hidden: bool
    pending: bool = Field(description="Waits for approval: out of routing and search with all its tools.")
    flags: list[str] = Field(description="Why its text looks suspicious.")
    status: str = Field(description="known, online, `unreachable since TIME: REASON` or `failing: REASON`.")
    content_hash: str
    approved_hash: str = Field(description="The content hash that somebody approved last; empty: none.")


class ListedAgent(Agent):
    tools: int = Field(description="How many it has.")


class Tool(Answer):
    """A tool. Its schemas, annotations, questions and hash are there if `schema` was asked for."""

    id: str
    agent_id: str
    name: str
    call_name: str = Field(description="Its name for hosts, unique over all agents.")
    description: str
    tags: list[str]
    pending: bool = Field(description="Waits for approval: out of routing and search.")
    flags: list[str] = Field(description="Why its text looks suspicious.")
    status: str
    input_schema: Any = None
    output_schema: Any = None
    annotations: Any = None
    questions: list[str] = []
    content_hash: str = ""
    approved_hash: str = ""


class DefinedTool(Tool):
    definitions: list[dict[str, Any]] = Field(default=[], description="It in a host's own format, if asked for.")


class Vote(Answer):
    entity_id: str
    kind: EntityKind
    leg: str
    rank: int
    score: float
    weight: float
    contribution: float


class AgentMatch(Answer):
    agent: Agent
    score: float
    tools: list[Tool]
    votes: list[Vote]


class ToolMatch(Answer):
    tool: Tool
    agent: Agent
    score: float
    votes: list[Vote]


class Query(Answer):
    text: str
    steps: list[str]
    limit: int
    tags: list[str]
    kinds: list[AgentKind]
    agent_ids: list[str]
    reachable: bool
    within: str
    toolset: str
    strict: bool


class Visit(Answer):
    path: str
    opened: list[str]
    pruned: list[str]


class Pick(Answer):
    paths: list[str]
    shown: int
    selected: int


class Walked(Answer):
    mode: str
    selected: list[str]
    calls: int
    prompt_tokens: int
    completion_tokens: int
    visits: list[Visit]
    picks: list[Pick]
    failure: str = Field(description="Why the walk ended early; the answer is hybrid's then.")


class SearchAnswer(Answer):
    query: Query
    recipe: str
    revision: int = Field(description="All of the answer is of this revision.")
    confidence: float | None = Field(description="How likely the registry holds a right agent, from 0 to 1.")
    notice: str = Field(description="What limits the answer; empty: nothing.")
    not_reranked: str
    walked: Walked | None = Field(description="How a language model walked the taxonomy, if the recipe has it do so.")
    reason: str = Field(description="Why there is no match.")
    nearest: list[str] = Field(description="What came nearest, where an answer is withheld: agents or call names.")
    elapsed_ms: float


class Step(SearchAnswer):
    matches: list[AgentMatch]
    pinned: list[AgentMatch]
    steps: list[Any]


class Route(Step):
    steps: list[Step]
    definitions: list[dict[str, Any]] = Field(default=[], description="The tools in a host's own format, if asked for.")


class ToolRoute(SearchAnswer):
    matches: list[ToolMatch]
    definitions: list[dict[str, Any]] = Field(default=[], description="The tools in a host's own format, if asked for.")


class Routed(Answer):
    """One of the two."""

    route: Route | None
    problem: Problem | None


class Batch(Answer):
    answers: list[Routed]


class Recipe(Answer):
    name: str
    purpose: str


class Recipes(Answer):
    recipes: list[Recipe]


class Part(Answer):
    revision: int
    following: str = Field(description="The `cursor` of the next part; empty: this is the last.")


class Agents(Part):
    agents: list[ListedAgent]


class Tools(Part):
    tools: list[Tool]
    definitions: list[dict[str, Any]] = Field(default=[], description="The tools in a host's own format, if asked for.")


class Branch(Answer):
    path: str
    description: str
    count: int = Field(description="How many agents, or tools, are under it.")
    examples: list[str] = Field(description="Ids of at most two of them.")


class Category(Answer):
    """A category of a taxonomy, as far as the caller sees what is under it."""

    taxonomy: str
    of: Of
    built_by: str = Field(description="`vectors`, or the language model.")
    path: str
    description: str
    boundary: str = Field(description="What belongs to a sibling instead.")
    count: int
    children: list[Branch]
    members: list[str] = Field(description="Ids of what stands in it and in no child.")
    revision: int


class Toolset(Answer):
    """A toolset, as far as the caller may see what it names and includes."""

    name: str
    description: str
    tools: list[str] = Field(description="Those that it names, by id.")
    agents: list[str] = Field(description="Those that it names, by id.")
    tags: list[str] = Field(description="Agents with any of them are in it.")
    callers: list[str] = Field(description="Groups that may use it; told to who sees everything.")
    includes: list[str] = Field(description="Ids of its tools.")
    members: list[str] = Field(description="Ids of the agents that it reaches.")
    missing: list[str] = Field(description="What it names and is not there; told to who sees everything.")


class Toolsets(Answer):
    toolsets: list[Toolset]
    revision: int


class Settings(Answer):
    """What operators said of an agent. `visible_to` null: its source decides."""

    agent_id: str
    tags: list[str]
    visible_to: list[str] | None
    pinned: bool
    hidden: bool
    removed: bool
    tools: dict[str, dict[str, Any]] | None = Field(
        description="What they said of its tools, by name; null: nothing, or the caller lacks the scope admin."
    )


class About(Answer):
    agent: Agent
    tools: list[Tool]
    settings: Settings | None
    sources: list[str]
    revision: int


class Claim(Answer):
    key: str
    agent_id: str


class Standing(Answer):
    """How the agents that a source claims stand, as far as the caller sees them."""

    online: int
    unreachable: int
    failing: int
    known: int = Field(description="Never asked.")
    pending: int = Field(description="Agents that wait for approval.")
    pending_tools: int = Field(description="Tools of its agents that wait themselves.")


class Failure(Answer):
    """What of a source does not work, until it does, or the source names it no more."""

    source: str
    key: str = Field(description="The source's own name for it; empty: the source itself cannot be read.")
    since: str = Field(description="ISO 8601 in UTC.")
    reason: str = Field(description="The latest one; told with the scope `admin`.")


class Source(Answer):
    name: str
    namespace: str
    rank: int
    policy: Policy
    seen_at: str = Field(description="Empty: it was never read.")
    pause_s: int = Field(description="A watch writes changes of it at most once in so many seconds; 0: at once.")
    standing: Standing
    failures: list[Failure]
    agents: list[str]
    claims: list[Claim]


class Sources(Answer):
    sources: list[Source]


class Status(Answer):
    location: str
    revision: int
    agents: int
    tools: int
    sources: int
    embedder: str
    embedder_spec: str
    texts: TextForm
    dimension: int
    schema_version: int
    failures: list[Failure] = Field(description="What of the sources does not work, as far as the caller sees it.")


class Updated(Answer):
    id: str
    fields: list[str]


class Changed(Answer):
    created: list[str]
    updated: list[Updated]
    removed: list[str]
    unchanged: int


class Renamed(Answer):
    key: str
    id: str


class Rejected(Answer):
    where: str
    reason: str


class Flagged(Answer):
    id: str
    flags: list[str]


class Report(Answer):
    """What a sync did, or in a dry run would do."""

    source: str
    dry_run: bool
    revision: int
    seconds: float
    texts_embedded: int
    notice: str
    agents: Changed
    tools: Changed
    changed_behaviour: list[Updated]
    waiting: list[str]
    flagged: list[Flagged]
    renamed: list[Renamed]
    withheld: list[str]
    rejected: list[Rejected]
    cut: list[Rejected]


class Reports(Answer):
    """`problem`: why the manifests after these were not taken."""

    reports: list[Report]
    problem: Problem | None


class Change(Answer):
    """What a sync changed of an agent that was known before, or of a tool of such an agent."""

    id: str = Field(description="In order of id is in order of time.")
    at: str = Field(description="ISO 8601 in UTC.")
    revision: int
    source: str = Field(description="Empty: one of which the caller sees no agent any more.")
    agent_id: str = Field(description="Or `toolset:NAME`, which an operator changed.")
    tool: str = Field(description="The tool's name; empty: the agent itself.")
    what: Literal["added", "changed", "removed"]
    fields: list[str]
    before_hash: str
    after_hash: str
    before: dict[str, Any] = Field(description="The fields that differ, long texts cut to where they do.")
    after: dict[str, Any]
    flags: list[str] = Field(description="Why the new text looks suspicious.")
    covered: list[str] = Field(description="The fields over which an operator's own words stand.")


class Changes(Part):
    changes: list[Change]


class ToolUsage(Answer):
    """How the gateway's calls of a tool ended. `refused`: nothing was sent. `cancelled`: by who called."""

    tool_id: str
    calls: int
    ok: int
    tool_error: int
    refused: int
    upstream_failed: int
    timed_out: int
    cancelled: int
    p50_ms: float | None = Field(description="Of the calls that were sent and ended, within 9 %.")
    p95_ms: float | None
    first_at: str = Field(description="ISO 8601 in UTC.")
    last_at: str


class Usage(Answer):
    usage: list[ToolUsage]


class Approved(Answer):
    """The ids of what waited and waits no more, and of flagged texts that are approved now."""

    agents: list[str]
    tools: list[str]
    revision: int


class Written(Answer):
    """The registry's revision after the write."""

    revision: int
    texts_embedded: int


class Forgotten(Answer):
    """The ids of what went with the source: agents that only it claimed, and their tools."""

    revision: int
    texts_embedded: int
    agents: list[str]
    tools: list[str]
    ingest_again: list[str] = Field(
        description="Sources that speak for an agent now. What the forgotten one said holds until they are read again."
    )


class OwnLogin(Answer):
    agent_id: str
    by: str = Field(description="`oauth`, or `header`: a key that the caller typed.")
    at: str = Field(description="When it was made, in ISO 8601.")


class OwnLogins(Answer):
    logins: list[OwnLogin]


class ForgottenLogin(Answer):
    agent_id: str
    forgotten: bool = Field(description="Whether there was a login.")


class Rows(Answer):
    columns: list[str]
    rows: list[list[Any]]
    truncated: bool = Field(description="Whether there are more rows than are told.")
    elapsed_ms: float
    notice: str = Field(description="Names in the statement that no registry in a file has.")


class Alive(Answer):
    alive: bool


class Ready(Answer):
    ready: bool


class ListedServer(BaseModel):
    server: dict[str, Any]
    meta: dict[str, Any] = Field(alias="_meta")


class ServerPlace(BaseModel):
    count: int
    nextCursor: str | None = None  # noqa: N815 - as the format spells it


class ServerList(BaseModel):
    servers: list[ListedServer]
    metadata: ServerPlace


class ToolResult(BaseModel):
    """A `CallToolResult` of MCP as the tool's server has it, an error that the tool tells (`isError`) included."""

    model_config = ConfigDict(extra="allow")

    content: list[dict[str, Any]] = []
    structuredContent: Any = None  # noqa: N815 - as the protocol spells it
    isError: bool = False  # noqa: N815


class FoundResource(BaseModel):
    """An entry of the catalogue, and how well it fits: 100 is the best there can be. It says nothing of trust."""

    model_config = ConfigDict(extra="allow")

    identifier: str
    displayName: str  # noqa: N815 - as the format spells it
    type: str
    url: str
    score: int = Field(ge=0, le=100)
    source: str


class FoundResources(BaseModel):
    results: list[FoundResource]
    referrals: list[dict[str, Any]] | None = None
    pageToken: str | None = None  # noqa: N815


class AiCatalog(BaseModel):
    specVersion: str  # noqa: N815 - as the format spells it
    entries: list[dict[str, Any]]
