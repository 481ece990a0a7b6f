"""What a person writes for a source that the registry holds."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from waygraph.registry.registry import Registry


def held_source(registry: "Registry", written: str) -> str:
    """Its name; a file or folder may be written as it was ingested, while its name is the whole path.

    What is no source's name stays as it is written. Raises RegistryNotFound.
    """
    held = {source.name for source in registry.sources()}
    path = str(Path(written).resolve())
    return path if written not in held and path in held else written
