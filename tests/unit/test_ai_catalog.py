"""The AI catalogue: by its specification, whatever the agents are called."""

import json
from typing import Any
from urllib.parse import unquote, urlsplit

from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from waygraph.registry.model.identity import agent_id
from waygraph.registry.model.nouns import AGENT_KINDS, Agent
from waygraph.registry.storage.export.formats import AGENT_TYPE, MEDIA_TYPE, OPENAPI_TYPE, ai_catalog

TEXT = {"type": "string", "minLength": 1}
URL = {"type": "string", "pattern": r"^https?://[A-Za-z0-9._~:\[\]-]+(/[A-Za-z0-9._~%!$&'()*+,;=:@-]+)*$"}
ENTRY = {
    "type": "object",
    "required": ["identifier", "type"],
    "oneOf": [{"required": ["url"]}, {"required": ["data"]}],
    "additionalProperties": False,
    "properties": {
        # RFC 8141: letters, digits, a few signs and percent-encoded octets; AI Catalog: publisher, namespace, name.
        "identifier": {"type": "string", "pattern": r"^urn:air(:([A-Za-z0-9._~-]|%[0-9A-F]{2})+){3,}$"},
        "type": {"type": "string", "pattern": r"^[a-z]+/[a-z0-9.+-]+$"},
        "url": URL,
        "data": {},
        "displayName": TEXT,
        "description": TEXT,
        "tags": {"type": "array", "items": {"type": "string"}},
        "version": TEXT,
    },
}
CATALOGUE = {
    "type": "object",
    "required": ["specVersion", "host", "entries"],
    "additionalProperties": False,
    "properties": {
        "specVersion": {"const": "1.0"},
        "host": {
            "type": "object",
            "required": ["displayName"],
            "additionalProperties": False,
            "properties": {"displayName": TEXT, "identifier": TEXT, "documentationUrl": URL, "logoUrl": URL},
        },
        "entries": {"type": "array", "items": ENTRY},
    },
}
"""The specification's CDDL schema as far as we use it, with a host: its level 2, a discoverable catalogue."""
BASE = "https://tools.example"


def faults(catalogue: dict[str, Any]) -> list[str]:
    return [fault.message for fault in Draft202012Validator(CATALOGUE).iter_errors(json.loads(json.dumps(catalogue)))]


def entries(*agents: Agent, base: str = BASE) -> list[dict[str, Any]]:
    catalogue = ai_catalog(agents, "Example", base)
    assert faults(catalogue) == []
    listed: list[dict[str, Any]] = catalogue["entries"]
    return listed


def test_the_service_comes_first_then_each_agent() -> None:
    full = Agent(id="git hub", name="GitHub", description="Code.", kind="a2a_agent", version="1.2", tags=("b", "a"))
    service, first, second = entries(full, Agent(id="x", name="X"))
    assert (service["identifier"], service["type"]) == ("urn:air:tools.example:service:waygraph", OPENAPI_TYPE)
    assert service["url"] == "https://tools.example/openapi.json"
    assert first == {
        "identifier": "urn:air:tools.example:a2a_agent:git%20hub",
        "type": AGENT_TYPE,
        "url": "https://tools.example/v1/agents/git%20hub",
        "displayName": "GitHub",
        "description": "Code.",
        "tags": ["b", "a"],
        "version": "1.2",
    }
    assert second.keys() == {"identifier", "type", "url", "displayName"}
    assert MEDIA_TYPE == "application/ai-catalog+json"


@given(
    keys=st.sets(st.text(st.characters(codec="utf-8"), min_size=1, max_size=80), max_size=6),
    kind=st.sampled_from(AGENT_KINDS),
    text=st.text(max_size=20),
)
def test_any_agent_makes_a_legal_entry(keys: set[str], kind: Any, text: str) -> None:
    """Its id can be read from identifier and URL; different agents have different ones."""
    ids = sorted({agent_id(key) for key in keys})
    listed = entries(*(Agent(id=held, name=held, kind=kind, description=text, version=text) for held in ids))[1:]
    assert [unquote(entry["identifier"].rpartition(":")[2]) for entry in listed] == ids
    assert [unquote(urlsplit(entry["url"]).path.removeprefix("/v1/agents/")) for entry in listed] == ids
