"""Mutations without a language model: by the words of a tool's name, tables of verbs, and its schema. Pure.

A rule's text is for mechanics and for noise beside real candidates; it is no substitute for a language model's.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from waygraph.registry.model.changes import AgentEntry
from waygraph.registry.model.nouns import Tool, parse_field
from waygraph_lab.synthesis.mutations import LEAST_TOOLS, MOST_TOOLS, Candidate, Record
from waygraph_lab.template_questions import SYNONYMS, bare_sentence, imperative, verb_and_thing

DOMAINS = (
    "documents", "spreadsheets", "photos", "audio recordings", "support tickets", "contracts", "sensor readings",
    "source code", "invoices", "survey answers", "product listings", "travel plans",
)  # fmt: skip
AUDIENCES = ("support teams", "auditors", "teachers", "newcomers", "field workers", "executives", "researchers")
FEATURES: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "items": ("handles many inputs in one call", {"type": "array", "description": "Further inputs of the same form"}),
    "output_format": ("writes the result in a chosen format", {"type": "string", "description": "json, csv or pdf"}),
    "schedule": ("repeats on a schedule", {"type": "string", "description": "When to repeat, as a cron expression"}),
    "language": ("answers in another language", {"type": "string", "description": "Language of the result"}),
    "notify": ("tells somebody when it is done", {"type": "string", "description": "Address of who is told"}),
    "dry_run": (
        "shows beforehand what it would do",
        {"type": "boolean", "description": "Only show it"},
    ),
}
AFTERWARDS: Mapping[str, str] = {
    "get": "compare", "list": "rank", "search": "summarize", "create": "review", "update": "audit",
    "delete": "archive", "send": "track", "check": "report", "convert": "publish", "run": "monitor",
}  # fmt: skip
"""What is done next to the thing of such a verb."""
HELPERS: Mapping[tuple[str, str], str] = {
    ("validate", "input"): "Check that the input to {verb} {thing} is complete and well formed",
    ("suggest", "options"): "Suggest settings that suit a request to {verb} {thing}",
    ("explain", "errors"): "Explain why an attempt to {verb} {thing} failed and what to do",
    ("estimate", "cost"): "Estimate how long it takes to {verb} {thing} and what it costs",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """A tool as the rules see it: `verb` `thing` (`get`, `user by id`), what it does in words, its schema."""

    verb: str
    thing: str
    does: str
    schema: Record

    @classmethod
    def of(cls, tool: Tool) -> "Parts":
        verb, thing = verb_and_thing(tool.name)
        schema = parse_field(tool.input_schema)
        does = imperative(bare_sentence(tool.description)) or f"{verb} {thing}"
        return cls(verb=verb, thing=thing or "item", does=does, schema=schema if isinstance(schema, dict) else {})

    @property
    def properties(self) -> Record:
        found = self.schema.get("properties")
        return found if isinstance(found, dict) else {}

    def record(self, name: str, description: str, schema: Record | None = None) -> Record:
        described = description[:1].upper() + description[1:]
        words = "_".join("".join(c if c.isalnum() else " " for c in name).split()).lower()
        return {"name": words, "description": f"{described}.", "inputSchema": self.schema if schema is None else schema}


def _extend_usage(tool: Parts, chance: Random) -> Record:
    domain = chance.choice(DOMAINS)
    return tool.record(f"{tool.verb} {domain} {tool.thing}".removeprefix("use "), f"{tool.does}, for {domain}")


def _enhance(tool: Parts, chance: Random) -> Record:
    """Empty for a tool that has the features already."""
    missing = sorted(FEATURES.keys() - tool.properties.keys())
    if len(missing) < 2:
        return {}
    chosen = chance.sample(missing, 2)
    also = " and ".join(FEATURES[name][0] for name in chosen)
    schema = {**tool.schema, "properties": tool.properties | {name: dict(FEATURES[name][1]) for name in chosen}}
    return tool.record(f"{tool.thing} {' '.join(chosen)} suite", f"{tool.does}; it also {also}", schema)


def _chain(tool: Parts, chance: Random) -> Record:
    if chance.random() < 0.5:
        needed = ", ".join(tool.properties) or "what is needed"
        schema = _text_schema("request", f"What somebody wants to {tool.verb}, in their own words")
        return tool.record(f"prepare {tool.thing} request", f"work out {needed} before you {tool.does}", schema)
    then = AFTERWARDS.get(SYNONYMS.get(tool.verb, tool.verb), "review")
    schema = _text_schema("result", f"What the step before it returned about {tool.thing}")
    return tool.record(f"{then} {tool.thing}", f"{then} the outcome once you {tool.does}", schema)


def _help(tool: Parts, chance: Random) -> Record:
    verb, noun = chance.choice(list(HELPERS))
    return tool.record(f"{verb} {tool.thing} {noun}", HELPERS[verb, noun].format(verb=tool.verb, thing=tool.thing))


def _redesign_parameters(tool: Parts, chance: Random) -> Record:
    """From single values to filters with an order and a number, as in the paper's example."""
    most = chance.choice((10, 50, 100))
    properties = {
        "filters": {"type": "object", "description": "Values to select by", "properties": tool.properties},
        "sort": {"type": "string", "description": "Field to order by"},
        "limit": {"type": "integer", "description": "How many at most", "minimum": 1, "maximum": most},
    }
    schema = {"type": "object", "properties": properties, "required": ["filters"]}
    return tool.record(f"query {tool.thing}", f"{tool.does}, by any filters, at most {most} in order", schema)


