"""What servers behind the gateway offer beside their tools: prompts, resources and templates of resources.

None of it is in the graph: servers are asked for their lists, and each connection keeps what its server listed. So a
list is never another login's. Hosts get names and addresses that name the agent and hold the server's own: a prompt
is `AGENT__NAME`, a resource `waygraph://agents/AGENT/URI`. A template is that address with a template in it.
"""

import logging
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from threading import Lock
from typing import Any, Literal
from urllib.parse import quote, unquote

import anyio
from cachetools import LRUCache, cached
from mcp.shared.uri_template import InvalidUriTemplate, UriTemplate

from waygraph.api.mcp.gateway import Gateway
from waygraph.api.mcp.protocol import UNFIT, mend_item
from waygraph.api.mcp.sessions import Asker
from waygraph.ingest.manifest.fields import sendable
from waygraph.ingest.sources.mcp_servers import BESIDE_TOOLS
from waygraph.registry.access.visibility import Scope
from waygraph.registry.catalog import find
from waygraph.registry.catalog.find import Judging, list_agents
from waygraph.registry.catalog.resolve import reading_tool
from waygraph.registry.catalog.tool_formats import summary
from waygraph.registry.index.analyser import query_terms, rarity, terms
from waygraph.registry.model.errors import CallTimedOut, NeedsLogin, UnknownName, WaygraphError
from waygraph.registry.model.identity import holds_control, is_broken, name_fault, tool_id
from waygraph.registry.model.nouns import Agent, Filters, Query, Tool, suspicions

Kind = Literal["prompt", "resource", "template"]
AGENTS = "waygraph://agents/"
MOST_SERVERS = 8
"""So many servers are asked for one list. If there are more: pinned ones, then those whose description counts some."""
FOUND_AT = 5
"""A search asks so many servers: those that the router ranks best for it."""
LIST_S = 10.0
"""For the lists of all servers, their start included. When a late one has started, hosts are notified."""
MOST_ADDRESS_CHARS, MOST_LISTED_CHARS = 8_192, 2_048
"""Of an address that is read, and of a name, URI or template that is listed."""
MOST_READ_CHARS = 1_000_000
"""Of the texts of one server's list. What is beyond is left out as what is suspicious, the shortest texts last."""
MOST_VERDICTS = 8_192
"""On texts, each by its hash: so many are remembered."""
MOST_SPLITS = 16
"""In so many places may the name of a prompt be read as that of an agent and its own."""
MAY_KNOW: frozenset[Scope] = frozenset({"route", "read", "use"})
"""Who has none of these scopes learns of nothing that can be called."""
_READS = '{"readOnlyHint":true}'
_log = logging.getLogger("waygraph.gateway")


@dataclass(frozen=True, slots=True)
class _ListMethod:
    """How a kind is listed: method, field of the list, field of the name, its word in counts."""

    method: str
    items: str
    name: str
    counted: re.Pattern[str]


def _count_pattern(what: str) -> re.Pattern[str]:
    return re.compile(rf"{re.escape(BESIDE_TOOLS)}[^\n]*\b\d+ {what}s?\b")


LISTS: Mapping[Kind, _ListMethod] = {
    "prompt": _ListMethod("prompts/list", "prompts", "name", _count_pattern("prompt")),
    "resource": _ListMethod("resources/list", "resources", "uri", _count_pattern("resource")),
    "template": _ListMethod(
        "resources/templates/list", "resourceTemplates", "uriTemplate", _count_pattern("resource template")
    ),
}


@dataclass(frozen=True, slots=True)
class Offer:
    """`name`: the server's own name, URI or template; `address`: ours; `entry`: as hosts get it, with our address."""

    agent: Agent
    kind: Kind
    name: str
    address: str
    entry: Mapping[str, Any]

    @property
    def text(self) -> str:
        """Its title and description, and the arguments of a prompt."""
        return "\n".join(_texts(self.entry))


@dataclass(slots=True)
class Offers:
    """By address. `failed`: agents whose servers did not answer; `log_in_at`: those at which the caller is not logged
    in, with the page for it; `not_asked`: how many were too many; `suspicious`: how many items are left out for their
    text; `unfit`: how many because no host could take them; `notices`: of how servers were chosen, as an answer has
    them.
    """

    found: list[Offer] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    log_in_at: dict[str, str] = field(default_factory=dict)
    not_asked: int = 0
    suspicious: int = 0
    unfit: int = 0
    notices: Mapping[str, Any] = field(default_factory=dict)

    @property
    def missing(self) -> dict[str, Any]:
        """What is not in the list, as hosts read it."""
        values = {name: getattr(self, name) for name in ("failed", "log_in_at", "not_asked", "suspicious")}
        return {name: value for name, value in (values | {"malformed": self.unfit}).items() if value}


