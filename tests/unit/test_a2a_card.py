"""A2A agent cards: what becomes of a card of 0.3 and of 1.0, of lists of them, and of cards that are none."""

import copy
import json
import os
from pathlib import Path
from typing import Any

import pytest
from a2a.client.card_resolver import parse_agent_card
from hypothesis import given
from hypothesis import strategies as st

from tests.any_value import any_value
from tests.openapi_documents import manifest_of
from tests.sync_graph import new_graph
from waygraph.ingest.manifest.records import Intake
from waygraph.ingest.sources.formats import a2a_card
from waygraph.registry.model.identity import SKILL_MESSAGE

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "sources" / "pilot-desk.json"
SHARED = Path(os.environ.get("WAYGRAPH_BENCH_DATA", ROOT.parent / "shared" / "data")) / "a2x/agent_cards_default.json"

CARD_1_0: dict[str, Any] = json.loads(EXAMPLE.read_text())
CARD_0_3: dict[str, Any] = {
    "protocolVersion": "0.3.0",
    "name": "Chandler",
    "description": "Sells rope, paint and lamps",
    "version": "1",
    "url": "https://chandler.example/a2a",
    "preferredTransport": "GRPC",
    "additionalInterfaces": [
        {"url": "https://chandler.example/a2a", "transport": "GRPC"},
        {"url": "https://chandler.example/json", "transport": "JSONRPC"},
    ],
    "capabilities": {},
    "defaultInputModes": ["text/plain"],
    "defaultOutputModes": ["text/plain"],
    "securitySchemes": {"shopKey": {"type": "apiKey", "in": "header", "name": "X-Shop"}},
    "security": [{"shopKey": []}],
    "skills": [{"id": "sell", "name": "Sell", "description": "Sells", "tags": ["rope"], "examples": ["Some rope"]}],
}


def read(document: Any) -> Intake:
    intake = Intake("card.json")
    for record in a2a_card.read(document, "card.json", intake):
        intake.take(record)
    return intake


def rejected(intake: Intake) -> dict[str, str]:
    return {each.where.removeprefix("card.json#"): each.reason for each in intake.rejected}


def test_a_card_of_1_0_is_an_agent_with_its_skills_as_tools() -> None:
    """Name, version, interfaces and names of security schemes; skills with tags, examples as questions, and modes."""
    [entry] = read(CARD_1_0).entries
    agent, (book, tugs) = entry.agent, entry.tools
    assert (entry.key, agent.name, agent.kind, agent.version) == ("Pilot Desk", "Pilot Desk", "a2a_agent", "2.1.0")
    assert agent.tags == ("booking", "pilotage", "towage")
    assert json.loads(agent.transport) == {
        "url": "https://pilots.example/a2a",
        "protocolBinding": "JSONRPC",
        "protocolVersion": "1.0",
        "interfaces": CARD_1_0["supportedInterfaces"],
        "security": ["harbourKey"],
    }
    assert (book.name, book.tags, book.input_schema) == ("book-pilot", ("booking", "pilotage"), SKILL_MESSAGE)
    assert book.questions == tuple(CARD_1_0["skills"][0]["examples"])
    assert book.description.startswith("Book a pilot: Finds a free pilot")
    assert json.loads(book.annotations) == {
        "title": "Book a pilot",
        "inputModes": ["text/plain"],
        "outputModes": ["text/plain", "application/json"],
    }
    assert json.loads(tugs.annotations)["inputModes"] == ["text/plain", "application/json"]
    assert tugs.description.startswith("Says how many tugs"), "a title that says what the id says is not repeated"


def test_a_card_of_0_3_is_told_in_the_words_of_1_0() -> None:
    """The preferred interface first, the additional ones after it, none twice."""
    [entry] = read(CARD_0_3).entries
    assert json.loads(entry.agent.transport) == {
        "url": "https://chandler.example/a2a",
        "protocolBinding": "GRPC",
        "protocolVersion": "0.3.0",
        "interfaces": [
            {"url": "https://chandler.example/a2a", "protocolBinding": "GRPC", "protocolVersion": "0.3.0"},
            {"url": "https://chandler.example/json", "protocolBinding": "JSONRPC", "protocolVersion": "0.3.0"},
        ],
        "security": ["shopKey"],
    }


def _cards() -> list[dict[str, Any]]:
    """Our own, and the real ones that the parser of a2a-sdk takes: not those whose capabilities are a list of words."""
    listed = json.loads(SHARED.read_text()) if SHARED.exists() else []
    real = [entry["metadata"] for entry in listed if entry["metadata"].get("name")]
    return [CARD_0_3, CARD_1_0, *(card for card in real if not isinstance(card.get("capabilities"), list))]


