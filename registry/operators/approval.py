"""Approval: what waits for it, what it says, and that it is given or refused.

What operators say of an agent: the setting with some fields changed, and stored.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal
from urllib.parse import quote

from waygraph.registry.access.visibility import as_seen
from waygraph.registry.graph.engine import GraphSession
from waygraph.registry.graph.read import GraphView, Part, overlaid
from waygraph.registry.graph.schema import link_subjects
from waygraph.registry.graph.write import put_props, put_settings, remove_agents, write_vectors
from waygraph.registry.model import validation
from waygraph.registry.model.box_wishes import GRANT, REFUSAL, WAITS, ServerWishes, WishFile, decisions_of
from waygraph.registry.model.changes import (
    OF_SERVER,
    Approved,
    Change,
    OperatorSettings,
    Rejections,
    Waiting,
    Written,
    entries_of,
    plain_key,
    server_key,
)
from waygraph.registry.model.errors import InvalidSetting, TextDiffers, UnknownName
from waygraph.registry.model.identity import call_name, is_broken
from waygraph.registry.model.nouns import Agent, Principal, Tool, canonical_json, is_doubtful
from waygraph.registry.model.tool_settings import (
    MAX_REASON_CHARS,
    Rejection,
    mark_rejection,
    merge_rejections,
    settings_of_tools,
)
from waygraph.registry.model.transitions import owner_of
from waygraph.registry.operators.rights import is_operator, refuse_non_operator, refuse_setting
from waygraph.registry.operators.sources import claims_of
from waygraph.registry.writer import WriteSession, changed_entries_of

OF_SOURCE = "source:"
"""Before a source's name: all that waits of it."""
MAX_NAME_CHARS = len(OF_SOURCE) + validation.MAX_NAME_CHARS
"""Of a name that is approved, with what stands before a source's."""
HINT = "All that waits of a source: `waygraph approve --all-of SOURCE`; over REST and in Python the name `source:NAME`."


def waits(entity: Agent | Tool) -> bool:
    """Whether it is out of routing until somebody approves it, also after they rejected it, or flagged and not approved
    as it is now.
    """
    return entity.pending or is_doubtful(entity)


def waiting(graph: GraphView, name: str, principal: Principal | None) -> list[Agent | Tool]:
    """What waits under a name: an agent's id, a tool's id or call name, or a source's behind `source:`. What is flagged
    and not approved waits, too, but in the name of a whole source. What was rejected is named itself, or with its agent
    that was rejected too.

    Raises UnknownName, also for what the principal may not see. Whether the source is known the caller has looked.
    """
    if name.startswith(OF_SOURCE):
        entities = _of_agents(graph, spoken_agents(graph, name.removeprefix(OF_SOURCE)))
        # What is flagged and in routing is approved by its own name: nobody looks at a whole source word for word.
        entities = [each for each in entities if each.pending and not (each.rejection or _owner_rejection(graph, each))]
    elif graph.shows(name, principal):
        _refuse_two_meanings(graph, name, principal)
        entities = [e for e in _of_agents(graph, [name]) if not e.rejection or _owner_rejection(graph, e)]
    else:
        entities = [_with_rejection(graph, find_held_tool(graph, name, principal))]
    shows = graph.view_for(principal)
    return [each for each in entities if waits(as_seen(each, shows))]


def _with_rejection[E: Agent | Tool](graph: GraphView, entity: E) -> E:
    return mark_rejection(entity, graph.settings.get(owner_of(entity.id)))


def _owner_rejection(graph: GraphView, entity: Agent | Tool) -> str:
    return _with_rejection(graph, graph.agents[owner_of(entity.id)].agent).rejection


def _of_agents(graph: GraphView, agent_ids: Sequence[str]) -> list[Agent | Tool]:
    tools_by_agent = graph.tools_of(agent_ids)
    entities: list[Agent | Tool] = [graph.agents[agent_id].agent for agent_id in agent_ids]
    entities += [item.tool for agent_id in agent_ids for item in tools_by_agent.get(agent_id, ())]
    return [_with_rejection(graph, each) for each in entities]


