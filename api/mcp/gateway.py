"""What every request of a host reaches: the registry, what runs tools, the rules, what is recorded.

Which tool is called after which, counted for the graph as calls end (`WAYGRAPH_LEARN=transitions`).
"""

import logging
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass, field
from threading import Lock
from typing import Protocol

import anyio

from waygraph.api.mcp import RUNNERS, Surface
from waygraph.api.mcp.long_results import LongResults
from waygraph.api.mcp.pending_calls import Parking, TaskHandles
from waygraph.api.mcp.sessions import QUESTIONS_AT_ONCE, QUESTIONS_PER_MINUTE, Asker, Context, OnBehalf
from waygraph.api.telemetry.audit import Audit
from waygraph.ingest.execution.call import ToolCall
from waygraph.ingest.execution.executor import Executor, PlacesByName, open_executor
from waygraph.ingest.execution.services import Reach, Services, load_services
from waygraph.ingest.manifest.environment import Surroundings
from waygraph.ingest.manifest.trust_store import vouched_file
from waygraph.ingest.upstream.connection import CALL, Deaf, Host
from waygraph.registry.access.authenticator import RateLimit
from waygraph.registry.access.policy import CallBudgets, CallPolicy, Judgement, load_policy
from waygraph.registry.access.visibility import LOCAL, Caller
from waygraph.registry.catalog.find import Judging, judging
from waygraph.registry.catalog.searchable import View, open_view
from waygraph.registry.model import transitions
from waygraph.registry.model.clock import now
from waygraph.registry.model.errors import InvalidSetting, NeedsRegistry, NotCallable, RegistryNotFound, WaygraphError
from waygraph.registry.model.identity import digest
from waygraph.registry.model.nouns import Agent, Mode, Tool
from waygraph.registry.model.numbers import read_number
from waygraph.registry.model.settings import Settings
from waygraph.registry.routing.recipes import BY_OPERATOR, DEFAULT_RECIPE, TAXONOMY, Recipe, recipe_named
from waygraph.registry.storage.local_registry import LocalRegistry
from waygraph.registry.storage.usage_file import UsageCounter, open_usage, repeat_write

TRANSITIONS = "transitions"
EVERY_S = 60.0
"""From one write of what was counted to the next."""
MOST_CALLS, MOST_REPEATS = 200, 5
"""So many calls of one caller count in a day, and so many times that one follows another; of who sees everything all.
What is counted ranks tools for everybody."""
_log = logging.getLogger("waygraph.gateway")


class CallCounter:
    """Holds the counts since the last write: tools and agents, no arguments, texts or callers, and of each
    caller's day how much it added. Threads may share it."""

    def __init__(self, registry: LocalRegistry, clock: Callable[[], str] = now) -> None:
        self._registry, self._clock = registry, clock
        self._counted: dict[tuple[str, str, str], transitions.Transition] = {}
        self._day, self._shares = "", Counter[tuple[str, ...]]()
        self._lock = Lock()

    def note(self, calls: Sequence[str], caller: Caller = LOCAL) -> None:
        """The last of a session's calls has worked; `calls`: ids of tools, those that worked, oldest first."""
        at = self._clock()
        counts = transitions.count_last(calls, at)
        self._add(counts if caller.sees_everything else self._share_of(caller.id, counts, at[: len("2026-01-01")]))

    def _share_of(
        self, caller: str, counts: Sequence[transitions.Transition], day: str
    ) -> list[transitions.Transition]:
        """Of these counts of one call what counts of the caller on this day."""
        with self._lock:
            if day != self._day:
                self._day, self._shares = day, Counter()
            self._shares[caller,] += 1
            if self._shares[caller,] > MOST_CALLS:
                return []
            self._shares.update((caller, *each.key) for each in counts)
            return [each for each in counts if self._shares[caller, *each.key] <= MOST_REPEATS]

    def write(self) -> None:
        """What could not be written is kept for the next time, except for a registry of which nothing can be learned.

        Raises nothing that comes of the registry: it is logged.
        """
        with self._lock:
            counted, self._counted = list(self._counted.values()), {}
        if not counted:
            return
        try:
            from waygraph.registry.operators.transition_counts import learn_transitions

            self._registry.change(lambda session: learn_transitions(session, counted))
        except (NeedsRegistry, RegistryNotFound) as error:
            _log.warning("nothing is learned from calls: %s", error)
        except WaygraphError as error:
            _log.warning("what was counted of calls cannot be written now: %s", error)
            self._add(counted)

    def _add(self, more: Sequence[transitions.Transition]) -> None:
        with self._lock:
            sums = transitions.add_transitions(self._counted.values(), more)
            self._counted = sums if len(sums) <= transitions.MAX_KEPT else transitions.keep_largest(sums)


