"""The one object that users hold: a registry in a file, in memory, on a graph server, or one that a service keeps."""

import os
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self, runtime_checkable

from waygraph.registry.model.errors import NeedsRegistry
from waygraph.registry.model.nouns import Principal, TextForm
from waygraph.registry.model.settings import Settings
from waygraph.registry.model.usage import Sort
from waygraph.registry.routing.searchable import Searchable
from waygraph.registry.storage.location import is_service, named_place

if TYPE_CHECKING:
    from waygraph.registry.model.changes import (
        Approved,
        Change,
        CypherResult,
        Document,
        Forgotten,
        OperatorSettings,
        Page,
        Policy,
        Written,
    )
    from waygraph.registry.model.toolset import Toolset
    from waygraph.registry.model.usage import ToolUsage
    from waygraph.registry.remote.calls import IngestReports
    from waygraph.registry.storage.export.formats import ExportFormat
    from waygraph.registry.storage.local_registry import LocalRegistry
    from waygraph.registry.storage.store import Place


@runtime_checkable
class Registry(Searchable, Protocol):
    """Agents and their tools as a graph, and the router over them. Threads may share one.

    Any number of processes may read while one writes. What operators do stands at `operator`. Implemented by
    RemoteRegistry and by LocalRegistry, which alone has what works on the graph itself.
    """

    @staticmethod
    def open(
        location: str | os.PathLike[str],
        *,
        embedder: str | None = None,
        settings: Settings | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> "Registry":
        """A registry in a file, in memory (`:memory:`) or on a server (`neo4j://host`). The first write makes it.

        Or one that a service keeps (`https://host`): a RemoteRegistry, of which nothing is asked yet.

        `embedder` is a spec such as `onnx:sentence-transformers/all-MiniLM-L6-v2`; by default the registry's own.
        Raises RegistryUnusable for a damaged, empty, foreign or newer file, EmbedderMismatch if the registry's
        vectors were made by another embedder than the one asked for, EmbedderRefused for a spec that names none,
        InvalidSetting if a service is to have another.
        """
        location = named_place(location)
        if is_service(location):
            from waygraph.registry.remote.remote_registry import RemoteRegistry

            return RemoteRegistry.open(location, embedder=embedder, settings=settings, environ=environ)
        from waygraph.registry.storage.local_registry import LocalRegistry

        return LocalRegistry.open(location, embedder=embedder, settings=settings, environ=environ)

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def close(self) -> None:
        """Lets go of files and connections. A closed registry answers nothing more."""
        ...

    @property
    def store(self) -> "Place":
        """Where it is, and whether anything was ever written there."""
        ...

    @property
    def stamp(self) -> str:
        """Another text for each revision, also where a copy of the registry came to the same number another way."""
        ...

    @property
    def operator(self) -> "Operator": ...


class Operator(Protocol):
    """What operators do with a registry, and how they watch it."""

    def set(
        self,
        agent_id: str,
        *,
        tags: Sequence[str] | None = None,
        visible_to: Sequence[str] | None = None,
        everyone: bool = False,
        pinned: bool | None = None,
        hidden: bool | None = None,
        removed: bool | None = None,
        principal: Principal | None = None,
    ) -> "OperatorSettings":
        """What an operator says of an agent; None leaves a field as it is. It survives every sync.

        Raises UnknownName, also for an agent that the principal may not see; InvalidSetting for an empty name, and for
        no group at all: that would open it to everyone. `everyone` takes an operator's `visible_to` back.
        `removed=False` lets a removed agent's source bring it back. NotAllowed for what the principal may not set, see
        `access.operators`.
        """
        ...

    def set_tool(
        self, name: str, changes: Mapping[str, Any], *, principal: Principal | None = None
    ) -> "OperatorSettings":
        """What an operator says of a tool, by id or the call name that its source gives it: `name`, `description` and
        `parameters`, by name objects of `name`, `description`, `pin` (a value that every call has) and `hidden`.

        None takes a field back; what is not there stays. It survives every sync. Raises UnknownName, InvalidSetting;
        NotAllowed for a principal that is no operator.
        """
        ...

    def remove(self, agent_id: str, *, principal: Principal | None = None) -> "OperatorSettings":
        """Removes an agent and its tools, and keeps it away whatever its source says. Raises as `set`."""
        ...

    def approve(self, *names: str, principal: Principal | None = None) -> "Approved":
        """What waits of an agent and its tools, of a tool, or of a source (`source:NAME`) is in routing from now on.

        This includes flagged texts, as they are now. All of the names or, if there is an error, none. A new revision,
        unless nothing waited. Raises UnknownName, also for what the principal may not see; NotAllowed for a principal
        that is no operator, and for a source that claims an agent which it may not see; InvalidSetting for no name.
        """
        ...

    def forget(self, source: str, *, principal: Principal | None = None) -> "Forgotten":
        """Removes a source and the agents that only it claimed, which the answer names, beside the sources that speak
        for another agent now and must be ingested again to be heard.

        Raises UnknownName; NotAllowed if it claims an agent that the principal may not see, or that others see, or has
        a policy, and the principal is no operator.
        """
        ...

    def set_toolset(
        self,
        name: str,
        *,
        description: str = "",
        tools: Sequence[str] = (),
        agents: Sequence[str] = (),
        tags: Sequence[str] = (),
        callers: Sequence[str] = (),
        principal: Principal | None = None,
    ) -> "Toolset":
        """A named choice of tools (by id), agents, and whatever has one of the tags, in place of the one of that name.

        Only members of the groups `callers` may use it; none: everybody who may see anything in it. What comes later
        and fits joins it. Raises InvalidSetting, also for the name of a namespace; NotAllowed for a principal.
        """
        ...

    def remove_toolset(self, name: str, *, principal: Principal | None = None) -> "Written":
        """Its tools stay. Raises UnknownName; NotAllowed for a principal."""
        ...

    def changes(
        self,
        *,
        since: str = "",
        agent_id: str = "",
        after: str = "",
        limit: int | None = 100,
        principal: Principal | None = None,
    ) -> "Page[Change]":
        """What syncs changed of agents that were known before and of their tools, newest first: at most `limit` that
        are older than the change of the id `after`.

        `since`: ISO 8601, in UTC unless it says otherwise. Of an agent that is gone only who sees everything learns.
        Raises InvalidQuery, RegistryNotFound.
        """
        ...

    def usage(
        self, *, agent_id: str = "", sort: Sort = "calls", limit: int = 100, principal: Principal | None = None
    ) -> "list[ToolUsage]":
        """How often and how fast the gateways of this machine ran each tool: the `limit` (1 to 1,000) with the most
        calls, errors or the longest `p95`. Empty for a registry in memory.

        Raises InvalidQuery, UnknownName, RegistryNotFound, StorageFailed.
        """
        ...

    def cypher(self, statement: str, params: Mapping[str, object] | None = None) -> "CypherResult":
        """Runs a statement that only reads, with limits of time, rows and memory, and of how many are at work.

        Raises CypherRefused, CypherFailed, CypherLimit, CypherBusy.
        """
        ...

    def export(self, format: "ExportFormat") -> str:  # noqa: A002 - what every caller calls it
        """The whole registry as text; the same revision gives the same text. Raises UnknownName, RegistryNotFound."""
        ...


@runtime_checkable
class DocumentReader(Protocol):
    """A registry that reads documents itself, as a service does."""

    def take(
        self,
        documents: "Sequence[Document]",
        *,
        source: str,
        namespace: str = "",
        kind: str = "",
        policy: "Policy | None" = None,
        texts: TextForm | None = None,
        partial: bool = False,
        dry_run: bool = False,
        allow_mass_removal: bool = False,
    ) -> "IngestReports":
        """Brings the registry to what a source says now, and reports what came before an error beside it."""
        ...


def require_local(registry: Registry) -> "LocalRegistry":
    """The registry whose graph is here. Raises NeedsRegistry for one that a service keeps."""
    from waygraph.registry.storage.local_registry import LocalRegistry

    if not isinstance(registry, LocalRegistry):
        raise NeedsRegistry(registry.store.place)
    return registry
