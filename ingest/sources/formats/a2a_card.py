"""A2A agent cards of protocol 0.3 and 1.0: one, a list of them, or the list that an A2X registry keeps.

A card is an agent, each of its skills a tool. A skill has no schema of arguments: one sends the agent a message, which
is the one schema that all of them have here, and the tool says what may be asked.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from waygraph.ingest.manifest.fields import (
    fields_of,
    items_of,
    lines_of,
    mostly,
    repeated_names,
    tags_of,
    text_of,
    version_of,
)
from waygraph.ingest.manifest.records import AgentRecord, Intake, ToolRecord, shape_of
from waygraph.ingest.sources.formats.listings import is_service, service_record
from waygraph.ingest.sources.formats.old_forms import upgrade_card
from waygraph.registry.index.analyser import fold
from waygraph.registry.model.identity import SKILL_MESSAGE, digest

SHAPE = (
    'an A2A agent card {"name": …, "skills": […], "supportedInterfaces" or "url": …}, or a list of cards, '
    'or of {"id": …, "type": "a2a", "metadata": card}'
)
WELL_KNOWN_PATHS = ("/.well-known/agent-card.json", "/.well-known/agent.json")
"""Where an agent has its card: since protocol 0.3, and before."""

_TELLING = frozenset(("supportedInterfaces", "additionalInterfaces", "preferredTransport", "defaultInputModes"))
_WITH_SKILLS = frozenset(("capabilities", "protocolVersion", "provider", "url"))
INTERFACE_FIELDS = ("url", "protocolBinding", "protocolVersion", "tenant")


def card_urls(base: str) -> tuple[str, ...]:
    """Where the card of an agent may be, likeliest first: under its address, and at the root of its host.

    An address that ends in `.json` is the card's own. Raises ValueError for what is no URL.
    """
    if (parts := urlsplit(base)).path.endswith(".json"):
        return (base,)
    folders = dict.fromkeys((parts.path.rstrip("/"), ""))
    return tuple(
        urlunsplit((parts.scheme, parts.netloc, folder + path, parts.query, ""))
        for path in WELL_KNOWN_PATHS
        for folder in folders
    )


def fits(document: Any) -> bool:
    """The list of an A2X registry may hold services beside cards."""
    if not isinstance(document, list):
        return _is_card(document)
    return any(_is_card(entry) or _is_listed(entry) for entry in document) and mostly(
        document, lambda entry: _is_card(entry) or _is_listed(entry) or is_service(entry)
    )


def read(document: Any, where: str, intake: Intake) -> Iterator[AgentRecord]:  # noqa: ARG001
    """An agent a card. Those of a list that have one name are told apart by their addresses."""
    if not isinstance(document, list):
        yield _agent(upgrade_card(document), "", "", intake)
        return
    cards = [entry for entry in document if isinstance(entry, Mapping) and "metadata" not in entry]
    common_names = frozenset(repeated_names(text_of(card.get("name")) for card in cards))
    for number, entry in enumerate(document):
        if not isinstance(entry, Mapping):
            intake.reject_agent(f"/{number}", f"expected an agent card, found {shape_of(entry)}")
        elif "metadata" in entry:
            yield from _read_list(entry, f"/{number}", intake)
        else:
            card = upgrade_card(entry)
            # By nothing that changes with the order of the list. One that had the plain name keeps its id as a launch.
            name = text_of(card.get("name"))
            address = next((interface["url"] for interface in _interfaces(card)), "")
            key = f"{name[:100]}-{digest(address)[:8]}" if name in common_names and address else name
            yield _agent(card, key, f"/{number}", intake)


def _is_card(document: Any) -> bool:
    if not isinstance(document, Mapping):
        return False
    with_skills = isinstance(document.get("skills"), list) and not _WITH_SKILLS.isdisjoint(document)
    return with_skills or not _TELLING.isdisjoint(document)


def _is_listed(entry: Any) -> bool:
    """Whether it is an agent of an A2X registry's list."""
    return isinstance(entry, Mapping) and entry.get("type") == "a2a" and isinstance(entry.get("metadata"), Mapping)