def address_of(kind: Kind, agent_id: str, name: str) -> str:
    return f"{agent_id}__{name}" if kind == "prompt" else f"{AGENTS}{quote(agent_id, safe='')}/{name}"


def stand_in(kind: Kind, agent: Agent, name: str) -> Tool:
    """As what policy and audit know it: a tool of the agent that only reads, `prompt:NAME` or `resource:URI`. A file of
    a skill is the skill: who may read one may read all.
    """
    if agent.kind == "skill":
        return reading_tool(agent)
    tool_name = f"{'prompt' if kind == 'prompt' else 'resource'}:{name}"
    return Tool(
        id=tool_id(agent.id, tool_name),
        agent_id=agent.id,
        name=tool_name,
        call_name=f"{agent.id}__{tool_name}",
        annotations=_READS,
    )


async def find_owner(gateway: Gateway, asker: Asker, kind: Kind, address: str) -> tuple[Agent, str]:
    """The agent and its own name of what is meant. Raises UnknownName, also for what is hidden."""
    if len(address) <= MOST_ADDRESS_CHARS:
        if named := await gateway.ask(lambda: _named_owner(gateway, asker, kind, address)):
            return named
        owners = {} if address.startswith("waygraph:") else await _listing_owners(gateway, asker, kind, address)
        if len(owners) == 1:
            return next(iter(owners.values())), address
        if owners:
            several = ", ".join(address_of(kind, agent_id, address) for agent_id in sorted(owners))
            raise UnknownName(kind, address, (), hint=f"Several servers have one: name {several}.")
    raise UnknownName(kind, address[:200], ())


def _named_owner(gateway: Gateway, asker: Asker, kind: Kind, address: str) -> tuple[Agent, str] | None:
    view = gateway.view(asker)
    for agent_id, name in _readings(kind, address):
        with suppress(UnknownName):
            agent = view.registry.agent(agent_id, principal=asker.principal)
            if agent.kind == "mcp_server" and view.shows_whole(agent) and not agent.hidden:
                return agent, name
    return None


def _readings(kind: Kind, address: str) -> Iterator[tuple[str, str]]:
    """Ids and names that the address may stand for, the longest id first: an id may hold `__`, too."""
    if kind != "prompt":
        agent_id, slash, name = address.removeprefix(AGENTS).partition("/")
        if address.startswith(AGENTS) and slash and name:
            yield unquote(agent_id), name
        return
    for at in [found.start() for found in re.finditer("(?=__)", address)][:MOST_SPLITS][::-1]:
        if address[:at] and address[at + 2 :]:
            yield address[:at], address[at + 2 :]


async def _listing_owners(gateway: Gateway, asker: Asker, kind: Kind, name: str) -> dict[str, Agent]:
    listed = await list_offers(gateway, asker, kind)
    owners = {offer.agent.id: offer.agent for offer in listed.found if offer.name == name}
    if owners or kind != "resource":
        return owners
    templates = await list_offers(gateway, asker, "template")
    return {offer.agent.id: offer.agent for offer in templates.found if _fits(offer.name, name)}


def _fits(template: str, uri: str) -> bool:
    try:
        return UriTemplate.parse(template).match(uri) is not None
    except InvalidUriTemplate:
        return False


async def list_offers(gateway: Gateway, asker: Asker, kind: Kind, query: str = "") -> Offers:
    """What the asker may see of the lists of the servers at its endpoint; with a query, of those that fit it best.

    Raises what finding raises.
    """
    if "use" not in asker.caller.scopes:  # who may call nothing has no server started
        return Offers()
    servers, unasked, notices = await gateway.ask(lambda: _servers(gateway, asker, kind, query))
    answers: dict[str, Sequence[Any]] = {}
    logins: dict[str, str] = {}

    async def ask_server(agent: Agent) -> None:
        try:
            answers[agent.id] = await _ask_list(gateway, asker, kind, agent)
        except CallTimedOut:
            if agent.id not in gateway.executor.open_servers:
                gateway.late.add(agent.id)
        except NeedsLogin:
            logins[agent.id] = asker.login_page(agent.id)
        except (WaygraphError, TimeoutError):
            return
        except Exception:  # noqa: BLE001 - whatever a server leads to costs its own list alone
            _log.exception("%s of %s", LISTS[kind].method, agent.id)

    async with anyio.create_task_group() as tasks:
        for agent in servers:
            tasks.start_soon(ask_server, agent)
    failed = [agent.id for agent in servers if agent.id not in answers and agent.id not in logins]
    offers = Offers(failed=failed, log_in_at=dict(sorted(logins.items())), not_asked=unasked, notices=notices)
    if offers.failed:
        _log.warning("%s of %s did not come: left out", LISTS[kind].method, ", ".join(offers.failed))
    listed = [(agent, answers[agent.id]) for agent in servers if agent.id in answers]
    # Who has none is not asked again, so that it may rest, until it is another agent or any server tells of a change.
    # A server that is called as each caller may list something for another one.
    own_logins = gateway.executor.logins
    for agent, items in listed:
        if not items and not (own_logins and own_logins.rule(agent.id)):
            gateway.silent[kind, agent.id] = agent.content_hash
    return await gateway.ask(lambda: _read_lists(gateway, asker, kind, listed, offers))


