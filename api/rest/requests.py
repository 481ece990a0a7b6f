"""What requests may hold. Unknown fields and wrong types are refused, with the place that is wrong."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, StringConstraints, model_validator

from waygraph.registry.catalog.tool_formats import ToolFormat
from waygraph.registry.model import shapes
from waygraph.registry.model.changes import Policy
from waygraph.registry.model.nouns import AgentKind, CallOutcome, Query, TextForm, TurnRole
from waygraph.registry.model.tool_settings import MAX_QUESTIONS
from waygraph.registry.model.validation import MAX_NAME_CHARS, MAX_NAMES, MAX_PART
from waygraph.registry.routing.recipes import BY_OPERATOR, DEFAULT_RECIPE, MOST_WEIGHT, RECIPES, Recipe, recipe_named

MAX_STEPS = 50
MAX_BATCH = 100

NULL: dict[str, JsonValue] = {"type": "null"}

Words = Annotated[str, Field(json_schema_extra={"pattern": r"\S"})]
"""A text that is not blank: the core says so when it is asked."""
Name = Annotated[str, StringConstraints(min_length=1, max_length=MAX_NAME_CHARS)]
CategoryPath = Annotated[
    str, Field(max_length=MAX_NAME_CHARS, description="Only what is in this category, such as travel/flights.")
]
ToolsetName = Annotated[str, Field(max_length=MAX_NAME_CHARS, description="Only what is in the toolset of this name.")]
Weight = Annotated[float, Field(ge=0, le=MOST_WEIGHT, allow_inf_nan=False)]


def _whole(value: object) -> object:
    """In JSON 5.0 is the same number as 5."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


class Parameters(BaseModel):
    """Of an address: texts, which are read as what they say."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, use_attribute_docstrings=True)


class RequestFilters(Strict):
    """What may be found at all. Within a field any value fits; all fields must fit; empty means no limit.

    What fits any value of the fields that begin with `without` is left out.
    """

    tags: list[Name] = Field(default=[], max_length=MAX_NAMES)
    kinds: list[AgentKind] = Field(default=[], max_length=5)
    agent_ids: list[Name] = Field(default=[], max_length=MAX_NAMES)
    without_tags: list[Name] = Field(default=[], max_length=MAX_NAMES)
    without_kinds: list[AgentKind] = Field(default=[], max_length=5)
    without_agent_ids: list[Name] = Field(default=[], max_length=MAX_NAMES)
    reachable: bool = False
    """Leave out agents that could not be reached, or fail."""
    within: CategoryPath = ""
    toolset: ToolsetName = ""


class RequestTurn(Strict):
    """A turn of the conversation before the request: what was said, or a call and how it ended."""

    role: TurnRole
    text: str = ""
    """What was said."""
    tool: str = Field(default="", max_length=MAX_NAME_CHARS)
    """What was called: a tool's id or call name, or an agent's id."""
    outcome: CallOutcome = "ok"
    result: str = ""
    """A part of what a call gave. It is never read as a request."""


class SearchRequest(Strict):
    """A request in plain words, its steps, or both: each step is searched by itself, then the text."""

    text: str = ""
    """The request, in plain words."""
    steps: list[Words] = Field(default=[], max_length=MAX_STEPS)
    """The steps of a request."""
    limit: Annotated[int, BeforeValidator(_whole)] = Field(default=5, ge=1, le=MAX_PART)
    """How many to give at most."""
    recipe: Name = Field(default=DEFAULT_RECIPE, json_schema_extra={"enum": list[JsonValue](sorted(RECIPES))})
    """How to rank: a name that `/v1/recipes` lists."""
    filters: RequestFilters = RequestFilters()
    strict: bool = False
    """Withhold an answer that may not fit: `reason` and `nearest` stand in its place."""
    history: list[RequestTurn] = []
    """The turns before the request, oldest first. They are in no log and in no answer."""
    rerank: bool = False
    """Let the operator's reranker put the best in order; 422 where there is none."""
    mode: Literal["get_all", "get_important", "get_one"] | None = Field(
        default=None,
        description="Of the recipe `taxonomy`: what its walk looks for, all that could serve (get_all, the default), "
        "one of each function or the single best. 422 for another recipe.",
    )
    by_steps: bool = Field(
        default=False,
        description="Let the operator's language model split the text into steps, unless `steps` are given; 422 where "
        "there is none.",
    )
    explain: bool = False
    """Tell the votes that put each match there."""
    tool_schema: bool = Field(default=False, alias="schema")
    """Tell the schemas of tools too."""
    format: ToolFormat | None = None
    """Also give the tools found in this host's own format, as `definitions`."""

    def chosen_recipe(self) -> Recipe:
        """Raises UnknownRecipe, InvalidSetting for a mode of a recipe that walks nothing."""
        rerank, steps_by = (BY_OPERATOR if is_wanted else "" for is_wanted in (self.rerank, self.by_steps))
        return recipe_named(self.recipe, rerank=rerank, mode=self.mode or "", steps_by=steps_by)

    def query(self) -> Query:
        return shapes.read(Query, self.model_dump(include={"text", "steps", "limit", "filters", "strict", "history"}))

    model_config = ConfigDict(
        json_schema_extra={  # "if", not "anyOf": of an anyOf client generators make a union without fields
            "if": {"required": ["text"], "properties": {"text": {"pattern": r"\S"}}},
            "else": {"required": ["steps"], "properties": {"steps": {"minItems": 1}, "text": {"maxLength": 0}}},
        }
    )

    @model_validator(mode="after")
    def _something(self) -> "SearchRequest":
        if not (self.text or self.steps):
            raise ValueError("give a text, steps, or both")
        return self


