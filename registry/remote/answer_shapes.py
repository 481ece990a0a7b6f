"""The JSON of a service's answers, where it is more than a noun by its fields, or has a name and text of its own.

A class here is never made. Its docstring describes the answer, the text below a field that field. A field that a class
states again stands after all others, and one with a value may be missing. What inherits a noun stands for it.
"""

from typing import Any, Literal

from waygraph.registry.http.problems import Problem
from waygraph.registry.model import changes, failures, nouns
from waygraph.registry.model.nouns import JsonText, TextForm
from waygraph.registry.model.usage import ToolUsage as UsageNoun
from waygraph.registry.operators.toolset import Toolset as ToolsetNoun
from waygraph.registry.taxonomy.tree import CategoryView

Definitions = tuple[dict[str, Any], ...]


class Agent(nouns.Agent):
    pass


class ListedAgent(Agent):
    tools: int
    """How many it has."""


class Tool(nouns.Tool):
    """A tool. Its schemas, annotations, questions and hash are there if `schema` was asked for."""

    input_schema: JsonText = ""
    output_schema: JsonText = ""
    annotations: JsonText = ""
    questions: tuple[str, ...] = ()
    content_hash: str = ""
    approved_hash: str = ""


class DefinedTool(Tool):
    definitions: Definitions = ()
    """It in a host's own format, if asked for."""


class Step(nouns.Route):
    matches: tuple[nouns.AgentMatch, ...]
    pinned: tuple[nouns.AgentMatch, ...]
    steps: tuple[Any, ...]


class Route(Step):
    steps: tuple[Step, ...]
    definitions: Definitions = ()
    """The tools in a host's own format, if asked for."""


class ToolStep(nouns.ToolRoute):
    matches: tuple[nouns.ToolMatch, ...]
    steps: tuple[Any, ...]


class ToolRoute(ToolStep):
    steps: tuple[ToolStep, ...]
    definitions: Definitions = ()
    """The tools in a host's own format, if asked for."""


class Routed:
    """One of the two."""

    route: Route | None
    problem: Problem | None


class Batch:
    answers: tuple[Routed, ...]


class Recipe:
    name: str
    purpose: str


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
    definitions: Definitions = ()
    """The tools in a host's own format, if asked for."""


class Category(CategoryView):
    """A category of a taxonomy, as far as the caller sees what is under it."""


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


class Failure(failures.Failure):
    """What of a source does not work, until it does, or the source names it no more."""


class Source(changes.SourceSummary):
    standing: Standing
    failures: tuple[Failure, ...]
    agents: tuple[str, ...]
    claims: tuple[Claim, ...]  # type: ignore[assignment] # as objects


class Sources:
    sources: tuple[Source, ...]


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


class Ingest:
    """A manifest that is taken after the answer. `reports` and `problem`: as where the answer is waited for."""

    id: str
    source: str
    state: Literal["queued", "running", "done", "failed"]
    arrival_time: str
    """In ISO 8601."""
    start_time: str
    """Empty: it waits."""
    end_time: str
    """Empty: it has not ended."""
    reports: tuple[Report, ...]
    problem: Problem | None
    """Why it failed, or why the manifests after the reports were not taken."""


class Change(changes.Change):
    """What came, or what a sync changed of an agent, a tool or, by an operator, a toolset."""


class Changes(Part):
    changes: tuple[Change, ...]


class ToolUsage(UsageNoun):
    """How the gateway's calls of a tool ended. `refused`: nothing was sent. `cancelled`: by who called."""


class Usage:
    usage: tuple[ToolUsage, ...]


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


class ForgottenLogin:
    agent_id: str
    forgotten: bool
    """Whether there was a login."""


class Alive:
    alive: bool


class Ready:
    ready: bool