@contextmanager
def open_counter(registry: LocalRegistry, settings: Settings) -> Iterator[CallCounter | None]:
    """None where nothing is learned. Raises InvalidSetting."""
    if not settings.learn:
        yield None
        return
    if settings.learn != TRANSITIONS:
        raise InvalidSetting(f"WAYGRAPH_LEARN={settings.learn!r}: expected {TRANSITIONS!r}, or nothing")
    counter = CallCounter(registry)
    with repeat_write(counter.write, "learning", EVERY_S):
        yield counter


TIMEOUT_KEY = "waygraph/timeout_s"
"""In `_meta` of a `tools/call`: so many seconds has this call, at most."""


class Ask(Protocol):
    """Runs work of the synchronous core where it does not hold up the server. Raises what the work raises."""

    def __call__[T](self, work: Callable[[], T], /) -> Awaitable[T]: ...


KEPT_RESULTS_BYTES = 64 * 1024 * 1024
"""Of all results that were cut, in memory; the oldest go."""
CODE_AT_ONCE, CODE_OF_ONE = 8, 2
"""Pieces of code that run, each in a process: of all callers, and of one."""
MOST_AT_WORK = 40
"""Questions to the registry, at a time; whatever else waits for its turn."""


class InThreads:
    """An `Ask`: threads of its own, so that finds that hang take none of those in which calls are prepared.

    Raises TimeoutError for work that takes longer than `timeout_s`; its thread may go on, and another takes its place.
    """

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s, self._places = timeout_s, anyio.CapacityLimiter(MOST_AT_WORK)

    async def __call__[T](self, work: Callable[[], T], /) -> T:
        with anyio.fail_after(self._timeout_s):
            return await anyio.to_thread.run_sync(work, abandon_on_cancel=True, limiter=self._places)


@dataclass(frozen=True, kw_only=True)
class Parts:
    """What a gateway is made of.

    `parks`: a host's next request comes to this process, so that a call can wait for the answer to its question.
    `count`: counts one request of a caller; it raises TooManyRequests. By default nobody is limited.
    """

    registry: LocalRegistry
    settings: Settings
    surroundings: Surroundings
    policy: CallPolicy
    services: Services
    audit: Audit
    ask: Ask
    surface: Surface = "default"
    parks: bool = True
    count: Callable[[Caller], None] = lambda _: None


def read_parts(
    registry: LocalRegistry, settings: Settings, surroundings: Surroundings, *, surface: Surface = "default"
) -> Parts:
    """Those of a process of its own, by the operator's files. Raises InvalidSetting."""
    return Parts(
        registry=registry,
        settings=settings,
        surroundings=surroundings,
        policy=load_policy(settings.policy_file),
        services=load_services(settings.services_file),
        audit=Audit(settings.audit_path),
        ask=InThreads(settings.request_timeout_s),
        surface=surface,
    )


