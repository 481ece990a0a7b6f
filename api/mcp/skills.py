"""Skills, as the extension `io.modelcontextprotocol/skills` (SEP-2640) has them, and as resources for other hosts.

The address of a file is `skill://AGENT/NAME/PATH`: the agent's id keeps the skills of two sources apart. A skill is
here whose files were all known when it was ingested, whose front matter the graph holds as it stands in SKILL.md, and
which the asker may read. What is read is judged, and its digest checked, as every call is (`call_offer`).
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import quote, unquote

from waygraph.api.mcp.gateway import Gateway
from waygraph.api.mcp.offers import MAY_KNOW
from waygraph.api.mcp.sessions import Asker
from waygraph.ingest.manifest.fields import fields_of, text_of
from waygraph.ingest.sources.parse import SKILL_FILE
from waygraph.registry.catalog.resolve import reading_tool
from waygraph.registry.model.errors import UnknownName
from waygraph.registry.model.nouns import Agent, Filters, parse_field

SCHEME = "skill://"
PAGE = 100
"""Skills of one page: so many are looked at."""
_NAME = re.compile(r"(?=.{1,64}$)[a-z0-9]+(?:-[a-z0-9]+)*")


def skills_page(gateway: Gateway, asker: Asker, cursor: str) -> tuple[list[dict[str, Any]], str]:
    """Entries, and where the next page begins; empty: nowhere. `cursor`: the id behind which the page begins."""
    view = gateway.view(asker)
    if asker.caller.scopes.isdisjoint(MAY_KNOW) or (view.agent_ids is not None and not view.agent_ids):
        return [], ""
    filters = Filters(kinds=("skill",), agent_ids=tuple(sorted(view.agent_ids or ())))
    page = view.registry.agents_page(filters=filters, after=cursor, limit=PAGE, principal=asker.principal)
    skills = _readable(gateway, asker, [each.agent for each in page.items])
    return [entry for entry in map(_entry, skills) if entry], page.following


def skill_entry(gateway: Gateway, asker: Asker, uri: str) -> dict[str, Any]:
    """Raises UnknownName, also for a skill that the asker may not read."""
    owner = None if asker.caller.scopes.isdisjoint(MAY_KNOW) else skill_at(gateway, asker, uri)
    for entry in map(_entry, _readable(gateway, asker, [owner[0]] if owner else [])):
        if entry and entry["uri"] == uri:
            return entry
    raise UnknownName("resource", uri[:200], ())


def skill_at(gateway: Gateway, asker: Asker, uri: str) -> tuple[Agent, str] | None:
    """The skill of this address, and the path of the file; None for another address."""
    if not uri.startswith(SCHEME):
        return None
    agent_id, _, rest = uri.removeprefix(SCHEME).partition("/")
    name, _, path = rest.partition("/")
    view = gateway.view(asker)
    with suppress(UnknownName):
        agent = view.registry.agent(unquote(agent_id), principal=asker.principal)
        is_here = agent.kind == "skill" and not agent.hidden and view.shows_tool(agent, reading_tool(agent))
        if is_here and unquote(name) == _front_of(agent).get("name"):
            return agent, unquote(path)
    return None


def resources_of(entries: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Each file of the skills, as MCP lists resources."""
    for entry in entries:
        front, folder = entry["frontmatter"], entry["uri"].removesuffix(SKILL_FILE)
        for file in entry["resources"]:
            facts = {"uri": file["uri"], "name": f"{front['name']}/{unquote(file['uri'].removeprefix(folder))}"}
            if file["uri"] == entry["uri"]:
                facts |= {"name": front["name"], "description": front["description"], "mimeType": "text/markdown"}
            yield facts | {"size": file["size"]}


def _readable(gateway: Gateway, asker: Asker, skills: Sequence[Agent]) -> Iterator[Agent]:
    """Of these those that may be read: shown here, approved, allowed by the policy, their files within reach."""
    view, why_not = gateway.view(asker), gateway.reach.now().why_not
    judges = gateway.judges(asker)
    for each in skills:
        read = reading_tool(each)
        if each.hidden or why_not(each) or not view.shows_tool(each, read):
            continue
        if judges.judge(each, read, by_name=True).verdict != "deny":
            yield each


def _entry(skill: Agent) -> dict[str, Any] | None:
    """As the extension has it; None for a skill that it cannot have."""
    transport, front = fields_of(parse_field(skill.transport)), _front_of(skill)
    files, name = fields_of(transport.get("files")), front.get("name")
    if not (isinstance(name, str) and _NAME.fullmatch(name) and text_of(front.get("description"))):
        return None
    if SKILL_FILE not in files or transport.get("partial"):
        return None
    folder = f"{SCHEME}{quote(skill.id, safe='')}/{name}/"
    resources = [
        {"uri": f"{folder}{quote(path)}", "digest": f"sha256:{file['sha256']}", "size": file["size"]}
        for path, file in files.items()
    ]
    return {"uri": f"{folder}{SKILL_FILE}", "frontmatter": front, "resources": resources}


def _front_of(skill: Agent) -> Mapping[str, Any]:
    return fields_of(fields_of(parse_field(skill.transport)).get("frontmatter"))
