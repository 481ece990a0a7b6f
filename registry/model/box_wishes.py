"""What servers asked for that their boxes refused, and what operators decided: it is granted, or refused for good.

A wish is a text: `reads PATH`, `writes PATH` or `reaches HOST:PORT`. What an operator says of it is a setting of the
agent, which survives a sync and goes into exports. What a server asked for on this machine, and which grants were given
here, lies in a file of the data folder: a grant that the graph alone holds, which others write too, opens no box.
"""

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from waygraph.registry.model.changes import OperatorSettings, plain_key
from waygraph.registry.model.errors import RegistryLocked, StorageFailed
from waygraph.registry.model.files import content_if_there, write_lock, write_private
from waygraph.registry.model.nouns import parse_field

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
        with suppress(RegistryLocked, StorageFailed):
            if wish in self.of(launch, source, key):
                return
            with self._change() as content:
                for other in [name for name in content if name != launch]:
                    _drop_servers(content, other, server.__eq__)  # it is started otherwise now
                each = content.setdefault(launch, ServerWishes())
                each.servers.extend({server}.difference(each.servers))
                if wish not in each.wishes and list(each.wishes.values()).count(WAITS) < MOST_WAITING:
                    each.wishes[wish] = WAITS
                while len(content) > MOST_LAUNCHES:
                    del content[next(iter(content))]

    def decide(self, launches: Iterable[str], wishes: Collection[str], state: str) -> None:
        """Raises RegistryLocked, StorageFailed."""
        with self._change() as content:
            for each in (content[launch] for launch in launches if launch in content):
                each.wishes.update(dict.fromkeys(wishes, state))

    def forget(self, source: str) -> None:
        """With the grants of what no other source names. Raises RegistryLocked, StorageFailed."""
        if any(server[0] == source for each in self.content().values() for server in each.servers):
            with self._change() as content:
                for launch in list(content):
                    _drop_servers(content, launch, lambda server: server[0] == source)

    @contextmanager
    def _change(self) -> Iterator[dict[str, ServerWishes]]:
        """Yields the content, which is written if nothing is raised. Raises RegistryLocked, StorageFailed."""
        with write_lock(self.path, _LOCK_TIMEOUT_S):
            yield (content := self.content())
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
