"""The nouns of change: what a source says and claims, what a sync does, and what a registry tells of itself.

What of a source does not work: the source itself, or an agent that it lists, since when and why.

The graph keeps it with the source, so that every process and every caller who sees everything learns of it.
"""

import json
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Literal, get_args, overload

from waygraph.registry.model.identity import MAX_NAME_CHARS, digest, replace_surrogates
from waygraph.registry.model.identity import agent_id as id_of
from waygraph.registry.model.nouns import (
    HIDDEN_REASON,
    Agent,
    JsonListsOrNull,
    JsonObject,
    JsonObjectsOrNull,
    JsonText,
    JsonTextsOrNull,
    TextForm,
    Tool,
    failing,
    reachable,
    reason_of_status,
    unreachable_since,
)

MAX_FAILURES = 100
"""Of one source, by key; further ones are not kept."""
MAX_KEY_CHARS = 200

type SourceStatuses = Mapping[str, Mapping[str, str]]
"""By source: of each key that was tried the status, as `Agent.status` has it. Key empty: the source itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """`key` may also be a document's place. `since`: the first time of the present failure. `reason`: one bounded line
    without secrets.
    """

    source: str
    key: str = ""
    """The source's own name for it; empty: the source itself cannot be read."""
    since: str
    """ISO 8601 in UTC."""
    reason: str
    """The latest one; told with the scope `admin`."""

    @property
    def without_reason(self) -> "Failure":
        """For callers who may not read how servers are started."""
        return replace(self, reason=HIDDEN_REASON)


def bounded_key(key: str) -> str:
    """As a failure keeps it: the record may have been refused for what its key is."""
    return replace_surrogates(key if len(key) <= MAX_KEY_CHARS else f"{key[: MAX_KEY_CHARS - 1]}…")


def continue_failures(
    source: str, before: Iterable[Failure], statuses: Mapping[str, str], now: str, *, remaining: Collection[str] | None
) -> tuple[Failure, ...]:
    """The failures of a source after some of it was tried, by key.

    `statuses`: of each key that was tried, as `Agent.status` has it; one that works fails no more. Of the others those
    in `remaining` go on (None: all). A failure that goes on keeps its `since`.
    """
    by_key = {bounded_key(key): status for key, status in statuses.items()}
    failures_before = {each.key: each for each in before}
    others = {
        key: each
        for key, each in failures_before.items()
        if key not in by_key and (remaining is None or key in remaining)
    }
    for key, status in by_key.items():
        if not reachable(status):
            since = failures_before[key].since if key in failures_before else unreachable_since(status) or now
            others[key] = Failure(source=source, key=key, since=since, reason=reason_of_status(status))
    return tuple(others[key] for key in sorted(others)[:MAX_FAILURES])


def status_of_fault(reason: str) -> str:
    """The status of what was refused, or could not be read."""
    return failing(replace_surrogates(reason))


def failures_json(failures: Iterable[Failure]) -> JsonText:
    """As the graph keeps them with their source."""
    return json.dumps([[each.key, each.since, each.reason] for each in failures], ensure_ascii=False)


def read_failures(source: str, text: JsonText) -> tuple[Failure, ...]:
    """Of what `failures_json` wrote."""
    return tuple(Failure(source=source, key=key, since=since, reason=reason) for key, since, reason in json.loads(text))


_IN = " @ "
"""Between the key of an entry and its document."""

