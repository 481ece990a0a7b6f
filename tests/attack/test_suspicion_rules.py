"""Each rule against suspicious texts finds the texts that it names, and none of those that only look alike."""

import subprocess
import sys
import tomllib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import pytest

from waygraph.ingest.manifest.suspicion.findings import examine
from waygraph.ingest.manifest.suspicion.rules import find_orders, load_rules, purpose_of
from waygraph.registry.access.visibility import CALLS_ANOTHER, IN_PLACE
from waygraph.registry.model.nouns import Tool, canonical_json, suspicions

DOCUMENT = tomllib.loads(files("waygraph.ingest.manifest.suspicion").joinpath("rules.toml").read_text(encoding="utf-8"))
OTHERS = {"send_email", "search", "wireTransfer"}
"""Tools of another agent."""


def blocks() -> Iterator[Mapping[str, Any]]:
    """Of each rule; those of names have no words of their own for an operator."""
    yield from (*DOCUMENT["orders"], DOCUMENT["harm"], *(block for block in DOCUMENT["characters"] if "says" in block))
    for block in DOCUMENT["names"]["rules"]:
        yield {"says": IN_PLACE if block["puts_aside"] else CALLS_ANOTHER, **block}


RULES = list(blocks())
ORDERS = {rule.name: rule for rule in load_rules().orders}


@dataclass(frozen=True)
class Example:
    rule: str
    says: str
    text: str
    tool: str = "convert"
    parameters: tuple[str, ...] = ("text",)

    def flags(self) -> tuple[str, ...]:
        schema = canonical_json({"properties": {name: {"type": "string"} for name in self.parameters}})
        tool = Tool(id="a/t", agent_id="a", name=self.tool, description=self.text, input_schema=schema)
        return examine(tool).flags(name_owners)

    def is_found(self) -> bool:
        """By this rule, whatever others find. A rule of orders is asked alone."""
        if rule := ORDERS.get(self.rule):
            orders = find_orders(self.text, purpose_of(self.tool, self.parameters), rules=[rule])
            return any(each.reason == self.says for each in orders)
        return any(self.says in flag for flag in self.flags())


def name_owners(names: Collection[str]) -> dict[str, set[str]]:
    return {name: {"other"} for name in OTHERS & set(names)}


def examples(kind: str) -> list[Example]:
    found: list[Example] = []
    for block in RULES:
        for each in block[kind]:
            fields: dict[str, Any] = {"text": each} if isinstance(each, str) else each
            found.append(Example(block["name"], block["says"], **fields))
    return found


@pytest.mark.parametrize("example", examples("match"), ids=str)
def test_a_rule_finds_its_examples(example: Example) -> None:
    assert example.is_found()
    assert any(example.says in flag for flag in example.flags()), example.flags()


@pytest.mark.parametrize("example", examples("no_match"), ids=str)
def test_no_rule_finds_what_only_looks_alike(example: Example) -> None:
    assert not example.is_found()
    assert suspicions(example.flags()) == ()


@pytest.mark.parametrize("block", RULES, ids=lambda block: str(block["name"]))
def test_each_rule_has_examples_of_both_kinds(block: Mapping[str, Any]) -> None:
    assert block["match"]
    assert block["no_match"]
    assert block["says"]


def test_rules_have_names_of_their_own_and_known_concepts() -> None:
    names = [block["name"] for block in RULES]
    assert len(set(names)) == len(names)
    concepts = {name for block in RULES for name in block.get("concepts", ())}
    concepts |= {name for concept in DOCUMENT["concepts"].values() for name in concept.get("includes", ())}
    assert concepts == set(DOCUMENT["concepts"])


def test_rules_are_read_when_the_first_text_is_checked() -> None:
    """Commands that check no text do not wait for it."""
    code = (
        "from waygraph.ingest.sync import scanner; from waygraph.ingest.manifest.suspicion import rules; "
        "print(rules.load_rules.cache_info().currsize)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "0"
