"""What other packages bring, by entry points. Their code is not ours: what fails in it is told with the package's name,
and harms nothing else.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from waygraph.registry.model.errors import WaygraphError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_MAX_FAULT_CHARS = 200


def points(group: str) -> "list[EntryPoint]":
    """Of the packages that are installed; of two with one name, the first counts."""
    from importlib.metadata import entry_points

    return sorted(entry_points(group=group), key=lambda point: (package_of(point), point.name))


def names(group: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(point.name for point in points(group)))


def package_of(point: "EntryPoint") -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist else point.value


def find_plugin(group: str, name: str, noun: str, error: type[WaygraphError]) -> tuple[Any, str]:
    """What the first package brings under that name, and what it is called where it fails. Raises `error`."""
    point = next((point for point in points(group) if point.name == name), None)
    if point is None:
        raise error(f"no package that is installed brings the {noun} {name!r}")
    label = f"the {noun} {name} of the package {package_of(point)}"
    try:
        return point.load(), label
    except (Exception, SystemExit) as exc:  # whatever another package's import may raise
        reason = " ".join(f"{type(exc).__name__}: {exc}".split())[:_MAX_FAULT_CHARS]
        raise error(f"{label} cannot be loaded: {reason}") from exc


@contextmanager
def blaming(label: str, error: Callable[[str], WaygraphError]) -> Iterator[None]:
    """In place of what others raise: without its own text, which may hold a key or what people asked."""
    try:
        yield
    except WaygraphError:
        raise
    except Exception as exc:
        raise error(f"{label} failed: {type(exc).__name__}") from exc
