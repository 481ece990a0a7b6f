"""What servers asked for that their boxes refused, and what operators decided: it is granted, or refused for good.

A wish is a text: `reads PATH`, `writes PATH` or `reaches HOST:PORT`. What an operator says of it is a setting of the
agent, which survives a sync and goes into exports. What a server asked for on this machine, and which grants were given
here, lies in a file of the data folder: a grant that the graph alone holds, which others write too, opens no box.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
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
from waygraph.registry.model.nouns import Principal, canonical_json, parse_field
from waygraph.registry.operators.rights import is_operator, refuse_non_operator
from waygraph.registry.writer import WriteSession

MOST_WAITING, MOST_LAUNCHES = 20, 1_000
"""Wishes of one server that wait, since it chooses their number; and launches that are remembered."""
WAITS, GRANT, REFUSAL = "", "granted", "refused"
_LOCK_TIMEOUT_S = 10.0
WISH = r"(?:reads|writes|reaches) .{1,300}"
_ID = re.compile(rf"\S+ {WISH}")
"""An agent's id, and its wish."""


@dataclass(frozen=True, slots=True)
class ServerWishes:
    """Of one launch: the sources that name it, each with its key of the server; by wish what became of it."""

    servers: list[tuple[str, str]] = field(default_factory=list)
    wishes: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WishFile:
    """Wishes of servers on this machine, by a digest of the launch: what is started otherwise is granted nothing."""

    path: Path

    @staticmethod
    def inside(folder: Path) -> "WishFile":
        return WishFile(folder / "wishes.json")

    def content(self) -> dict[str, ServerWishes]:
        """Raises StorageFailed."""
        try:
            return {
                str(launch): ServerWishes(
                    [(str(source), str(key)) for source, key in each["servers"]],
                    {str(wish): str(state) for wish, state in each["wishes"].items()},
                )
                for launch, each in json.loads(content_if_there(self.path) or b"{}").items()
            }
        except (ValueError, TypeError, KeyError, AttributeError):
            raise StorageFailed(f"{self.path}: is no file of wishes; remove it") from None

    def of(self, launch: str, source: str, key: str) -> Mapping[str, str]:
        """By wish of this server what became of it. Raises StorageFailed."""
        each = self.content().get(launch, ServerWishes())
        return each.wishes if (source, plain_key(key)) in each.servers else {}

    def note(self, launch: str, source: str, key: str, wish: str) -> None:
        """Without effect if it is known, or enough wait, or the file cannot be written: the box refuses it anyway."""
        server = source, plain_key(key)

        def add(content: dict[str, ServerWishes]) -> None:
            for other in [name for name in content if name != launch]:
                _drop_servers(content, other, server.__eq__)  # it is started otherwise now
            each = content.setdefault(launch, ServerWishes())
            each.servers.extend({server}.difference(each.servers))
            if wish not in each.wishes and list(each.wishes.values()).count(WAITS) < MOST_WAITING:
                each.wishes[wish] = WAITS
            while len(content) > MOST_LAUNCHES:
                del content[next(iter(content))]

        with suppress(RegistryLocked, StorageFailed):
            if wish not in self.of(launch, source, key):
                self._change(add)

    def decide(self, launches: Iterable[str], wishes: Iterable[str], state: str) -> None:
        """Raises RegistryLocked, StorageFailed."""
        wishes = list(wishes)

        def put(content: dict[str, ServerWishes]) -> None:
            for each in (content[launch] for launch in launches if launch in content):
                each.wishes.update(dict.fromkeys(wishes, state))

        self._change(put)

    def forget(self, source: str) -> None:
        """With the grants of what no other source names. Raises RegistryLocked, StorageFailed."""

        def drop(content: dict[str, ServerWishes]) -> None:
            for launch in list(content):
                _drop_servers(content, launch, lambda server: server[0] == source)

        if any(server[0] == source for each in self.content().values() for server in each.servers):
            self._change(drop)

    def _change(self, work: Callable[[dict[str, ServerWishes]], None]) -> None:
        """Raises RegistryLocked, StorageFailed."""
        with write_lock(self.path, _LOCK_TIMEOUT_S):
            content = self.content()
            work(content)
            write_private(self.path, {launch: asdict(each) for launch, each in content.items()}, indent=1)


def _drop_servers(content: dict[str, ServerWishes], launch: str, is_meant: Callable[[tuple[str, str]], object]) -> None:
    servers = content[launch].servers
    servers[:] = [server for server in servers if not is_meant(server)]
    if not servers:
        del content[launch]


def decisions_of(setting: OperatorSettings | None) -> Mapping[str, str]:
    """By wish why it is refused; empty: it is granted."""
    return (parse_field(setting.wishes) if setting else None) or {}


def grants_of(here: Mapping[str, str], setting: OperatorSettings | None = None) -> tuple[str, ...]:
    """What a server may do beside its profile. `here`: by wish what became of it on this machine. `setting`: of its
    agent, which may hold that another machine refused.
    """
    reasons = decisions_of(setting)
    return tuple(sorted(wish for wish, state in here.items() if state == GRANT and not reasons.get(wish)))


def is_wish(name: str) -> bool:
    return bool(_ID.fullmatch(name))


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


def _shows(graph: GraphView, name: str, principal: Principal | None) -> bool:
    """Of a server without an agent nobody knows whose it is: who sees everything may see it."""
    return graph.shows(name, principal) if name in graph.agents else principal is None and "#" in name


def seen_wishes(graph: GraphView, file: WishFile, principal: Principal | None) -> Iterator[Waiting]:
    """What waits for an operator, and what was refused. They are launch data: nobody else is shown any."""
    if not is_operator(principal):
        return
    content = file.content()
    launches = _launches_by_name(graph, content)
    with_decisions = (agent_id for agent_id, setting in graph.settings.items() if setting.wishes)
    for name in sorted({*launches, *with_decisions}):
        if not _shows(graph, name, principal):
            continue
        states, reasons = _states(content, launches.get(name, ())), decisions_of(graph.settings.get(name))
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


def _states(content: Mapping[str, ServerWishes], launches: Iterable[str]) -> Mapping[str, str]:
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
        wishes = {*_states(content, launches.get(server, ())), *decisions_of(graph.settings.get(server))}
        below = [each for each in wishes if each == wish or each.startswith(f"{wish}/")]
        if not below or not _shows(graph, server, principal):
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
        session.log(graph_session, [_change(each, decisions[each], reason) for each in agent_ids])

    if agent_ids:
        revision = session.write(work, agent_ids).revision
    for server, reasons in decisions.items():
        file.decide(launches.get(server, ()), reasons, REFUSAL if reason else GRANT)
    return revision


def _change(agent_id: str, wishes: Iterable[str], reason: str) -> Change:
    """Those that may not read how servers are started read no wish in the log either, as of any transport."""
    after = {"reason": reason, "transport": {"refused": sorted(wishes)}}
    after = after if reason else {"transport": {"granted": sorted(wishes)}}
    what: Literal["rejected", "changed"] = "rejected" if reason else "changed"
    return Change(source="", agent_id=agent_id, what=what, fields=("transport",), after=canonical_json(after))
