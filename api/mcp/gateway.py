"""What every request of a host reaches: the registry, what runs tools, the rules, what is recorded."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from waygraph.api.mcp.session import Session
from waygraph.api.mcp.surface import Surface
from waygraph.ingest.calling.reach import Reach
from waygraph.ingest.vouched import vouched_file
from waygraph.registry.discovery.namespaces import agents_of_namespace
from waygraph.registry.storage.store import is_server

if TYPE_CHECKING:
    from waygraph.api.mcp.connection import Context
    from waygraph.api.mcp.parking import Parking
    from waygraph.api.mcp.rules import Rules
    from waygraph.api.observing.audit import Audit
    from waygraph.ingest.calling.call import ToolCaller
    from waygraph.ingest.surroundings import Surroundings
    from waygraph.registry.access import Caller
    from waygraph.registry.model import Principal
    from waygraph.registry.policy import CallPolicy
    from waygraph.registry.registry import Registry
    from waygraph.registry.settings import Settings


class Ask(Protocol):
    """Runs work of the synchronous core where it does not hold up the server. Raises what the work raises."""

    def __call__[T](self, work: Callable[[], T], /) -> Awaitable[T]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Asker:
    """Who sent a request, and by which door. `namespace` empty: the whole registry.

    `owner`: whose request it is, as far as that is known. Requests of different owners come from different hosts.
    """

    caller: "Caller"
    session: Session
    namespace: str = ""
    owner: str = ""

    @property
    def principal(self) -> "Principal | None":
        return self.caller.principal


@dataclass(frozen=True, kw_only=True)
class Discovery:
    """What listing and finding need: no tool is called, and the SDK is not needed."""

    registry: "Registry"
    reach: Reach
    policy: "CallPolicy"
    ask: Ask
    surface: Surface = "default"

    @property
    def is_here(self) -> bool:
        """Whether the registry is read in this process: to look something up then takes microseconds."""
        return not is_server(self.registry.store.place)

    @property
    def look(self) -> Ask:
        """For work of microseconds: where the registry is here, a thread would cost more than the work."""
        return at_once if self.is_here else self.ask

    def agents_within(self, asker: Asker) -> frozenset[str] | None:
        """The agents of the door's namespace; None: all. Raises UnknownName."""
        if not asker.namespace:
            return None
        return agents_of_namespace(self.registry, asker.namespace, asker.principal)


def discovery_of(
    registry: "Registry", settings: "Settings", rules: "Rules", ask: Ask, surface: Surface = "default"
) -> Discovery:
    reach = Reach(registry, rules.services, vouched_file(settings.data_path))
    return Discovery(registry=registry, reach=reach, policy=rules.policy, ask=ask, surface=surface)


@dataclass(frozen=True, kw_only=True)
class Parts:
    """Of what a gateway is put together. `asker_of` tells who sent a request: on stdio always the same, over HTTP by
    the request. `parks`: whether a host's next request comes to this process, so that it can be asked by way of it.
    `waited_s`: how long ago a request was heard that is answered now.
    """

    discovery: Discovery
    settings: "Settings"
    surroundings: "Surroundings"
    rules: "Rules"
    audit: "Audit"
    asker_of: "Callable[[Context], Asker]"
    parks: bool = True
    waited_s: "Callable[[Context], float]" = field(default=lambda _: 0.0)


@dataclass(frozen=True, kw_only=True)
class Gateway(Discovery):
    """What calling needs beside; see `Parts`."""

    executor: "ToolCaller"
    settings: "Settings"
    audit: "Audit"
    asker_of: "Callable[[Context], Asker]"
    waited_s: "Callable[[Context], float]"
    parking: "Parking | None"
    """None: a host's next request may come to another process, so that none is asked by way of it."""

    def deadline_s(self, meta: Mapping[str, object] | None) -> float:
        """All the time that a call has, from when it was heard: what is set, or less if the host asks for less."""
        wanted = (meta or {}).get(TIMEOUT_KEY)
        most = self.settings.call_timeout_s
        is_number = isinstance(wanted, (int, float)) and not isinstance(wanted, bool)
        return float(wanted) if is_number and 0 < wanted < most else most  # type: ignore[arg-type, operator]


async def at_once[T](work: Callable[[], T], /) -> T:
    return work()


TIMEOUT_KEY = "waygraph/timeout_s"
"""In `_meta` of a `tools/call`: so many seconds has this call, at most."""
