"""What every request of a host reaches: the registry, what runs tools, the rules, what is recorded."""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from waygraph.api.mcp.tools import Surface
from waygraph.ingest.execution.availability import Reach
from waygraph.ingest.execution.services import Services, load_services
from waygraph.ingest.manifest.trust_store import vouched_file
from waygraph.registry.access.policy import CallPolicy, load_policy
from waygraph.registry.routing.find_tools.find import agents_of_namespace
from waygraph.registry.storage.location import is_server

if TYPE_CHECKING:
    from waygraph.api.mcp.connection import Context
    from waygraph.api.mcp.pending_calls import Parking
    from waygraph.api.telemetry.audit import Audit
    from waygraph.ingest.execution.call import ToolCaller
    from waygraph.ingest.manifest.environment import Surroundings
    from waygraph.registry.access.visibility import Caller
    from waygraph.registry.model.nouns import Principal
    from waygraph.registry.model.settings import Settings
    from waygraph.registry.registry import Registry


# What is remembered of a host between its requests: which tools it was sent, how loud it wants logs.
#
# A session is a connection of the handshake era, or a stdio process. A host of the modern era over HTTP has none:
# each of its requests stands alone.


MAX_KNOWN = 4_096
"""So many tools are remembered of a session; the least recently sent go."""
_OF_SUMMARY = "~"


@dataclass(slots=True)
class Session:
    """`log_level` empty: all that tools log."""

    log_level: str = ""
    _sent: OrderedDict[str, str] = field(default_factory=OrderedDict)
    """Of each tool, by call name, the version that was sent; `~` behind it: its summary only."""

    @property
    def known(self) -> Mapping[str, str]:
        """Versions by call name, as `FindAsked.known` takes them."""
        return self._sent

    def sent(self, tools: Iterable[Mapping[str, Any]]) -> None:
        """These tools have just been sent, as an answer of find_tools has them."""
        for tool in tools:
            name, version = str(tool["name"]), str(tool["version"])
            before = self._sent.pop(name, "")
            # Of a tool that was sent whole the summary tells nothing more.
            self._sent[name] = before if before == version.removesuffix(_OF_SUMMARY) else version
        while len(self._sent) > MAX_KNOWN:
            self._sent.popitem(last=False)


# What an operator's files say of calls, read before anything is begun; without the SDK, which takes longer.


@dataclass(frozen=True, slots=True)
class Rules:
    policy: CallPolicy
    services: Services


def load_rules(settings: "Settings") -> Rules:
    """Raises InvalidSetting."""
    return Rules(load_policy(settings.policy_file), load_services(settings.services_file))


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