@dataclass(frozen=True, kw_only=True)
class Gateway(Parts):
    """`asker_of` says who sent a request: on stdio always the same, over HTTP by request.

    `parking` None: a host's next request may come to another process, so that none is asked by way of it.
    `counter` None: nothing is learned from calls. `usage` None: they are not counted.
    """

    asker_of: Callable[[Context], Asker]
    reach: Reach
    executor: Executor
    parking: Parking | None
    counter: CallCounter | None
    usage: UsageCounter | None
    long_results: LongResults
    budgets: CallBudgets
    tasks: TaskHandles
    questions: RateLimit = field(default_factory=lambda: RateLimit(QUESTIONS_PER_MINUTE, QUESTIONS_AT_ONCE))
    """Of each agent to the hosts of each caller."""
    code_places: anyio.Semaphore = field(default_factory=lambda: anyio.Semaphore(CODE_AT_ONCE))
    code_of_callers: PlacesByName = field(default_factory=lambda: PlacesByName(CODE_OF_ONE))

    late: set[str] = field(default_factory=set)
    """Agents that are not in a list that was sent, since their servers had not started in time."""
    silent: dict[tuple[str, str], str] = field(default_factory=dict)
    """Content hashes of agents, by kind and id, that listed nothing of a kind when they were asked for it."""

    def take_news(self) -> bool:
        """Whether a server has reported a change since, or has started that was too late for a list."""
        started = self.late & self.executor.open_servers
        self.late.difference_update(started)
        if has_changed := self.executor.take_changes():
            self.silent.clear()
        return has_changed or bool(started)

    def view(self, asker: Asker) -> View:
        """What the asker's endpoint shows: a toolset, a namespace, or everything. Raises UnknownName."""
        return open_view(self.registry, asker.namespace, asker.principal, only=asker.caller.toolset)

    def judges(self, asker: Asker) -> Judging:
        """Tells what the asker may call, by the operator's policy."""
        return judging(self.registry, self.policy, asker.principal)

    def judge(self, asker: Asker, agent: Agent, tool: Tool, name: str) -> Judgement:
        """Of a call by the exact name. Raises NotCallable, which says `name`."""
        judgement = self.judges(asker).judge(agent, tool, by_name=True)
        if judgement.verdict == "deny":
            raise NotCallable(name, judgement.reason)
        return judgement

    def tool_call(
        self,
        asker: Asker,
        agent: Agent,
        tool: Tool,
        arguments: Mapping[str, object],
        deadline_s: float,
        *,
        host: Host | None = None,
        method: str = CALL,
    ) -> ToolCall:
        """A call in the asker's name. `host` None: its server can ask nobody."""
        return ToolCall(
            agent=agent,
            tool=tool,
            arguments=arguments,
            deadline_s=deadline_s,
            caller=asker.call_caller,
            token=asker.token,
            host=OnBehalf(host or Deaf(), agent, asker.caller, self.questions),
            method=method,
        )

    @property
    def runner(self) -> str:
        """The meta-tool by which a model runs a tool and fetches a result; empty: there is none."""
        return RUNNERS[self.surface]

    def recipe_of(self, mode: Mode | None = Mode.ALL) -> Recipe:
        """With the operator's steps, walk and reranker, if they are set: a host does not choose what costs. Where the
        operator has it walk, it looks for this. None: without the walk.
        """
        rerank, steps_by = (BY_OPERATOR if spec else "" for spec in (self.settings.rerank, self.settings.steps))
        if mode is None or not self.settings.walk:
            return recipe_named(DEFAULT_RECIPE, rerank=rerank, steps_by=steps_by)
        return recipe_named(TAXONOMY.name, rerank=rerank, mode=mode, steps_by=steps_by)

    def deadline_s(self, meta: Mapping[str, object] | None) -> float:
        """All the time that a call has: what is set, or less if the host asks for less."""
        timeout_s = (meta or {}).get(TIMEOUT_KEY)
        most = self.settings.call_timeout_s
        return read_number(timeout_s, 0.0, most) or most


@asynccontextmanager
async def open_gateway(parts: Parts, asker_of: Callable[[Context], Asker]) -> AsyncGenerator[Gateway]:
    """At its end calls end, and every process that was started for them."""
    registry, settings, services = parts.registry, parts.settings, parts.services
    reach = Reach(registry, services, vouched_file(settings.data_path, registry.store.place))
    parking = Parking() if parts.parks else None
    with open_counter(registry, settings) as counter, open_usage(registry.store, settings) as usage:
        async with open_executor(registry, settings, parts.surroundings, services=services) as executor:
            gateway = Gateway(
                **vars(parts),
                asker_of=asker_of,
                reach=reach,
                executor=executor,
                parking=parking,
                counter=counter,
                usage=usage,
                # A host's next request may come to another process: then nothing is kept for it here.
                long_results=LongResults(
                    settings.call_result_tokens, KEPT_RESULTS_BYTES if parts.parks else 0, RUNNERS[parts.surface]
                ),
                tasks=TaskHandles(settings.data_path / "tasks" / digest(registry.store.place)),
                budgets=CallBudgets(parts.policy),
            )
            async with parking.open() if parking else nullcontext():
                yield gateway