class RouteRequest(SearchRequest):
    """A request for agents."""

    agent_weight: Weight | None = None
    """Weight of agents, instead of the recipe's."""
    tool_weight: Weight | None = None
    """Weight of tools, instead of the recipe's."""

    def ranking(self) -> dict[str, Any]:
        """As `Registry.route` takes it. Raises as `chosen_recipe`."""
        weights = {"agent_weight": self.agent_weight, "tool_weight": self.tool_weight}
        return {"recipe": self.chosen_recipe(), **weights}


class WhyRequest(RouteRequest):
    """A request for agents, or for tools, and the one that is missed."""

    id: Name
    """An agent by its id; a tool by its id (agent/tool) or call name."""


class BatchRequest(Strict):
    requests: list[RouteRequest] = Field(min_length=1, max_length=MAX_BATCH)


class CallRequest(Strict):
    arguments: dict[str, Any] = {}
    """As the tool's input schema has them."""
    timeout_s: Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)] | None = None
    """All the time that the call has, where that is less than the service gives it."""
    consent: str = Field(
        default="",
        max_length=128,
        description="`content_hash` of the tool that a person read and agreed to run with these arguments. It counts "
        "in a session of the explorer, where the operator lets people call tools there (WAYGRAPH_EXPLORER_CALLS).",
    )
    for_model: bool = False
    """The result is cut to what a model can read (WAYGRAPH_CALL_RESULT_TOKENS)."""


class ResourceQuery(Strict):
    """What is looked for: words, and what fields of an entry of the catalogue must hold, by their path."""

    text: Words = Field(min_length=1)
    """What an agent is to do, in plain words."""
    filter: dict[Name, Name | list[Name]] = Field(default={}, max_length=MAX_NAMES)
    """By path, such as `tags`, `type` or `publisher`: any of these values. All fields must fit."""


class ResourceSearch(Strict):
    """A search as Agentic Resource Discovery 0.9 has it."""

    query: ResourceQuery
    federation: Literal["auto", "referrals", "none"] = "auto"
    """Taken; this registry searches only what it holds, and refers to no other."""
    page_size: int = Field(default=10, ge=1, le=100, alias="pageSize")
    """How many to give at most."""
    page_token: str = Field(default="", max_length=64, alias="pageToken")
    """`pageToken` of the page before."""