async def _ask_list(gateway: Gateway, asker: Asker, kind: Kind, agent: Agent) -> Sequence[Any]:
    listed = LISTS[kind]
    deadline_s = min(LIST_S, gateway.settings.call_timeout_s)
    call = gateway.tool_call(asker, agent, stand_in(kind, agent, "*"), {}, deadline_s, method=listed.method)
    items = (await gateway.executor.call(call))[listed.items]
    return items if isinstance(items, Sequence) else ()


def _servers(gateway: Gateway, asker: Asker, kind: Kind, query: str) -> tuple[list[Agent], int, dict[str, Any]]:
    """The servers to ask, how many more there are, and the notices of how they were chosen."""
    notices: dict[str, Any] = {}
    offering = offering_agents(gateway, asker, kind)
    servers = [agent for agent in offering if gateway.silent.get((kind, agent.id)) != agent.content_hash]
    if len(servers) <= MOST_SERVERS:
        return servers, 0, notices
    likely = [agent for agent in servers if agent.pinned or LISTS[kind].counted.search(agent.description)]
    if query.strip():
        filters = Filters(agent_ids=tuple(sorted(agent.id for agent in likely)))
        request = Query(text=query, limit=FOUND_AT, filters=filters)
        registry = gateway.view(asker).registry
        ranked = registry.route(request, recipe=gateway.recipe_of(), principal=asker.principal) if likely else None
        best = [match.agent.id for match in (*ranked.pinned, *ranked.matches)] if ranked else []
        notices = find.notices_field(ranked) if ranked else {}
        chosen = sorted((agent for agent in likely if agent.id in best), key=lambda agent: best.index(agent.id))
    else:
        chosen = sorted(likely, key=lambda agent: (not agent.pinned, agent.id))[:MOST_SERVERS]
    return chosen, len(servers) - len(chosen), notices


def offering_agents(gateway: Gateway, asker: Asker, kind: Kind) -> list[Agent]:
    """The MCP servers at the asker's endpoint that can be called and may be, by id."""
    view, why_not = gateway.view(asker), gateway.reach.now().why_not
    judges = gateway.judges(asker)
    agents = (listed.agent for listed in list_agents(view.registry, asker.principal, view.agent_ids))
    servers = [
        agent
        for agent in agents
        if agent.kind == "mcp_server" and view.shows_whole(agent) and not (agent.pending or why_not(agent))
    ]
    word = stand_in(kind, Agent(id="", name=""), "").name
    names_some = any(rule.verdict != "deny" and word in rule.match for rule in judges.policy.rules)
    allowed = (a for a in servers if names_some or _may(judges, a, kind, ""))
    return sorted(allowed, key=lambda agent: agent.id)


def _may(judges: Judging, agent: Agent, kind: Kind, name: str) -> bool:
    return judges.judge(agent, stand_in(kind, agent, name), by_name=True).verdict != "deny"


def _read_lists(
    gateway: Gateway, asker: Asker, kind: Kind, answers: Sequence[tuple[Agent, Sequence[Any]]], offers: Offers
) -> Offers:
    """A bad item costs only itself; what policy denies, or is written to mislead a model, is left out."""
    judges = gateway.judges(asker)
    found: dict[str, Offer] = {}
    for agent, items in answers:
        try:
            read = [_read_item(kind, agent, item) for item in items]
        except Exception:  # noqa: BLE001 - as above
            _log.exception("%s of %s", LISTS[kind].method, agent.id)
            offers.failed.append(agent.id)
            continue
        offers.unfit += read.count(None)
        listing = [offer for offer in read if offer and _may(judges, agent, kind, offer.name)]
        doubtful = _doubtful_addresses(listing)
        for offer in listing:
            # Where another agent's id begins as the name of a prompt does, the name is one of that agent's.
            owner = (agent, "") if kind != "prompt" else _named_owner(gateway, asker, kind, offer.address)
            if offer.address in doubtful:
                offers.suspicious += 1
            elif owner is not None and owner[0].id == agent.id:
                found.setdefault(offer.address, offer)
    offers.found = [found[address] for address in sorted(found)]
    return offers