@pytest.mark.parametrize("card", _cards(), ids=lambda card: card["name"])
def test_a_card_is_read_as_the_sdk_of_a2a_reads_it(card: dict[str, Any]) -> None:
    theirs = parse_agent_card(copy.deepcopy(card))
    [entry] = read(card).entries
    interfaces = json.loads(entry.agent.transport or "{}").get("interfaces", [])
    stated = [each for each in theirs.supported_interfaces if each.url]
    addresses = dict.fromkeys((each.url, each.protocol_binding or "JSONRPC") for each in stated)
    assert [(each["url"], each["protocolBinding"]) for each in interfaces] == list(addresses)
    assert (entry.agent.name, entry.agent.version) == (theirs.name, theirs.version)
    for tool, skill in zip(entry.tools, theirs.skills, strict=True):
        assert tool.name == skill.id
        assert tool.tags == tuple(sorted(set(skill.tags)))
        assert tool.questions == tuple(" ".join(line.split()) for line in skill.examples)
        assert tool.description.endswith(skill.description.strip())


@pytest.mark.skipif(not SHARED.exists(), reason="no shared data: WAYGRAPH_BENCH_DATA names its folder")
def test_the_list_of_an_a2x_registry_goes_in_whole() -> None:
    """21 agents and their 51 skills, under the list's own ids; also the three whose card was never got."""
    manifest = manifest_of(SHARED)
    listed = json.loads(SHARED.read_text())
    assert [entry.key for entry in manifest.entries] == [entry["id"] for entry in listed]
    assert len(manifest.entries) == 21
    assert [len(e.tools) for e in manifest.entries] == [len(e["metadata"].get("skills", [])) for e in listed]
    assert (manifest.rejected, manifest.cut, manifest.partial) == ((), (), False)
    never_got = next(e for e in manifest.entries if e.key == "agent_797b3998f7fac8c7")
    assert "Unresolved agent card" in never_got.agent.description


def test_an_agent_keeps_its_id_when_a_list_gets_another_of_its_name() -> None:
    other = {**CARD_0_3, "url": "https://elsewhere.example/a2a"}

    def ids(*cards: dict[str, Any]) -> dict[str, str]:
        graph.sync(read(list(cards)).manifest("cards", "cards"))
        return {json.loads(agent.transport)["url"]: agent_id for agent_id, agent in graph.agents().items()}

    graph = new_graph()
    alone = ids(CARD_0_3)
    assert [*alone.values()] == ["Chandler"]
    both = ids(CARD_0_3, other)
    assert both | alone == both
    assert ids(other, CARD_0_3) == both
    assert ids(CARD_0_3) == alone


def test_secrets_in_an_address_become_references() -> None:
    url = "https://me:hunter2@host.example/a2a?key=hunter3"
    card = {**CARD_1_0, "supportedInterfaces": [{"url": url, "protocolBinding": "JSONRPC"}]}
    [entry] = read(card).entries
    assert "hunter" not in entry.agent.transport
    assert entry.agent.transport.count("host.example") == 2


@pytest.mark.parametrize(
    ("skill", "reason"),
    [
        (5, "expected a skill object, found a number"),
        ({"description": "no name"}, "tool name: a name must be a non-empty string"),
        ({"id": "x" * 129}, "at most 128 characters"),
        ({"id": ["x"]}, "tool name"),
        ({"id": "b", "description": ["x"]}, "description: expected a string, found a list"),
        ({"id": "sell"}, "has a tool 'sell' already"),
    ],
)
def test_a_bad_skill_costs_itself(skill: object, reason: str) -> None:
    intake = read({**CARD_0_3, "skills": [*CARD_0_3["skills"], skill, {"id": "last"}]})
    assert [tool.name for tool in intake.entries[0].tools] == ["sell", "last"]
    assert reason in rejected(intake)["/skills/1"]


@pytest.mark.parametrize("document", [CARD_0_3, CARD_1_0, [CARD_0_3], [5, CARD_1_0], {"skills": [], "url": ""}])
def test_cards_are_told_from_other_documents(document: Any) -> None:
    assert a2a_card.fits(document)


JSON = any_value()
SKILL = st.fixed_dictionaries({}, optional=dict.fromkeys((*CARD_1_0["skills"][0], "inputModes"), JSON))
CARD = st.fixed_dictionaries(
    {"name": st.just("a") | JSON, "skills": st.lists(SKILL | JSON, max_size=3) | JSON},
    optional=dict.fromkeys({*CARD_0_3, *CARD_1_0, "authentication"} - {"name", "skills"}, JSON),
)


@given(
    st.lists(CARD | st.fixed_dictionaries({"id": JSON, "type": st.just("a2a"), "metadata": CARD | JSON}), max_size=3)
)
def test_no_card_raises(cards: list[Any]) -> None:
    """Whatever its fields hold: each is taken, or rejected with a place and a reason."""
    intake = read(cards)
    assert len(intake.entries) + sum("/skills" not in each.where for each in intake.rejected) >= len(cards)
    assert all(each.where.startswith("card.json#/") and each.reason for each in intake.rejected)
