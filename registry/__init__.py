"""The core: graph, index, routing. Public names are listed here; each is imported when it is first used."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from waygraph.registry.model.changes import Status
    from waygraph.registry.model.errors import WaygraphError
    from waygraph.registry.model.nouns import (
        Agent,
        AgentMatch,
        Filters,
        Principal,
        Query,
        Route,
        Tool,
        ToolMatch,
        ToolRoute,
        Turn,
        Vote,
    )
    from waygraph.registry.model.settings import Settings
    from waygraph.registry.registry import Registry
    from waygraph.registry.routing.recipes import RECIPES, HistoryShares, Recipe, RecipeLeg, Rerank
    from waygraph.registry.storage.local_registry import LocalRegistry

__all__ = [
    "RECIPES",
    "Agent",
    "AgentMatch",
    "Filters",
    "HistoryShares",
    "LocalRegistry",
    "Principal",
    "Query",
    "Recipe",
    "RecipeLeg",
    "Registry",
    "Rerank",
    "Route",
    "Settings",
    "Status",
    "Tool",
    "ToolMatch",
    "ToolRoute",
    "Turn",
    "Vote",
    "WaygraphError",
]

_HOMES = {
    "HistoryShares": "routing.recipes",
    "LocalRegistry": "storage.local_registry",
    "RECIPES": "routing.recipes",
    "Recipe": "routing.recipes",
    "RecipeLeg": "routing.recipes",
    "Rerank": "routing.recipes",
    "Registry": "registry",
    "Settings": "model.settings",
    "Status": "model.changes",
    "WaygraphError": "model.errors",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES.get(name, 'model.nouns')}"), name)


def __dir__() -> list[str]:
    return list(__all__)
