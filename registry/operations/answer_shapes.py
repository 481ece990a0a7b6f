"""The JSON of a service's answers, where it is more than a noun, or a list of them, by its fields, or has a name and
text of its own.

A class here is never made. Its docstring describes the answer, the text below a field that field. A field that a class
states again stands after all others, and one with a value may be missing. What inherits a noun stands for it.
"""

from typing import Any

from waygraph.registry.http.problems import Problem
from waygraph.registry.model import changes, nouns
from waygraph.registry.model.nouns import JsonText, TextForm
from waygraph.registry.model.tool_calls import RankedTool
from waygraph.registry.model.usage import RecordedCall
from waygraph.registry.model.usage import ToolUsage as UsageNoun
from waygraph.registry.model.usage import UsagePart as UsagePartNoun
from waygraph.registry.operators.toolset import Toolset as ToolsetNoun
from waygraph.registry.taxonomy import tree
from waygraph.registry.taxonomy.tree import CategoryView, Taxonomy

Definitions = tuple[dict[str, Any], ...]


class Agent(nouns.Agent):
    pass


class ListedAgent(Agent):
    tools: int
    """How many it has."""
    cannot_run: str = ""
    """Why nothing runs its tools here; empty: a call can be tried."""


class Tool(nouns.Tool):
    """A tool. Its schemas, annotations, questions and hash are there if `schema` was asked for."""

    input_schema: JsonText = ""
    output_schema: JsonText = ""
    annotations: JsonText = ""
    questions: tuple[str, ...] = ()
    content_hash: str = ""
    approved_hash: str = ""


class SourceForm:
    """A tool as its source states it, and what operators set of it."""

    description: str
    input_schema: JsonText
    setting: dict[str, Any]


class DefinedTool(Tool):
    source_form: SourceForm | None = None
    """What operators changed, for callers with the scope admin; null: nothing."""


class AgentFacts(changes.About):
    """All that is known of an agent."""

    cannot_run: str = ""
    """Why nothing runs its tools here; empty: a call can be tried."""


class AgentMatch(nouns.AgentMatch):
    """`score`: the sum of the votes' contributions; `tools`: its best."""

    cannot_run: str = ""
    """Of the first, explained: why."""


class Step(nouns.Route):
    matches: tuple[AgentMatch, ...]
    pinned: tuple[AgentMatch, ...]
    steps: tuple[Any, ...]


class Route(Step):
    steps: tuple[Step, ...]
    definitions: Definitions = ()
    """The tools in a host's own format, if asked for."""


class ToolStep(nouns.ToolRoute):
    matches: tuple[nouns.ToolMatch, ...]
    steps: tuple[Any, ...]


class ToolRoute(nouns.ToolRoute):
    matches: tuple[RankedTool, ...]
    steps: tuple[ToolStep, ...]
    definitions: Definitions = ()
    """The tools in a host's own format, if asked for."""


class BatchAnswer:
    """One of the two."""

    route: Route | None
    problem: Problem | None


class Batch:
    answers: tuple[BatchAnswer, ...]


class Recipe:
    name: str
    purpose: str
    hindrance: str = ""
    """Why it cannot answer here as it should, and what enables it; empty: it can."""


class Recipes:
    recipes: tuple[Recipe, ...]


class Part:
    revision: int
    following: str
    """The `cursor` of the next part; empty: this is the last."""


class Agents(Part):
    agents: tuple[ListedAgent, ...]


class Tools(Part):
    tools: tuple[Tool, ...]


class CategoryPage(CategoryView):
    """A category of a taxonomy, as far as the caller sees what is under it."""


class TaxonomyTree(Taxonomy):
    """A taxonomy, as far as the caller sees what its categories hold: the root first, parents before children."""

    categories: tuple[tree.Category, ...]  # type: ignore[assignment] # the JSON is no object


class Toolset(ToolsetNoun):
    """A toolset, as far as the caller may see what it names and includes."""


class Toolsets:
    toolsets: tuple[Toolset, ...]
    revision: int


class Settings(changes.OperatorSettings):
    """What operators said of an agent. `visible_to` null: its source decides."""


class Claim:
    key: str
    agent_id: str


