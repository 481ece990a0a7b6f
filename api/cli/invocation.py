"""What the options before the command say: which registry, which embedder."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from waygraph.registry.registry import Registry
    from waygraph.registry.settings import Settings


@dataclass(frozen=True, slots=True)
class Invocation:
    """`location` empty: the default registry. `embedder` empty: the registry's own."""

    location: str = ""
    embedder: str = ""

    def settings(self) -> "Settings":
        from waygraph.registry.settings import load_settings

        return load_settings()

    def place(self, settings: "Settings") -> str | Path:
        """Where the registry is, or will be."""
        return self.location or settings.default_registry

    def own_place(self, settings: "Settings") -> str | Path:
        """The same, for what needs the registry itself. Raises NeedsRegistry if a service keeps it."""
        from waygraph.registry.storage.store import refuse_service

        place = self.place(settings)
        refuse_service(place)
        return place

    def open(self, settings: "Settings | None" = None) -> "Registry":
        """The registry; `settings`: those that were read already. Raises RegistryUnusable, EmbedderMismatch, …"""
        return self._open(settings or self.settings(), self.embedder)

    def open_for_reindex(self) -> "Registry":
        """The registry with its own embedder: the one asked for is to come in its place."""
        return self._open(replace(self.settings(), embedder=""), "")

    @property
    def wanted_embedder(self) -> str:
        """The spec asked for by option or environment; empty if none was."""
        return self.embedder or self.settings().embedder

    def _open(self, settings: "Settings", embedder: str) -> "Registry":
        from waygraph.registry.registry import Registry

        return Registry.open(self.place(settings), embedder=embedder or None, settings=settings)


def invocation(context: typer.Context) -> Invocation:
    """What this run of the program was told before the command."""
    told = context.obj
    return told if isinstance(told, Invocation) else Invocation()