def checked_names(
    names: Sequence[str], doing: str = "approve", hashes: Mapping[str, str] | None = None
) -> tuple[str, ...]:
    """Each once. Raises InvalidSetting for none, or for both kinds, UnknownName for what nothing can be called."""
    if bool(names) == bool(hashes):
        raise InvalidSetting(
            f"say what to {doing}: agents, tools, or `source:NAME` for all that waits of a source; or else `hashes`, "
            "ids with the content hashes of what was read"
        )
    for name in (*names, *(hashes or ())):
        if not 0 < len(name) <= MAX_NAME_CHARS or is_broken(name):
            raise UnknownName("agent or tool", name[:MAX_NAME_CHARS], (), hint=HINT)
    return tuple(dict.fromkeys(names))


def _waiting_by_hash(
    graph: GraphView, hashes: Mapping[str, str], principal: Principal | None
) -> Iterator[Agent | Tool]:
    """What waits of these ids alone, each with the content hash of what was read. Raises TextDiffers, UnknownName."""
    shows = graph.view_for(principal)
    for name, text in hashes.items():
        is_agent = graph.shows(name, principal)
        entity: Agent | Tool = graph.agents[name].agent if is_agent else find_held_tool(graph, name, principal)
        if entity.content_hash != text:
            raise TextDiffers(name)
        entity = _with_rejection(graph, entity)
        if waits(as_seen(entity, shows)):
            yield entity


def spoken_agents(graph: GraphView, source: str) -> list[str]:
    """The agents whose texts are the source's: a live source speaks before a catalogue, then who said what is held,

    then the earliest.
    """
    speakers: dict[str, tuple[int, bool, str, str]] = {}
    for claim in graph.claims:
        said_otherwise = claim.hash != graph.agents[claim.agent_id].bundle_hash
        rank = (-claim.rank, said_otherwise, claim.order, claim.source)
        speakers[claim.agent_id] = min(rank, speakers.get(claim.agent_id, rank))
    return sorted(agent_id for agent_id, (*_, name) in speakers.items() if name == source)


def checked_reason(reason: str) -> str:
    """Raises InvalidSetting for none, or one that cannot be kept."""
    if not isinstance(reason, str) or not reason.strip() or len(reason) > MAX_REASON_CHARS or is_broken(reason):
        raise InvalidSetting(f"say why, in a text of 1 to {MAX_REASON_CHARS:,} characters")
    return reason.strip()


def _refuse_two_meanings(graph: GraphView, name: str, principal: Principal | None) -> None:
    """An agent may have been given the call name of another's tool for its id. Raises InvalidSetting."""
    agent_ids = [agent_id for agent_id in graph.agents if "__" in name and graph.shows(agent_id, principal)]
    tools = (item.tool for items in graph.tools_of(agent_ids).values() for item in items)
    if other := next((tool.id for tool in tools if tool.call_name == name), ""):
        raise InvalidSetting(
            f"{name!r} is the id of an agent and the call name of the tool {other!r}: approve tools by their ids, or "
            "all that waits of a source by `source:NAME`"
        )


def read_named(
    session: WriteSession, names: Collection[str], principal: Principal | None, sources: Collection[str] = ()
) -> GraphView:
    """The agents of these names, which may be those of their tools, and those that the sources claim.

    The whole graph where only that tells: for call names, for the error about a name that is unknown, and for a
    principal.
    """
    owners = {name.partition("/")[0] for name in names}
    graph = session.read_graph_view(Part(agent_ids=owners, sources=sources))
    # What waits is shown to a principal by whom its flags name, which may be any agent.
    is_enough = principal is None and not any("__" in name for name in names) and owners <= graph.agents.keys()
    return graph if is_enough else session.read_graph_view()


def find_held_tool(graph: GraphView, name: str, principal: Principal | None, hint: str = HINT) -> Tool:
    """As its source states it, by id or call name, its source's before an operator's. Raises UnknownName."""
    visible_ids = [agent_id for agent_id in graph.agents if graph.shows(agent_id, principal)]
    owner = name.partition("/")[0]
    owners = [owner] if "/" in name and owner in visible_ids else visible_ids
    tools = [item.tool for items in graph.tools_of(owners).values() for item in items]
    matches = [tool for tool in tools if name in (tool.id, tool.call_name)]
    match = next(iter(matches or (tool for tool in tools if name == _set_name(graph, tool))), None)
    if match is None:
        names = (
            [tool.id if "/" in name else tool.call_name for tool in tools]
            if "/" in name or "__" in name
            else visible_ids
        )
        raise UnknownName("agent or tool", name, names, hint=hint)
    return match


