"""What people say who want a tool, with values: made of its verb, its object and its parameters."""

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple

from waygraph.registry.index.analyser import CAMEL
from waygraph.registry.model.nouns import Agent, Tool
from waygraph.registry.model.parameters import parameters_of_text
from waygraph_lab.template_questions import ASKS, FALLBACK, SYNONYMS, thing_of, verb_and_thing

MOST_SLOTS, MOST_VALUE_CHARS = 3, 30
_WORD = re.compile(r"[^\W_]+")
_EXAMPLE = re.compile(r"(?:such as|e\.g\.,?|for example,?|like)\s+[\"'`“]?([\w][\w/.:@+-]{1,29})", re.IGNORECASE)


class Kind(NamedTuple):
    """A kind of value. `names`: of parameters. `says`: how it is said behind the object. `samples`: two values."""

    names: re.Pattern[str]
    says: str
    samples: tuple[str, str]


def _kind(names: str, says: str, *samples: str) -> Kind:
    return Kind(re.compile(rf"\b({names})\b"), says, (samples[0], samples[-1]))


KINDS = (
    _kind("currency|currencies", "in {}", "euros", "dollars"),
    _kind("language|languages|lang|locale", "in {}", "French", "German"),
    _kind("city|location|place|address|region|country|area|destination|near", "in {}", "Berlin", "Tokyo"),
    _kind("date|day|since|until|deadline|start|end|when|checkin", "{}", "tomorrow", "next Monday"),
    _kind("time|hour", "at {}", "9 am", "6 pm"),
    _kind("email|recipient|recipients|assignee|attendees|user|username|person|contact", "to {}", "Anna", "Tom"),
    _kind("path|file|filename|filepath|document|folder|directory", "in {}", "report.pdf", "notes.txt"),
    _kind("url|uri|link|website|domain|host", "of {}", "example.com", "example.org"),
    _kind("symbol|ticker|stock|company", "of {}", "Apple", "Tesla"),
    _kind("amount|price|sum|quantity|number|count|guests|people", "for {}", "20", "100"),
    _kind("format|unit|units", "as {}", "PDF", "metric"),
    _kind("title|subject|label|name", "called {}", "Plan", "Summer"),
    _kind("topic|query|q|keyword|keywords|term|text|search", "about {}", "climate", "jazz"),
)
USE = "use"
"""The verb of a tool whose name has none."""
AMOUNTS = frozenset({"amount", "value", "quantity"})
"""Names of parameters of what is converted."""
_ENDS = {"from": "from", "source": "from", "origin": "from", "to": "to", "target": "to"}
"""Names of parameters that are two ends of one thing."""


class Slot(NamedTuple):
    """A parameter that a question fills. `says`: how a value is said; `is_choice`: before the object."""

    says: str
    values: tuple[str, str]
    is_choice: bool = False


def schema_questions(agent: Agent, tool: Tool) -> Iterator[str]:
    """With values that the schema states, or of the parameters' kinds; none without such a parameter."""
    slots, verb, thing = list(_slots(tool)), verb_and_thing(tool.name)[0], thing_of(agent, tool)
    asks = ASKS.get(SYNONYMS.get(verb, verb), FALLBACK)
    ends = {end: slot for slot in slots for end in ("from", "to") if slot.says == f"{end} {{}}"}
    if len(ends) == 2 and not parameters_of_text(tool.input_schema).properties.keys().isdisjoint(AMOUNTS):
        held, wanted = ends["from"].values, ends["to"].values
        yield f"how much is 20 {held[0]} in {wanted[1]}"
        yield f"{verb} 100 {held[1]} to {wanted[0]}"
        return
    first = "{}" if verb == USE else f"{verb} {{}}"
    for number, form in enumerate((first, *asks[:2]) if slots else ()):
        some = slots[:1] if number else slots
        values = [slot.values[(slot.says == "to {}") ^ (number % 2)] for slot in some]
        before = [value for slot, value in zip(some, values, strict=True) if slot.is_choice]
        behind = [slot.says.format(value) for slot, value in zip(some, values, strict=True) if not slot.is_choice]
        yield " ".join([form.format(" ".join([*before[:1], thing])).rstrip("?"), *behind])


def _slots(tool: Tool) -> Iterator[Slot]:
    """Of the parameters whose values can be said, each way of saying once, the required ones first."""
    parameters = parameters_of_text(tool.input_schema)
    slots: dict[str, Slot] = {}
    for name in sorted(parameters.properties, key=lambda name: name not in parameters.required):
        if slot := _slot(name, parameters.properties[name]):
            slots.setdefault(slot.says, slot)
    return islice(slots.values(), MOST_SLOTS)


def _slot(name: str, schema: Any) -> Slot | None:
    if not isinstance(schema, Mapping):
        return None
    words = " ".join(_WORD.findall(CAMEL.sub(" ", name))).lower()
    said = f"{words} {schema.get('format', '')}"
    described = f"{said} {schema.get('description', '')}".lower()
    kind = next((kind for kind in KINDS if kind.names.search(said)), None)
    end = next((_ENDS[word] for word in words.split() if word in _ENDS), None)
    if end:
        kind = next((kind for kind in KINDS if kind.names.search(described)), kind)
    stated = tuple(_stated_values(schema))
    if not (kind or stated):
        return None
    values = stated or (kind.samples if kind else ("", ""))
    says = f"{end} {{}}" if end else kind.says if kind else "{}"
    return Slot(says, (values[0], values[-1]), is_choice=not end and "enum" in schema)


def _stated_values(schema: Mapping[str, Any]) -> Iterator[str]:
    for key in ("examples", "example", "enum", "default"):
        value = schema.get(key)
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, str) and 1 < len(each) <= MOST_VALUE_CHARS and each.isprintable():
                yield each
    yield from _EXAMPLE.findall(str(schema.get("description", "")))
