"""A registry, router and gateway for agents and tools: every name that a program needs, imported when it is first used.

`Registry.open` is where to begin; `ingest` brings sources in.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from waygraph.api.library import AsyncRegistry as AsyncRegistry
    from waygraph.api.library import LocalRegistry as LocalRegistry
    from waygraph.api.library import Registry as Registry
    from waygraph.api.library import RemoteRegistry as RemoteRegistry
    from waygraph.ingest.manifest.records import AgentRecord as AgentRecord
    from waygraph.ingest.manifest.records import Intake as Intake
    from waygraph.ingest.manifest.records import ToolRecord as ToolRecord
    from waygraph.ingest.pipeline import ingest as ingest
    from waygraph.ingest.sources.kinds import Kind as Kind
    from waygraph.registry.catalog.tool_formats import definitions as definitions
    from waygraph.registry.embedding import Progress as Progress
    from waygraph.registry.embedding import Role as Role
    from waygraph.registry.embedding.embedder import EmbedderSpec as EmbedderSpec
    from waygraph.registry.model.changes import Document as Document
    from waygraph.registry.model.changes import Status as Status
    from waygraph.registry.model.changes import SyncReport as SyncReport
    from waygraph.registry.model.errors import CallError as CallError
    from waygraph.registry.model.errors import CallTimedOut as CallTimedOut
    from waygraph.registry.model.errors import InvalidArguments as InvalidArguments
    from waygraph.registry.model.errors import InvalidQuery as InvalidQuery
    from waygraph.registry.model.errors import InvalidSetting as InvalidSetting
    from waygraph.registry.model.errors import NeedsConsent as NeedsConsent
    from waygraph.registry.model.errors import NotCallable as NotCallable
    from waygraph.registry.model.errors import RegistryNotFound as RegistryNotFound
    from waygraph.registry.model.errors import UnknownName as UnknownName
    from waygraph.registry.model.errors import UpstreamError as UpstreamError
    from waygraph.registry.model.errors import WaygraphError as WaygraphError
    from waygraph.registry.model.nouns import Agent as Agent
    from waygraph.registry.model.nouns import AgentMatch as AgentMatch
    from waygraph.registry.model.nouns import Filters as Filters
    from waygraph.registry.model.nouns import Principal as Principal
    from waygraph.registry.model.nouns import Query as Query
    from waygraph.registry.model.nouns import Route as Route
    from waygraph.registry.model.nouns import Tool as Tool
    from waygraph.registry.model.nouns import ToolMatch as ToolMatch
    from waygraph.registry.model.nouns import ToolRoute as ToolRoute
    from waygraph.registry.model.nouns import Turn as Turn
    from waygraph.registry.model.nouns import Vote as Vote
    from waygraph.registry.model.settings import Settings as Settings
    from waygraph.registry.model.tool_calls import RankedTool as RankedTool
    from waygraph.registry.model.tool_calls import RankedTools as RankedTools
    from waygraph.registry.model.tool_calls import ToolResult as ToolResult
    from waygraph.registry.routing.recipes import RECIPES as RECIPES
    from waygraph.registry.routing.recipes import HistoryShares as HistoryShares
    from waygraph.registry.routing.recipes import Recipe as Recipe
    from waygraph.registry.routing.recipes import RecipeLeg as RecipeLeg
    from waygraph.registry.routing.recipes import Rerank as Rerank
    from waygraph.registry.routing.recipes import recipe_named as recipe_named

    __version__: str
    """The installed version, such as "0.1.0"."""

_NAMES = {
    "api.library": "AsyncRegistry LocalRegistry Registry RemoteRegistry",
    "ingest.manifest.records": "AgentRecord Intake ToolRecord",
    "ingest.pipeline": "ingest",
    "ingest.sources.kinds": "Kind",
    "registry.catalog.tool_formats": "definitions",
    "registry.embedding": "Progress Role",
    "registry.embedding.embedder": "EmbedderSpec",
    "registry.model.changes": "Document Status SyncReport",
    "registry.model.errors": "CallError CallTimedOut InvalidArguments InvalidQuery InvalidSetting NeedsConsent "
    "NotCallable RegistryNotFound UnknownName UpstreamError WaygraphError",
    "registry.model.nouns": "Agent AgentMatch Filters Principal Query Route Tool ToolMatch ToolRoute Turn Vote",
    "registry.model.settings": "Settings",
    "registry.model.tool_calls": "RankedTool RankedTools ToolResult",
    "registry.routing.recipes": "HistoryShares RECIPES Recipe RecipeLeg Rerank recipe_named",
}
"""Module → the names that stand there."""
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import version

        return version(__name__)
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return [*_HOMES, "__version__"]