def _set_name(graph: GraphView, tool: Tool) -> str:
    """The call name that an operator gave it; empty: none."""
    setting = settings_of_tools(graph.settings_of(tool.agent_id)).get(tool.name)
    return call_name(tool.agent_id, setting.name) if setting and setting.name else ""


def approve(
    session: WriteSession, *names: str, hashes: Mapping[str, str] | None = None, principal: Principal | None = None
) -> Approved:
    """What waits of agents, tools and sources (`source:NAME`) waits no more, as its text is now. `hashes`: in place
    of names, ids with content hashes, of which nothing is taken along.

    Raises UnknownName; TextDiffers; NotAllowed for who is no operator, and for a source that claims an agent which the
    principal may not see; and as `WriteSession.commit`.
    """
    refuse_non_operator("an approval", principal)
    return _decide(session, names, hashes, principal, kind=Approved)


def reject(
    session: WriteSession,
    *names: str,
    reason: str,
    by: str = "",
    hashes: Mapping[str, str] | None = None,
    principal: Principal | None = None,
) -> Rejections:
    """The same stays out of routing as its text is now, and waits no more. Another text of it waits. Raises as
    `approve`.
    """
    refuse_non_operator("a rejection", principal)
    rejection = Rejection(hash="", reason=reason, by=by, at=session.clock())
    return _decide(session, names, hashes, principal, kind=Rejections, rejection=rejection)


def _decide[R: Approved](
    session: WriteSession,
    names: Sequence[str],
    hashes: Mapping[str, str] | None,
    principal: Principal | None,
    *,
    kind: type[R],
    rejection: Rejection | None = None,
) -> R:
    """An agent is embedded anew whose text gets or loses the name of a tool."""
    session.set_apart(principal)
    revision = session.begin().revision
    sources = [name.removeprefix(OF_SOURCE) for name in names if name.startswith(OF_SOURCE)]
    ids = [*(name for name in names if not name.startswith(OF_SOURCE)), *(hashes or ())]
    graph = read_named(session, ids, principal, sources)
    for source in sources:
        claims_of(session, graph, source, principal)
    by_name = (each for name in names for each in waiting(graph, name, principal))
    by_id = {each.id: each for each in (_waiting_by_hash(graph, hashes, principal) if hashes else by_name)}
    if not (entities := [by_id[each] for each in sorted(by_id)]):
        return kind(revision=revision)
    agents = [each for each in entities if isinstance(each, Agent)]
    tools = [each for each in entities if isinstance(each, Tool)]
    # The agents that change, or whose tools do, whole, as they are once these are in routing, or out of it.
    agent_ids = sorted({owner_of(each) for each in by_id})
    held_tools = (item.tool for items in graph.tools_of(agent_ids).values() for item in items)
    new_tools = (replace(each, pending=rejection is not None) if each.id in by_id else each for each in held_tools)
    entries = entries_of((graph.agents[agent_id].agent for agent_id in agent_ids), new_tools)
    settings = [
        merge_rejections(graph.settings_of(entry.key), [e for e in entities if owner_of(e.id) == entry.key], rejection)
        for entry in entries
    ]
    # Without a tool that joins or leaves them, the agents' texts stay as they are.
    moves = any(tool.pending != bool(rejection) for tool in tools)
    vectors = session.embed(graph, entries if moves else (), settings)

    def props(entity: Agent | Tool) -> dict[str, object]:
        return {"pending": True} if rejection else {"pending": False, "approved_hash": entity.content_hash}

    def work(graph_session: GraphSession) -> None:
        write_vectors(graph_session, [entry.key for entry in entries], vectors)
        put_props(graph_session, {each.id: props(each) for each in entities})
        put_settings(graph_session, [each for each in settings if each != graph.settings_of(each.agent_id)])
        link_subjects(graph_session, [entry.key for entry in entries])
        if rejection:
            session.log(graph_session, [_rejection_change(each, rejection.reason) for each in entities])

    return kind(
        agents=tuple(agent.id for agent in agents),
        tools=tuple(tool.id for tool in tools),
        revision=session.write(work, [entry.key for entry in entries], vectors).revision,
    )


