"""A package that brings something: a folder as an installer leaves it, found by the real entry points."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import invalidate_caches
from pathlib import Path

from waygraph.ingest.sources.kinds import load_plugins


def install(
    folder: Path, package: str, modules: Mapping[str, str], points: Mapping[str, str], *, group: str = "waygraph.kinds"
) -> None:
    """Writes modules and the metadata that names their entry points, into a folder for `sys.path`."""
    for name, code in modules.items():
        (folder / f"{name}.py").write_text(code, encoding="utf-8")
    told = folder / f"{package.replace('-', '_')}-1.0.dist-info"
    told.mkdir()
    (told / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n", encoding="utf-8")
    lines = [f"{name} = {value}" for name, value in points.items()]
    (told / "entry_points.txt").write_text("\n".join([f"[{group}]", *lines]) + "\n", encoding="utf-8")


@contextmanager
def on_path(folder: Path) -> Iterator[None]:
    """Lets this process find what is installed in the folder, as long as the block lasts."""
    sys.path.insert(0, str(folder))
    invalidate_caches()
    load_plugins.cache_clear()
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        load_plugins.cache_clear()
