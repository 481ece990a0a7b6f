"""What servers asked for that their boxes refused, and what operators reasons of it: granted, or refused for good.

A wish is a text: `reads PATH`, `writes PATH` or `reaches HOST:PORT`. What an operator says of it is a setting of the
agent, which survives a sync and goes into exports. What a server asked for on this machine, and which grants were given
here, lies in a file of the data folder: a grant that the graph alone holds, which others write too, opens no box.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal
from urllib.parse import quote

from waygraph.registry.graph.engine import GraphSession
from waygraph.registry.graph.read import GraphView
from waygraph.registry.graph.schema import link_subjects
from waygraph.registry.graph.write import put_settings
from waygraph.registry.model.changes import Change, OperatorSettings, Waiting, plain_key
from waygraph.registry.model.errors import RegistryLocked, StorageFailed, TextDiffers, UnknownName
from waygraph.registry.model.files import content_if_there, write_lock, write_private
from waygraph.registry.model.identity import digest
from waygraph.registry.model.nouns import Principal, canonical_json, parse_field
from waygraph.registry.operators.rights import is_operator, refuse_non_operator
from waygraph.registry.writer import WriteSession

MOST_WAITING = 20
"""Wishes of one server that wait: it chooses their number."""
WAITS, GRANT, REFUSAL = "", "granted", "refused"
_LOCK_TIMEOUT_S = 10.0
WISH = r"(?:reads|writes|reaches) .{1,300}"
_ID = re.compile(rf"\S+ {WISH}")
"""An agent's id, and its wish."""


@dataclass(frozen=True, slots=True)
class WishFile:
    """What became of the wishes of servers on this machine, by source and the source's key of the server."""

    path: Path

    @staticmethod
    def inside(folder: Path) -> "WishFile":
        return WishFile(folder / "wishes.json")

    def of(self, source: str, key: str) -> Mapping[str, str]:
        """By wish what became of it. Raises StorageFailed."""
        return self.content().get(source, {}).get(plain_key(key), {})

    def note(self, source: str, key: str, wish: str) -> None:
        """Without effect if it is known, or enough wait, or the file cannot be written: the box refuses it anyway."""
        with suppress(RegistryLocked, StorageFailed):
            wishes_here = self.of(source, key)
            if wish not in wishes_here and list(wishes_here.values()).count(WAITS) < MOST_WAITING:
                self.put(source, key, {wish: WAITS})

    def put(self, source: str, key: str, wishes: Mapping[str, str]) -> None:
        """Raises RegistryLocked, StorageFailed."""
        with write_lock(self.path, _LOCK_TIMEOUT_S):
            content = self.content()
            content.setdefault(source, {}).setdefault(plain_key(key), {}).update(wishes)
            write_private(self.path, content, indent=1)

    def content(self) -> dict[str, dict[str, dict[str, str]]]:
        """Raises StorageFailed."""
        try:
            return dict(json.loads(content_if_there(self.path) or b"{}"))
        except (ValueError, TypeError):
            raise StorageFailed(f"{self.path}: is no file of wishes; remove it") from None


def decisions_of(setting: OperatorSettings | None) -> Mapping[str, str]:
    """By wish why it is refused; empty: it is granted."""
    return (parse_field(setting.wishes) if setting else None) or {}


def grants_of(setting: OperatorSettings | None, here: Mapping[str, str]) -> tuple[str, ...]:
    """What a server may do beside its profile. `here`: what became of its wishes on this machine."""
    reasons = decisions_of(setting)
    return tuple(sorted(wish for wish, state in here.items() if state == GRANT and not reasons.get(wish)))


def is_wish(name: str) -> bool:
    return bool(_ID.fullmatch(name))


def _states(graph: GraphView, file: WishFile) -> Mapping[str, Mapping[str, str]]:
    """What became here of each wish, by agent; also of those that were decided elsewhere. Raises StorageFailed."""
    reasons = {agent_id: decisions_of(setting) for agent_id, setting in graph.settings.items() if setting.wishes}
    states = {agent_id: dict.fromkeys(wishes, WAITS) for agent_id, wishes in reasons.items()}
    content = file.content()
    for claim in graph.claims:
        if here := content.get(claim.source, {}).get(plain_key(claim.key)):
            states.setdefault(claim.agent_id, {}).update(here)
    return states


