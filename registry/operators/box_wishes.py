"""What servers asked for that their boxes refused, and what operators said of it: granted, or refused for good.

A wish is a text: `reads PATH`, `writes PATH` or `reaches HOST:PORT`. What an operator says of it is a setting of the
agent, which survives a sync and goes into exports. What a server asked for on this machine, and which grants were given
here, lies in a file of the data folder: a grant that the graph alone holds, which others write too, opens no box.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from waygraph.registry.graph.engine import GraphSession
from waygraph.registry.graph.read import GraphView
from waygraph.registry.graph.schema import link_subjects
from waygraph.registry.graph.write import put_settings
from waygraph.registry.model.changes import Change, OperatorSettings, Waiting, plain_key
from waygraph.registry.model.errors import InvalidSetting, RegistryLocked, StorageFailed, TextDiffers, UnknownName
from waygraph.registry.model.files import content_if_there, write_lock, write_private
from waygraph.registry.model.nouns import Principal, canonical_json, parse_field
from waygraph.registry.operators.rights import is_operator, refuse_non_operator
from waygraph.registry.writer import WriteSession

MOST_WAITING = 20
"""Wishes of one server that wait: it chooses their number."""
WAITS, GRANTED, REFUSED = "", "granted", "refused"
_LOCK_TIMEOUT_S = 10.0
_ID = re.compile(r"(.+?) ((?:reads|writes|reaches) .+)")
"""An agent's id, and its wish."""


@dataclass(frozen=True, slots=True)
class WishFile:
    """What became of the wishes of servers on this machine, by source and the source's key of the server."""

    path: Path

    @staticmethod
    def inside(folder: Path) -> "WishFile":
        return WishFile(folder / "wishes.json")

    def of(self, source: str, key: str) -> Mapping[str, str]:
        """Raises StorageFailed."""
        return self._content().get(source, {}).get(plain_key(key), {})

    def note(self, source: str, key: str, wish: str) -> None:
        """Without effect if it is known, or enough wait, or the file cannot be written: the box refuses it anyway."""
        with suppress(RegistryLocked, StorageFailed):
            known = self.of(source, key)
            if wish not in known and list(known.values()).count(WAITS) < MOST_WAITING:
                self.put(source, key, {wish: WAITS})

    def put(self, source: str, key: str, wishes: Mapping[str, str]) -> None:
        """Raises RegistryLocked, StorageFailed."""
        with write_lock(self.path, _LOCK_TIMEOUT_S):
            content = self._content()
            content.setdefault(source, {}).setdefault(plain_key(key), {}).update(wishes)
            write_private(self.path, content, indent=1)

    def _content(self) -> dict[str, dict[str, dict[str, str]]]:
        try:
            return dict(json.loads(content_if_there(self.path) or b"{}"))
        except (ValueError, TypeError):
            raise StorageFailed(f"{self.path}: is no file of wishes; remove it") from None


def said_of_wishes(setting: OperatorSettings | None) -> Mapping[str, str]:
    """By wish why it is refused; empty: it is granted."""
    return (parse_field(setting.wishes) if setting else None) or {}


def grants_of(setting: OperatorSettings | None, here: Mapping[str, str]) -> tuple[str, ...]:
    """What a server may do beside its profile. `here`: what became of its wishes on this machine."""
    said = said_of_wishes(setting)
    return tuple(sorted(wish for wish, state in here.items() if state == GRANTED and said.get(wish) == ""))


def check_wishes(said: Mapping[str, str]) -> None:
    """Of an export. Raises InvalidSetting."""
    for wish in said:
        if not _ID.fullmatch(f"agent {wish}") or not wish.isprintable():
            raise InvalidSetting(f"{wish[:100]!r} is no wish: expected reads, writes or reaches, and what")


def is_wish(name: str) -> bool:
    return bool(_ID.fullmatch(name))


def _states(graph: GraphView, file: WishFile, agent_id: str) -> dict[str, str]:
    """What became here of each wish of an agent, also of one that was decided elsewhere."""
    states = dict.fromkeys(said_of_wishes(graph.settings.get(agent_id)), WAITS)
    for claim in graph.claims:
        if claim.agent_id == agent_id:
            states |= file.of(claim.source, claim.key)
    return states


def seen_wishes(graph: GraphView, file: WishFile, principal: Principal | None) -> Iterator[Waiting]:
    """What waits for an operator, and what was refused. They are launch data: nobody else is shown any."""
    for agent_id in graph.agents if is_operator(principal) else ():
        if not graph.shows(agent_id, principal):
            continue
        said = said_of_wishes(graph.settings.get(agent_id))
        sources = tuple(sorted(claim.source for claim in graph.claims if claim.agent_id == agent_id))
        for wish, state in _states(graph, file, agent_id).items():
            if state == GRANTED and said.get(wish) == "":
                continue
            description = f"Its server {wish}. Its box refused that."
            yield Waiting(
                id=f"{agent_id} {wish}",
                agent_id=agent_id,
                description=description,
                content_hash=graph.agents[agent_id].agent.content_hash,
                fields=("description",),
                chars=len(description),
                pending=True,
                rejection=said.get(wish, ""),
                sources=sources,
            )


def decide_wishes(
    session: WriteSession,
    file: WishFile,
    names: Sequence[str],
    hashes: Mapping[str, str],
    principal: Principal | None,
    *,
    reason: str = "",
) -> int:
    """Grants them from the next start on, or with a `reason` refuses them; the revision then.

    Raises UnknownName, TextDiffers, NotAllowed, and what a write raises.
    """
    refuse_non_operator("to decide on a wish", principal)
    wishes: dict[str, dict[str, str]] = {}
    graph = session.read_graph_view()
    for name in (*names, *hashes):
        agent_id, wish = match.groups() if (match := _ID.fullmatch(name)) else (name, "")
        known = _states(graph, file, agent_id) if graph.shows(agent_id, principal) else {}
        if wish not in known:
            raise UnknownName("wish of a server", name, (f"{agent_id} {each}" for each in known))
        if hashes and hashes[name] != graph.agents[agent_id].agent.content_hash:
            raise TextDiffers(name)
        wishes.setdefault(agent_id, {})[wish] = reason
    settings = [_with_wishes(graph.settings_of(agent_id), said) for agent_id, said in wishes.items()]

    def work(graph_session: GraphSession) -> None:
        put_settings(graph_session, settings)
        link_subjects(graph_session, list(wishes))
        session.log(graph_session, list(_changes(wishes, reason)))

    session.begin()
    revision = session.write(work, list(wishes)).revision
    for claim in graph.claims:
        if said := wishes.get(claim.agent_id):
            file.put(claim.source, claim.key, dict.fromkeys(said, REFUSED if reason else GRANTED))
    return revision


def _with_wishes(setting: OperatorSettings, said: Mapping[str, str]) -> OperatorSettings:
    return replace(setting, wishes=canonical_json({**said_of_wishes(setting), **said}))


def _changes(wishes: Mapping[str, Iterable[str]], reason: str) -> Iterator[Change]:
    """Those that may not read how servers are started read no wish in the log either, as of any transport."""
    for agent_id, each in wishes.items():
        after = {"transport": {"refused" if reason else "granted": sorted(each)}} | (
            {"reason": reason} if reason else {}
        )
        yield Change(
            source="",
            agent_id=agent_id,
            what="rejected" if reason else "changed",
            fields=("transport",),
            after=canonical_json(after),
        )