Policy = Literal["accept", "hold", "strict"]
"""What becomes of a source's changes. accept: they hold at once. hold: tools that it changes or adds after its first
sync stay out of routing until they are approved. strict: so does all that it says from the first."""
STRICTNESS: tuple[Policy, ...] = get_args(Policy)
"""The policies, the most lenient first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorSettings:
    """What an operator said of an agent id; survives every sync and the agent's own absence. None: not set.

    `tools`: see `tool_settings`; it may hold values that callers must not see.
    """

    agent_id: str
    tags: tuple[str, ...] = ()
    visible_to: tuple[str, ...] | None = None
    pinned: bool = False
    hidden: bool = False
    removed: bool = False
    tools: JsonObjectsOrNull = ""
    """What they said of its tools, by name; null: nothing, or the caller lacks the scope admin."""
    rejections: JsonListsOrNull = ""
    """What they rejected, by the tool's name (empty: the agent itself) of each text hash, reason, by and at; null as
    above.
    """
    wishes: JsonTextsOrNull = ""
    """What its server asked for and its box refused, and why that stays refused; an empty reason: it is granted. Null
    as above.
    """

    @property
    def audience(self) -> tuple[tuple[str, ...] | None, bool]:
        """To whom it is shown. Skills share that of the server that lists them."""
        return self.visible_to, self.hidden


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How the agents that a source claims stand: how many of each status, and how many wait for approval."""

    online: int = 0
    unreachable: int = 0
    failing: int = 0
    known: int = 0
    """Never asked."""
    pending: int = 0
    """Agents that wait for approval."""
    pending_tools: int = 0
    """Tools of its agents that wait themselves."""
    rejections: int = 0
    """Agents and tools that operators rejected as they are now."""
    notices: int = 0
    """How many flags of its agents and tools are notices (`nouns.NOTICE`), as the caller sees them; two of one text are
    two. A suspicion is none: it denies what it flags, or holds it back, which `pending` and `pending_tools` count.
    """
    notices_at: str = ""
    """The first agent or tool that has a notice, for `waygraph show`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSummary:
    """A source and what it claims. `seen_at` is ISO 8601 in UTC, the last sync that confirmed it.

    `standing` is there where somebody looks at sources, not where they are kept.
    """

    name: str
    namespace: str
    rank: int = 0
    policy: Policy = "accept"
    owner: str = ""
    """The id of the writer whose source it is (`operators.rights`); empty: it is the operators'."""
    seen_at: str = ""
    """Empty: it was never read."""
    pause_s: int = 0
    """A watch writes changes of it at most once in so many seconds; 0: at once."""
    standing: Standing | None = None
    claims: tuple[tuple[str, str], ...] = ()
    """(the source's own key, agent id) of each agent it claims, by agent id."""
    failures: tuple[Failure, ...] = ()
    """What of it does not work, by key."""

    @property
    def agent_ids(self) -> tuple[str, ...]:
        return tuple(agent_id for _, agent_id in self.claims)

    def without_failures_of(self, agents: Container[str]) -> "SourceSummary":
        """Without the failures of these agents, also of one that this source could not list yet."""
        ids = {bounded_key(key): agent_id for key, agent_id in self.claims}
        failures = (each for each in self.failures if ids.get(each.key, each.key and id_of(each.key)) not in agents)
        return replace(self, failures=tuple(failures))

    def limit_to(self, agents: Container[str]) -> "SourceSummary":
        """What tells of these agents alone. What else fails, how often the source changes, and who owns it may tell of
        others.
        """
        claims = tuple(claim for claim in self.claims if claim[1] in agents)
        keys = {bounded_key(key) for key, _ in claims}
        failures = tuple(each for each in self.failures if each.key in keys)
        return replace(self, claims=claims, failures=failures, pause_s=0, owner="")


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
    hidden_tools: tuple[str, ...] = ()
    """Names of those that the source keeps from models."""
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


OF_SERVER = "/skills/"


def server_key(key: str) -> str:
    """The key of the server that lists a skill; any other key as it is."""
    return key.partition(OF_SERVER)[0]


def plain_key(key: str) -> str:
    """The key without the document that it is told apart by."""
    return key.rpartition(_IN)[0] or key


def entries_of(agents: Iterable[Agent], tools: Iterable[Tool]) -> list[AgentEntry]:
    """An entry for each agent, under its id, with its tools in their order. Tools of other agents are left out."""
    tools_by_agent: dict[str, list[Tool]] = {}
    for tool in tools:
        tools_by_agent.setdefault(tool.agent_id, []).append(tool)
    return [AgentEntry(key=agent.id, agent=agent, tools=tuple(tools_by_agent.get(agent.id, ()))) for agent in agents]


@dataclass(frozen=True, slots=True)
class Document:
    """A file of a source as text, on its way to where it is read. `unreadable`: why there is no text."""

    name: str
    text: str = ""
    unreadable: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """That a source claims an agent. `hash` is the bundle hash it stated, `since` ISO 8601 in UTC.

    `revision`: the one that made it, by which claims are in order; 0: an older Waygraph made it, and `since` tells.
    """

    source: str
    agent_id: str
    key: str
    hash: str
    rank: int = 0
    since: str = ""
    revision: int = 0

    @property
    def order(self) -> str:
        """Of two claims the earlier one has the lower. A clock may go back, revisions do not."""
        return f"{self.revision:012d} {self.since}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Updated:
    """An entity that changed, and which of its fields did."""

    id: str
    fields: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Flagged:
    """An agent or tool, and why its text looks suspicious."""

    id: str
    flags: tuple[str, ...]