class Document(Strict):
    """A file of a source: JSON or YAML as text. `name` tells which of the two, and stands in messages."""

    name: Name
    text: str = ""
    unreadable: str = Field(default="", max_length=2000)
    """Why it could not be read, instead of a text: it counts as rejected."""


class ManifestRequest(Strict):
    """What a source says now: one `manifest` as JSON, or `documents`, the files it is made of."""

    source: Name
    """The source's name: what it said before under this name is brought up to date."""
    namespace: str = Field(default="", max_length=128)
    """Put before an id that another agent has. Default: from the source."""
    kind: str = Field(default="", max_length=64)
    """What it is, such as catalogue or tools-list. Default: as it looks."""
    manifest: dict[str, Any] | list[Any] | None = None
    documents: list[Document] | None = Field(default=None, min_length=1, max_length=10_000)
    policy: Policy | None = Field(
        default=None,
        description="What becomes of the source's changes: accept; hold what it changes or adds after its first "
        "manifest until that is approved; strict: hold all of it. Default: as it was, and accept for a new source.",
    )
    texts: TextForm | None = Field(
        default=None,
        max_length=MAX_NAME_CHARS,
        description="The texts to embed, for a new registry: contextual, plain, concat, tdwa-1, tdwa-2, or weights, as "
        "in tdwa:name=.2,description=.3,parameters=.2,questions=.3.",
    )
    partial: bool = False
    """Not all of the source could be read: what it does not list is not removed."""
    dry_run: bool = False
    """Say what would change, and change nothing."""
    allow_mass_removal: bool = False
    """Let it remove more than half of its agents."""

    model_config = ConfigDict(
        json_schema_extra={
            "if": {"required": ["manifest"], "properties": {"manifest": {"type": ["object", "array"]}}},
            "then": {"properties": {"documents": NULL}},
            "else": {"required": ["documents"], "properties": {"documents": {"type": "array"}, "manifest": NULL}},
        }
    )

    @model_validator(mode="after")
    def _one_of_two(self) -> "ManifestRequest":
        if (self.manifest is None) == (self.documents is None):
            raise ValueError("give a manifest, or documents: one of the two")
        return self


class ParameterSetting(Strict):
    """null takes a field back; what is not there stays."""

    name: Name | None = None
    """What callers call it."""
    description: str | None = None
    pin: JsonValue = None
    """The value that every call has; callers do not see the parameter."""
    hidden: bool | None = None
    """Callers do not see it; a required one is pinned instead."""


class ToolSettingsRequest(Strict):
    """What an operator says of a tool. null takes a field back; what is not there stays."""

    name: Name | None = None
    """Another name, also in its call name."""
    description: str | None = None
    hidden: bool | None = None
    """It stays out of routing and calls."""
    questions: list[str] | None = Field(default=None, max_length=MAX_QUESTIONS)
    """What people asked that it can answer, beside those of its source: its words count in searches."""
    parameters: dict[str, ParameterSetting | None] | None = Field(default=None, max_length=MAX_NAMES)
    """By the source's name of each parameter."""


class SettingsRequest(Strict):
    """What an operator says of an agent. A field that is not there stays as it is."""

    tags: list[Name] | None = Field(default=None, max_length=MAX_NAMES)
    """Tags beside its source's own, instead of those set so far."""
    visible_to: list[Name] | None = Field(default=None, min_length=1, max_length=MAX_NAMES)
    """Only these groups may see it; null takes that back: its source decides."""
    pinned: bool | None = None
    hidden: bool | None = None
    removed: Literal[False] | None = None
    """false lets a removed agent's source bring it back; to remove it, DELETE it."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1})

    @model_validator(mode="after")
    def _something(self) -> "SettingsRequest":
        if not self.model_fields_set:
            raise ValueError("say what to set, such as pinned or tags")
        return self