def _read_list(entry: Mapping[str, Any], pointer: str, intake: Intake) -> Iterator[AgentRecord]:
    """What the card leaves out, the list may say: that of an agent which never answered is empty."""
    key = text_of(entry.get("id")) or text_of(entry.get("name"))
    if is_service(entry):
        yield service_record(entry, pointer)
        return
    if not _is_listed(entry):
        intake.reject_agent(pointer, 'expected `"type": "a2a"` and a card in `metadata`', key=key)
        return
    labels = {name: entry[name] for name in ("name", "description") if entry.get(name)}
    card = {name: value for name, value in entry["metadata"].items() if value or name not in labels}
    yield _agent(upgrade_card({**labels, **card}), key, f"{pointer}/metadata", intake)


def _agent(card: Mapping[str, Any], key: str, pointer: str, intake: Intake) -> AgentRecord:
    skills = items_of(card.get("skills"))
    if "skills" in card and not isinstance(card["skills"], list) and card["skills"] is not None:
        intake.reject(f"{pointer}/skills", f"expected a list of skills, found {shape_of(card['skills'])}")
    # The preferred interface at the top, all of them, and the names of what it may ask for as a credential.
    interfaces = _interfaces(card)
    transport: dict[str, object] = {**interfaces[0], "interfaces": interfaces} if interfaces else {}
    if security := tags_of(card["securitySchemes"]):
        transport["security"] = sorted(security)
    return AgentRecord(
        pointer=pointer,
        key=key or text_of(card.get("name")) or None,
        name=text_of(card.get("name")),
        description=card.get("description"),
        kind="a2a_agent",
        version=version_of(card.get("version")),
        transport=transport or None,
        tags=tags_of(tag for skill in skills for tag in items_of(fields_of(skill).get("tags"))),
        tools=_tools(card, skills, f"{pointer}/skills", intake),
    )


# -- how it is reached -----------------------------------------------------------------------------


def _interfaces(card: Mapping[str, Any]) -> list[dict[str, str]]:
    """Each once."""
    by_address: dict[tuple[str, str], dict[str, str]] = {}
    for interface in map(fields_of, card["supportedInterfaces"]):
        fields = {name: value for name in INTERFACE_FIELDS if (value := text_of(interface.get(name)))}
        if "url" in fields:
            by_address.setdefault((fields["url"], fields.get("protocolBinding", "").casefold()), fields)
    return list(by_address.values())


# -- skills ----------------------------------------------------------------------------------------


def _tools(card: Mapping[str, Any], skills: list[Any], pointer: str, intake: Intake) -> Iterator[ToolRecord]:
    for number, skill in enumerate(skills):
        place = f"{pointer}/{number}"
        if not isinstance(skill, Mapping):
            intake.reject(place, f"expected a skill object, found {shape_of(skill)}")
            continue
        yield ToolRecord(
            pointer=place,
            name=skill.get("id") or skill.get("name"),
            description=_description(skill),
            input_schema=json.loads(SKILL_MESSAGE),
            annotations=_annotations(card, skill),
            tags=tags_of(items_of(skill.get("tags"))),
            questions=lines_of(skill.get("examples")),
        )


def _description(skill: Mapping[str, Any]) -> object:
    """What it says of itself, behind its title where the id does not say the same."""
    title, description = text_of(skill.get("name")), skill.get("description")
    if not title or fold(title) == fold(text_of(skill.get("id"))) or not isinstance(description or "", str):
        return description
    return f"{title}: {description}" if text_of(description) else title


def _annotations(card: Mapping[str, Any], skill: Mapping[str, Any]) -> dict[str, object] | None:
    """Its title, and the media types it takes and gives: its own, or those of all skills of the card."""
    fields = {
        "title": text_of(skill.get("name")),
        "inputModes": lines_of(skill.get("inputModes")) or lines_of(card.get("defaultInputModes")),
        "outputModes": lines_of(skill.get("outputModes")) or lines_of(card.get("defaultOutputModes")),
    }
    return {name: value for name, value in fields.items() if value} or None