def _rejection_change(entity: Agent | Tool, reason: str) -> Change:
    return Change(
        source="",
        agent_id=owner_of(entity.id),
        tool=entity.name if isinstance(entity, Tool) else "",
        what="rejected",
        after_hash=entity.content_hash,
        after=canonical_json({"reason": reason}),
        flags=entity.flags,
    )


def changed_setting(
    graph: GraphView, agent_id: str, changes: Mapping[str, object], principal: Principal | None = None
) -> OperatorSettings:
    """What operators said of an agent so far, with these fields changed.

    Raises UnknownName, also for what the principal may not see; what is removed only those see who see everything.
    Raises NotAllowed for what the principal may not set.
    """
    if not graph.shows(agent_id, principal) and (principal is not None or agent_id not in graph.settings):
        raise UnknownName("agent", agent_id, (each for each in graph.agents if graph.shows(each, principal)))
    before = graph.settings_of(agent_id)
    after = replace(before, **changes)  # type: ignore[arg-type]
    if agent_id in graph.agents:
        now, then = (overlaid(graph.agents[agent_id].agent, {agent_id: setting}) for setting in (before, after))
        refuse_setting(now, then, changes, principal)
    return after


def put_setting(session: WriteSession, setting: OperatorSettings) -> Written:
    """Stores what an operator says; an agent it removes goes with its tools, and a server's skills are seen as it is.

    What is said of tools is embedded. Raises as `WriteSession.commit`.
    """
    session.begin()
    graph = session.read_graph_view(Part(agent_ids=[setting.agent_id]))
    settings = [setting, *_settings_of_skills(session, graph, setting)]
    agent_ids = [setting.agent_id] if setting.removed and setting.agent_id in graph.agents else []
    tools = [item.tool.id for items in graph.tools_of(agent_ids).values() for item in items]
    entries = changed_entries_of(graph, [setting], agent_ids)
    vectors = session.embed(graph, entries, [setting])
    ids = [each.agent_id for each in settings]

    def work(graph_session: GraphSession) -> None:
        remove_agents(graph_session, agent_ids, tools)
        put_settings(graph_session, settings)
        link_subjects(graph_session, ids)
        write_vectors(graph_session, [each.id for entry in entries for each in entry.entities], vectors)

    return session.write(work, ids, vectors)


def _settings_of_skills(
    session: WriteSession, graph: GraphView, setting: OperatorSettings
) -> Iterator[OperatorSettings]:
    """Those of the skills that a server lists, if it is hidden now, or restricted, or no longer."""
    if (before := graph.settings_of(setting.agent_id)).audience == setting.audience:
        return
    keys = {(claim.source, claim.key) for claim in graph.claims}
    around = session.read_graph_view(Part(sources={source for source, _ in keys}))
    for claim in around.claims:
        if OF_SERVER in claim.key and (claim.source, server_key(claim.key)) in keys:
            skill = around.settings_of(claim.agent_id)
            if skill.audience == before.audience:  # else somebody set the skill apart
                yield replace(skill, visible_to=setting.visible_to, hidden=setting.hidden)


def _launches_by_name(graph: GraphView, content: Mapping[str, ServerWishes]) -> Mapping[str, list[str]]:
    """By agent its launches here. A server that did not even start without what it asked for has no agent, and a name
    of its key and some digits.
    """
    agent_ids = {(claim.source, plain_key(claim.key)): claim.agent_id for claim in graph.claims}
    launches = dict[str, list[str]]()
    for launch, each in ((launch, each) for launch, each in content.items() if each.servers):
        names = {agent_ids[server] for server in each.servers if server in agent_ids}
        for name in names or {f"{quote(each.servers[0][1], safe='')[:64]}#{launch[:8]}"}:
            launches.setdefault(name, []).append(launch)
    return launches


def _shows_wishes(graph: GraphView, name: str, principal: Principal | None) -> bool:
    """Of a server without an agent nobody knows whose it is: who sees everything may see it."""
    return graph.shows(name, principal) if name in graph.agents else principal is None and "#" in name


