"""What every request of a host reaches: the registry, what runs tools, the rules, what is recorded."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Protocol

from waygraph.api.mcp import Surface, Warm
from waygraph.api.mcp.learning import CallCounter, UsageCounter, open_counter, open_usage
from waygraph.api.mcp.long_results import LongResults
from waygraph.api.mcp.pending_calls import Parking
from waygraph.api.mcp.sessions import QUESTIONS_AT_ONCE, QUESTIONS_PER_MINUTE, Asker, Context
from waygraph.api.telemetry.audit import Audit
from waygraph.ingest.execution.executor import Executor, open_executor
from waygraph.ingest.execution.services import Reach, Services
from waygraph.ingest.manifest.environment import Surroundings
from waygraph.ingest.manifest.trust_store import vouched_file
from waygraph.registry.access.authenticator import RateLimit
from waygraph.registry.access.policy import CallPolicy
from waygraph.registry.catalog.find_tools.views import View, open_view
from waygraph.registry.model.numbers import read_number
from waygraph.registry.model.settings import Settings
from waygraph.registry.routing.recipes import BY_OPERATOR, DEFAULT_RECIPE, TAXONOMY, Recipe, recipe_named
from waygraph.registry.storage.local_registry import LocalRegistry

TIMEOUT_KEY = "waygraph/timeout_s"
"""In `_meta` of a `tools/call`: so many seconds has this call, at most."""


class Ask(Protocol):
    """Runs work of the synchronous core where it does not hold up the server. Raises what the work raises."""

    def __call__[T](self, work: Callable[[], T], /) -> Awaitable[T]: ...


@dataclass(frozen=True, kw_only=True)
class Parts:
    """What a gateway is made of. `asker_of` says who sent a request: on stdio always the same, over HTTP by request.

    `parks`: a host's next request comes to this process, so that a call can wait for the answer to its question.
    """

    registry: LocalRegistry
    settings: Settings
    surroundings: Surroundings
    policy: CallPolicy
    services: Services
    audit: Audit
    ask: Ask
    asker_of: Callable[[Context], Asker]
    surface: Surface = "default"
    parks: bool = True
    warm: Warm | None = None
    """Whose servers are started before they are called."""


@dataclass(frozen=True, kw_only=True)
class Gateway(Parts):
    """`parking` None: a host's next request may come to another process, so that none is asked by way of it.

    `counter` None: nothing is learned from calls. `usage` None: they are not counted.
    """

    reach: Reach
    executor: Executor
    parking: Parking | None
    counter: CallCounter | None
    usage: UsageCounter | None
    long_results: LongResults
    questions: RateLimit = field(default_factory=lambda: RateLimit(QUESTIONS_PER_MINUTE, QUESTIONS_AT_ONCE))
    """Of each agent to the hosts of each caller."""

    late: set[str] = field(default_factory=set)
    """Agents that are not in a list that was sent, since their servers had not started in time."""
    silent: dict[tuple[str, str], str] = field(default_factory=dict)
    """Content hashes of agents, by kind and id, that listed nothing of a kind when they were asked for it."""

    def take_news(self) -> bool:
        """Whether a server has told since of a change, or started that was too late for a list."""
        started = self.late & self.executor.open_servers
        self.late.difference_update(started)
        if has_told := self.executor.take_changes():
            self.silent.clear()
        return has_told or bool(started)

    def view(self, asker: Asker) -> View:
        """What the asker's door shows: a toolset, a namespace, or everything. Raises UnknownName."""
        return open_view(self.registry, asker.namespace, asker.principal, only=asker.caller.toolset)

    @property
    def recipe(self) -> Recipe:
        """With the operator's walk and reranker, if they are set: a host does not choose what costs."""
        name = TAXONOMY.name if self.settings.walk else DEFAULT_RECIPE
        return recipe_named(name, rerank=BY_OPERATOR if self.settings.rerank else "")

    def deadline_s(self, meta: Mapping[str, object] | None) -> float:
        """All the time that a call has: what is set, or less if the host asks for less."""
        wanted = (meta or {}).get(TIMEOUT_KEY)
        most = self.settings.call_timeout_s
        return read_number(wanted, 0.0, most) or most


@asynccontextmanager
async def open_gateway(parts: Parts) -> AsyncGenerator[Gateway]:
    """At its end calls end, and every process that was started for them."""
    registry, settings, services = parts.registry, parts.settings, parts.services
    reach = Reach(registry, services, vouched_file(settings.data_path, registry.store.place))
    # A host's next request may come to another process, where nothing of this one is kept: then nothing is cut.
    limit_tokens = settings.call_result_tokens if parts.parks else 0
    parking = Parking() if parts.parks else None
    with open_counter(registry, settings) as counter, open_usage(registry, settings) as usage:
        async with open_executor(registry, settings, parts.surroundings, services=services) as executor:
            gateway = Gateway(
                **vars(parts),
                reach=reach,
                executor=executor,
                parking=parking,
                counter=counter,
                usage=usage,
                long_results=LongResults(limit_tokens, settings.kept_results_bytes),
            )
            async with parking.open() if parking else nullcontext():
                yield gateway