def _text_schema(name: str, description: str) -> Record:
    properties = {name: {"type": "string", "description": description}}
    return {"type": "object", "properties": properties, "required": [name]}


TOOL_RULES: Mapping[str, Callable[[Parts, Random], Record]] = {
    "usage extension": _extend_usage,
    "function enhancement": _enhance,
    "workflow chain": _chain,
    "helper tool": _help,
    "parameter redesign": _redesign_parameters,
}
AGENT_RULES: Mapping[str, tuple[str, str, tuple[str, ...]]] = {
    "domain transfer": ("{domain}", "{does} For {domain}.", ("usage extension",)),
    "capability enhancement": (
        "advanced", "{does} With more functions.", ("function enhancement", "helper tool", "workflow chain"),
    ),
    "workflow specialization": ("{thing}", "Only for {thing}: {does}", ("parameter redesign", "helper tool")),
    "tool composition": ("pipeline", "{does} In steps that build on each other.", ("workflow chain",)),
    "scenario adaptation": ("{audience}", "{does} For {audience}.", ("parameter redesign", "function enhancement")),
}  # fmt: skip
"""Operator → what goes into the name, the description, and the tool operators that its tools are made by in turn."""


class RuleAuthor:
    def mutate(
        self,
        parent: Candidate,
        operator: str,
        names: Sequence[str],  # noqa: ARG002
        chance: Random,
        is_fit: object,  # noqa: ARG002
    ) -> Record:
        if parent.tool:
            return TOOL_RULES[operator](Parts.of(parent.tool), chance)
        return self._agent(parent.entry, operator, chance)

    def _agent(self, entry: AgentEntry, operator: str, chance: Random) -> Record:
        """Empty for an agent without tools, and where its tools give too few."""
        if not entry.tools:
            return {}
        called, text, operators = AGENT_RULES[operator]
        parts = [Parts.of(tool) for tool in entry.tools]
        words = {
            "domain": chance.choice(DOMAINS),
            "audience": chance.choice(AUDIENCES),
            "thing": chance.choice(parts).thing,
            "does": bare_sentence(entry.agent.description) + "." if entry.agent.description else entry.agent.name,
        }
        tools: dict[str, Record] = {}
        for number in range(3 * MOST_TOOLS):
            record = TOOL_RULES[operators[number % len(operators)]](parts[number % len(parts)], chance)
            if record:
                tools.setdefault(record["name"], record)
        size = chance.randint(LEAST_TOOLS, MOST_TOOLS)
        name = parts[0].record(f"{entry.agent.name} {called.format(**words)} agent", "")["name"]
        described = text.format(**words)
        return {"name": name, "description": described, "tools": list(tools.values())[:size]}