def seen_wishes(graph: GraphView, file: WishFile, principal: Principal | None) -> Iterator[Waiting]:
    """What waits for an operator, and what was refused. They are launch data: nobody else is shown any."""
    if not is_operator(principal):
        return
    content = file.content()
    launches = _launches_by_name(graph, content)
    for name in sorted({*launches, *(each for each, setting in graph.settings.items() if setting.wishes)}):
        if not _shows_wishes(graph, name, principal):
            continue
        states, reasons = _states_of_wishes(content, launches.get(name, ())), decisions_of(graph.settings.get(name))
        agent = graph.agents[name].agent if name in graph.agents else None
        sources = {claim.source for claim in graph.claims if claim.agent_id == name}
        if agent is None:
            sources = {source for launch in launches[name] for source, _ in content[launch].servers}
        for wish in sorted({*states, *(each for each, reason in reasons.items() if reason)}):
            if reasons.get(wish) or states[wish] == WAITS:
                text = f"Its server {wish}. Its box refused that."
                yield Waiting(
                    id=f"{name} {wish}",
                    agent_id=name if agent else "",
                    description=text,
                    content_hash=agent.content_hash if agent else "",
                    fields=("description",),
                    chars=len(text),
                    pending=True,
                    rejection=reasons.get(wish, ""),
                    sources=tuple(sorted(sources)),
                )


def _states_of_wishes(content: Mapping[str, ServerWishes], launches: Iterable[str]) -> Mapping[str, str]:
    """By wish of any of these launches what became of it; if it waits for one, it waits."""
    states = dict[str, str]()
    for wish, state in (item for launch in launches for item in content[launch].wishes.items()):
        states[wish] = min(state, states.get(wish, state))
    return states


def decide_wishes(
    session: WriteSession, file: WishFile, hashes: Mapping[str, str | None], principal: Principal | None, reason: str
) -> int:
    """Grants them from the next start on, or with a `reason` refuses them; the revision then. `hashes`: by the id of a
    wish the content hash of its agent that was read; None: of any. A folder stands for each wish below it. What is
    decided of a server without an agent is kept on this machine alone.

    Raises UnknownName, TextDiffers, NotAllowed, StorageFailed, and what a write raises.
    """
    refuse_non_operator("to decide on a wish", principal)
    revision = session.begin().revision
    graph, content = session.read_graph_view(), file.content()
    launches, decisions = _launches_by_name(graph, content), dict[str, dict[str, str]]()
    for name, content_hash in hashes.items():
        server, _, wish = name.partition(" ")
        wishes = {*_states_of_wishes(content, launches.get(server, ())), *decisions_of(graph.settings.get(server))}
        below = [each for each in wishes if each == wish or each.startswith(f"{wish}/")]
        if not below or not _shows_wishes(graph, server, principal):
            raise UnknownName("wish of a server", name, ())
        held_hash = graph.agents[server].agent.content_hash if server in graph.agents else ""
        if content_hash not in (None, held_hash):
            raise TextDiffers(name)
        decisions.setdefault(server, {}).update(dict.fromkeys((wish, *below), reason))
    agent_ids = [each for each in decisions if each in graph.agents]
    settings = [
        replace(each, wishes=canonical_json({**decisions_of(each), **decisions[each.agent_id]}))
        for each in map(graph.settings_of, agent_ids)
    ]

    def work(graph_session: GraphSession) -> None:
        put_settings(graph_session, settings)
        link_subjects(graph_session, agent_ids)
        session.log(graph_session, [_wish_change(each, decisions[each], reason) for each in agent_ids])

    if agent_ids:
        revision = session.write(work, agent_ids).revision
    for server, reasons in decisions.items():
        file.decide(launches.get(server, ()), reasons, REFUSAL if reason else GRANT)
    return revision


def _wish_change(agent_id: str, wishes: Iterable[str], reason: str) -> Change:
    """Those that may not read how servers are started read no wish in the log either, as of any transport."""
    after = {"transport": {"refused" if reason else "granted": sorted(wishes)}} | ({"reason": reason} if reason else {})
    what: Literal["rejected", "changed"] = "rejected" if reason else "changed"
    return Change(source="", agent_id=agent_id, what=what, fields=("transport",), after=canonical_json(after))