class Standing(changes.Standing):
    """How the agents that a source claims stand, as far as the caller sees them."""


class Failure(changes.Failure):
    """What of a source does not work, until it does, or the source names it no more."""


class Source(changes.SourceSummary):
    standing: Standing
    failures: tuple[Failure, ...]
    agents: tuple[str, ...]
    claims: tuple[Claim, ...]  # type: ignore[assignment] # as objects


class Look:
    """When this service looks at a source that it follows."""

    name: str
    every_s: float
    """From one look at it to the next; what its servers tell of comes at once. 0: it was not looked at yet."""
    next_at: str
    """In ISO 8601; empty: within a few seconds."""


class Sources:
    sources: tuple[Source, ...]
    titles: dict[str, str]
    """What people call each source, by name."""
    looks: tuple[Look, ...]


class Status:
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
    failures: tuple[Failure, ...]
    """What of the sources does not work, as far as the caller sees it."""


class Changed:
    created: tuple[str, ...]
    updated: tuple[changes.Updated, ...]
    removed: tuple[str, ...]
    unchanged: int


class Renamed:
    key: str
    id: str


class Rejected:
    where: str
    reason: str


class Report:
    """What a sync did, or in a dry run would do."""

    source: str
    dry_run: bool
    revision: int
    seconds: float
    texts_embedded: int
    notice: str
    agents: Changed
    tools: Changed
    changed_behaviour: tuple[changes.Updated, ...]
    waiting: tuple[str, ...]
    flagged: tuple[changes.Flagged, ...]
    renamed: tuple[Renamed, ...]
    withheld: tuple[str, ...]
    rejected: tuple[Rejected, ...]
    cut: tuple[Rejected, ...]


class Reports:
    """`problem`: why the manifests after these were not taken."""

    reports: tuple[Report, ...]
    problem: Problem | None


class Change(changes.Change):
    """What came, or what a sync changed of an agent, a tool or, by an operator, a toolset."""


class Waiting(changes.Waiting):
    change: Change | None


class ToolUsage(UsageNoun):
    """How the gateway's calls of a tool ended. `refused`: nothing was sent. `cancelled`: by who called."""


class Rejections(changes.Rejections):
    """The ids of what waited and waits no more, and of flagged texts that are out of routing now."""


class UsagePart(UsagePartNoun):
    """Calls of a day, of a tool or of a caller; or requests, of which `empty` found nothing."""


class Key(changes.KeySummary):
    """An API key without its text, of which only the hash is kept."""


class ChangedSetting:
    name: str
    """The variable that sets it."""
    value: str
    """Empty: it is a secret."""


class ServiceState:
    """How the service runs, as the worker that answers sees it."""

    version: str
    python: str
    memory_bytes: int
    """Of the worker that answers; 0: not known."""
    ready: bool
    asks_who_calls: bool
    settings: tuple[ChangedSetting, ...]
    """Those that are not as they are by default."""
    cautions: tuple[str, ...]
    """What an operator should look at."""


class Evaluation:
    path: str
    """Below the folder."""
    record: dict[str, Any]
    """What `waygraph eval -o FILE` wrote there, without its queries."""


class Evaluations:
    folder: str
    """Empty: the operator names none (`WAYGRAPH_EVALS_DIR`)."""
    records: tuple[Evaluation, ...]
    other_files: int
    """How many there are that are no such record, or too large, or older than the newest 200."""


class Approved(changes.Approved):
    """The ids of what waited and waits no more, and of flagged texts that are approved now."""


class Written(changes.Written):
    """The registry's revision after the write."""


class Forgotten(changes.Forgotten):
    """The ids of what went with the source: agents that only it claimed, and their tools."""


class Rows(changes.CypherResult):
    pass


class OwnLogin:
    agent_id: str
    by: str
    """`oauth`, or `header`: a key that the caller typed."""
    at: str
    """When it was made, in ISO 8601."""


class OwnLogins:
    logins: tuple[OwnLogin, ...]


class RecordedCalls:
    calls: tuple[RecordedCall, ...]


class ForgottenLogin:
    agent_id: str
    forgotten: bool
    """Whether there was a login."""


class Alive:
    alive: bool


class Ready:
    ready: bool