KeyState = Literal["active", "expired", "revoked"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeySummary:
    """An API key without its text, of which only the hash is kept. Times are ISO 8601 in UTC; empty: never."""

    id: str
    name: str
    state: KeyState
    scopes: tuple[str, ...]
    groups: tuple[str, ...]
    everything: bool
    toolset: str
    created_at: str
    expires_at: str
    revoked_at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NewKey(KeySummary):
    """A key that was just made."""

    key: str = field(repr=False)
    """Its text, which is told this once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Approved:
    """What somebody approved: ids, in order. `revision` is the registry's after it."""

    agents: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    wishes: tuple[str, ...] = ()
    """Of servers in boxes."""
    revision: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejections(Approved):
    """What somebody rejected, in the same form."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """An agent or a tool that waits, or whose text is flagged and not approved, or that was rejected as it is now. Or
    what an agent's server asked for and its box refused.
    """

    id: str
    """Of a wish of a server: its agent's id and the wish, such as `AGENT reaches HOST:PORT`."""
    agent_id: str
    tool: str = ""
    """The tool's name; empty: the agent itself."""
    description: str = ""
    content_hash: str = ""
    """Of all that it says now, which an approval or a rejection takes with its id."""
    fields: tuple[str, ...] = ()
    """Those in which it says anything that a model or the ranking reads."""
    chars: int = 0
    """How many characters these have."""
    pending: bool
    """Whether it is out of routing."""
    rejection: str = ""
    """Why somebody rejected it; empty: it waits."""
    flags: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    """Those that claim the agent, as far as the caller sees them."""
    since: str = ""
    """When it last changed. ISO 8601 in UTC; empty: before what the log holds."""
    change: "Change | None" = None
    """The last change of its text that the log holds, together with those before it since the text that was approved:
    `before` is of that one. Without it where the log does not reach back so far.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What a sync did to an agent, or to a tool of an agent that was known before: its log, kept in the graph.

    Or what an operator rejected, or did to a toolset: then there is no source. Of what arrives, an agent with its tools
    or a source, only numbers are kept. Hashes are content hashes, empty where there is none.
    """

    id: str = ""
    """In order of id is in order of time."""
    at: str = ""
    """ISO 8601 in UTC."""
    revision: int = 0
    source: str
    """Empty: one of which the caller sees no agent any more."""
    agent_id: str
    """Or `source:NAME`, which was read for the first time or brought very many agents at once, or `toolset:NAME`, which
    an operator changed.
    """
    tool: str = ""
    """The tool's name; empty: the agent itself."""
    what: Literal["added", "changed", "removed", "rejected"]
    """rejected: by an operator; `after` has the reason."""
    fields: tuple[str, ...] = ()
    before_hash: str = ""
    after_hash: str = ""
    before: JsonObject = "{}"
    """The fields that differ, long texts cut to where they do."""
    after: JsonObject = "{}"
    flags: tuple[str, ...] = ()
    """Why the new text looks suspicious."""
    covered: tuple[str, ...] = ()
    """The fields over which an operator's own words stand."""

    @property
    def is_arrival(self) -> bool:
        """Whether it tells that something new came, whole."""
        return self.what == "added" and not self.tool


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeSet:
    """What a sync will do. `written` holds the new state of each created or updated agent, whole."""

    source: str
    namespace: str = ""
    rank: int = 0
    policy: Policy = "accept"
    owner: str = ""
    new_terms: bool = False
    """Whether the source was known before, with another namespace, rank or policy."""
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
        entities = (self.written, self.removed_agents, self.removed_tools)
        return not any((*entities, self.claims, self.released, self.operator, self.new_terms))

    @property
    def took_nothing(self) -> bool:
        """Whether records were rejected, and none was taken: nothing of what the source says now is known."""
        any_known = self.created_agents or self.updated_agents or self.unchanged_agents or self.withheld
        return bool(self.rejected) and not any_known and not self.removed_agents

    @property
    def changed_behaviour(self) -> tuple[Updated, ...]:
        """Known tools whose description or schema is another now: the sign of a rug pull."""
        return tuple(u for u in self.updated_tools if not {"tags", "questions"}.issuperset(u.fields))


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
    """The ids of what went with a source."""

    agents: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    ingest_again: tuple[str, ...] = ()
    """Sources that speak for an agent now. What the forgotten one said holds until they are read again."""


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
class Page[T](Sequence[T]):
    """A part of a list, in order of id. `following`: where the next part begins; empty: nothing follows."""

    items: tuple[T, ...]
    revision: int
    following: str = ""

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[T]:
        return iter(self.items)

    @overload
    def __getitem__(self, index: int) -> T: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[T, ...]: ...

    def __getitem__(self, index: int | slice) -> T | tuple[T, ...]:
        return self.items[index]


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """All that is known of one agent. `settings` None: no operator said anything of it. `sources` claim it, by name."""

    agent: Agent
    tools: tuple[Tool, ...]
    settings: OperatorSettings | None
    sources: tuple[str, ...]
    revision: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CypherResult:
    """Rows in JSON's types, each with as many values as there are columns, at most `cypher_max_rows` of them."""

    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]
    truncated: bool
    """Whether there are more rows than are told."""
    elapsed_ms: float
    notice: str = ""
    """Names in the statement that no registry in a file has."""