def _read_item(kind: Kind, agent: Agent, item: Any) -> Offer | None:
    listed = LISTS[kind]
    if not isinstance(item, Mapping):
        return None
    name = item.get(listed.name)
    if not isinstance(name, str) or not name or len(name) > MOST_LISTED_CHARS:
        return None
    if name_fault(name) if kind == "prompt" else holds_control(name) or is_broken(name):
        return None
    address = address_of(kind, agent.id, name)
    entry = mend_item(listed.method, listed.items, sendable({**item, listed.name: address}))
    return None if entry is UNFIT else Offer(agent, kind, name, address, entry)


def _texts(entry: Mapping[str, Any]) -> Iterator[str]:
    for each in (entry, *(entry.get("arguments") or ())):
        yield from (value for key in ("name", "title", "description") if isinstance(value := each.get(key), str))


def _doubtful_addresses(offers: Sequence[Offer]) -> set[str]:
    """Of one server's: with a text that is suspicious, or that nobody looked through."""
    chars, addresses = 0, set[str]()
    for offer in sorted(offers, key=lambda offer: len(offer.text)):
        chars += len(offer.text)
        if chars > MOST_READ_CHARS or _is_suspicious(offer.name, offer.text):
            addresses.add(offer.address)
    return addresses


@cached(
    LRUCache[bytes, bool](MOST_VERDICTS),
    key=lambda *texts: sha256("\0".join(texts).encode("utf-8", "surrogatepass")).digest(),
    lock=Lock(),
)
def _is_suspicious(name: str, text: str) -> bool:
    tool = Tool(id="", agent_id="", name=name, description=text)
    from waygraph.ingest.manifest.suspicion.findings import examine

    return bool(suspicions(examine(tool).flags(lambda _: {})))


PAGE = 100
"""So many items does a page hold."""
UNLISTED = "waygraph/unlisted"
"""In `_meta` of a list: agents that did not answer, those that need a login, and how many were not asked.
Also how many items look suspicious, and how many no host could take.
"""


async def offers_page(gateway: Gateway, asker: Asker, kind: Kind, cursor: str) -> dict[str, Any]:
    """As MCP has it. `cursor`: the address after which the page begins; empty: the first page."""
    offers = await list_offers(gateway, asker, kind)
    rest = [offer for offer in offers.found if offer.address > cursor]
    page: dict[str, Any] = {LISTS[kind].items: [offer.entry for offer in rest[:PAGE]]}
    if len(rest) > PAGE:
        page["nextCursor"] = rest[PAGE - 1].address
    if missing := offers.missing:
        page["_meta"] = {UNLISTED: missing}
    return page


_HINTS: Mapping[Kind, str] = {
    "prompt": "a person chooses a prompt: the host fetches it by its name (prompts/get)",
    "resource": "read one with use_tool(name=<uri>), or have the host read it (resources/read)",
    "template": "fill in the template's variables, and read the address as a resource: use_tool(name=<uri>)",
}


async def find_offers(gateway: Gateway, asker: Asker, kind: Kind, query: str, limit: int) -> dict[str, Any]:
    """Those that fit the query, by words, best first, and behind them others of the servers that fit it."""
    offers = await list_offers(gateway, asker, kind, query)
    found = await gateway.ask(lambda: _rank_offers(query, offers.found))
    answer: dict[str, Any] = {f"{kind}s": [_describe(offer) for offer in found[:limit]]}
    if found:
        answer["hint"] = _HINTS[kind]
    else:
        answer["reason"] = f"no server that could be asked lists a {kind}"
    if len(found) > limit:
        answer["more"] = len(found) - limit
    return {**answer, **offers.notices} | offers.missing


def _rank_offers(query: str, offers: Sequence[Offer]) -> list[Offer]:
    """By the rarity of the query's words that each holds: as in BM25 (Robertson and Zaragoza, 2009), without counts."""
    words = [set(terms(f"{offer.name}\n{offer.text}")) for offer in offers]
    having = Counter(word for own in words for word in own)
    weights = [(word, rarity(having[word], len(offers))) for word in query_terms(query)]
    scores = {
        offer.address: sum(weight for word, weight in weights if word in own)
        for offer, own in zip(offers, words, strict=True)
    }
    return sorted(offers, key=lambda offer: (-scores[offer.address], offer.address))


def _describe(offer: Offer) -> dict[str, Any]:
    entry, listed = offer.entry, LISTS[offer.kind]
    answer: dict[str, Any] = {listed.name: offer.address}
    if offer.kind != "prompt":
        answer |= {"name": summary(str(entry["name"])), "mimeType": entry.get("mimeType")}
    answer["description"] = summary(str(entry.get("description") or entry.get("title") or ""))
    arguments = [
        f"{summary(each['name'])}{'' if each.get('required') else '?'}" for each in entry.get("arguments") or ()
    ]
    answer["arguments"] = ", ".join(arguments)
    return {name: value for name, value in answer.items() if value}