def _servers_without_agents(graph: GraphView, file: WishFile) -> Mapping[str, tuple[str, str]]:
    """Those that did not even start without what they asked for: by a name, the source and its key. Raises
    StorageFailed.
    """
    claimed = {(claim.source, plain_key(claim.key)) for claim in graph.claims}
    servers = ((source, key) for source, keys in file.content().items() for key in keys)
    return {f"{quote(each[1], safe='')[:64]}#{digest(*each)[:8]}": each for each in servers if each not in claimed}


def seen_wishes(graph: GraphView, file: WishFile, principal: Principal | None) -> Iterator[Waiting]:
    """What waits for an operator, and what was refused. They are launch data: nobody else is shown any."""
    if not is_operator(principal):
        return
    for agent_id, states in _states(graph, file).items():
        reasons, agent = decisions_of(graph.settings.get(agent_id)), graph.agents.get(agent_id)
        if agent is None or not graph.shows(agent_id, principal):
            continue
        sources = tuple(sorted(claim.source for claim in graph.claims if claim.agent_id == agent_id))
        for wish, state in states.items():
            if state != GRANT or reasons.get(wish):
                item = _waiting(agent_id, wish, sources)
                yield replace(
                    item, agent_id=agent_id, content_hash=agent.agent.content_hash, rejection=reasons.get(wish, "")
                )
    for name, (source, key) in _servers_without_agents(graph, file).items():
        yield from (_waiting(name, wish, (source,)) for wish, state in file.of(source, key).items() if state == WAITS)


def _waiting(name: str, wish: str, sources: tuple[str, ...]) -> Waiting:
    text = f"Its server {wish}. Its box refused that."
    return Waiting(
        id=f"{name} {wish}",
        agent_id="",
        description=text,
        fields=("description",),
        chars=len(text),
        pending=True,
        sources=sources,
    )


def decide_wishes(
    session: WriteSession, file: WishFile, hashes: Mapping[str, str | None], principal: Principal | None, reason: str
) -> int:
    """Grants them from the next start on, or with a `reason` refuses them; the revision then. `hashes`: by the id of a
    wish the content hash of its agent that was read; None: of any. A folder stands for each wish below it. What is
    decided of a server without an agent is kept on this machine alone.

    Raises UnknownName, TextDiffers, NotAllowed, StorageFailed, and what a write raises.
    """
    refuse_non_operator("to decide on a wish", principal)
    session.begin()
    graph = session.read_graph_view()
    states, without_agents = _states(graph, file), _servers_without_agents(graph, file)
    decisions = dict[str, dict[str, str]]()
    for name, content_hash in hashes.items():
        server, _, wish = name.partition(" ")
        here = file.of(*without_agents[server]) if server in without_agents else states.get(server, {})
        below = [each for each in here if each == wish or each.startswith(f"{wish}/")]
        if not below or not (server in without_agents or graph.shows(server, principal)):
            raise UnknownName("wish of a server", name, ())
        if content_hash and content_hash != graph.agents[server].agent.content_hash:
            raise TextDiffers(name)
        decisions.setdefault(server, {}).update(dict.fromkeys((wish, *below), reason))
    state = REFUSAL if reason else GRANT
    for server in decisions.keys() & without_agents:
        file.put(*without_agents[server], dict.fromkeys(decisions.pop(server), state))
    settings = [
        replace(each, wishes=canonical_json({**decisions_of(each), **decisions[each.agent_id]}))
        for each in map(graph.settings_of, decisions)
    ]

    def work(graph_session: GraphSession) -> None:
        put_settings(graph_session, settings)
        link_subjects(graph_session, list(decisions))
        session.log(graph_session, [_change(agent_id, wishes, reason) for agent_id, wishes in decisions.items()])

    revision = (session.write(work, list(decisions)) if decisions else session.begin()).revision
    for claim in graph.claims:
        if claim.agent_id in decisions:
            file.put(claim.source, claim.key, dict.fromkeys(decisions[claim.agent_id], state))
    return revision


def _change(agent_id: str, wishes: Iterable[str], reason: str) -> Change:
    """Those that may not read how servers are started read no wish in the log either, as of any transport."""
    after = {"reason": reason, "transport": {"refused": sorted(wishes)}}
    after = after if reason else {"transport": {"granted": sorted(wishes)}}
    what: Literal["rejected", "changed"] = "rejected" if reason else "changed"
    return Change(source="", agent_id=agent_id, what=what, fields=("transport",), after=canonical_json(after))
