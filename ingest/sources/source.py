"""What every source is, whatever its kind."""

from typing import Protocol

from waygraph.registry.changes import Manifest


class Source(Protocol):
    """Agents that someone else keeps: files, an address, running servers. Reading it again tells what holds then."""

    @property
    def name(self) -> str:
        """By which the graph knows it; no secret in it."""
        ...

    def read(self) -> Manifest:
        """What it says now. A bad record costs that record. Raises SourceError if nothing at all can be read."""
        ...
