"""A whole registry from one place to another, whichever engines keep them; nothing is embedded anew.

The copy is compared with what was read before it counts as a registry: in the transaction that makes it one.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from urllib.parse import urlsplit

from waygraph.cypher import load
from waygraph.registry.errors import CopyDiffers, InvalidSetting, RegistryNotFound, RegistryUnusable
from waygraph.registry.graph.engine import GraphSession
from waygraph.registry.graph.reading import RegistryState, read_agents, read_state, read_tools
from waygraph.registry.graph.version import SCHEMA_VERSION
from waygraph.registry.migration.holdings import Holdings, differences, read_holdings
from waygraph.registry.migration.parts import Part, parts_of
from waygraph.registry.settings import Settings
from waygraph.registry.storage.filling import Filling, Origin, refuse_registry
from waygraph.registry.storage.store import MEMORY, Store, is_server, open_store

Progress = Callable[[int, int], None]
"""Called with (rows copied, rows in all)."""

BOLT_PORT = 7687


@dataclass(frozen=True, slots=True, kw_only=True)
class Migrated:
    """What is at `target` now. `copied`: rows this run wrote, 0 if the copy was there and only compared."""

    source: str
    target: str
    revision: int
    agents: int
    tools: int
    sources: int
    claims: int
    settings: int
    vectors: int
    copied: int
    sha256: str
    """Of everything that is held; equal for equal registries."""
    seconds: float


def migrate_at(source: str, target: str, settings: Settings, progress: Progress | None = None) -> Migrated:
    """`migrate` between two locations. Raises InvalidSetting if they are one, or if the target is in memory."""
    # All is read in one transaction, which may take as long as one that writes.
    patient = replace(settings, neo4j_read_timeout_s=max(settings.neo4j_read_timeout_s, settings.neo4j_write_timeout_s))
    if target == MEMORY:
        raise InvalidSetting(f"a copy to {MEMORY} would be gone at once; name a file or a server")
    with closing(open_store(source, patient)) as source_store, closing(open_store(target, patient)) as target_store:
        return migrate(source_store, target_store, progress)


def migrate(source: Store, target: Store, progress: Progress | None = None) -> Migrated:
    """Copies one revision of `source` to `target`, which holds no registry; `source` is only read.

    Cut short, it leaves no registry, and the same call goes on with what is there. A target that holds this very
    revision already is compared with it and left as it is. Raises RegistryNotFound without a source, InvalidSetting,
    RegistryUnusable for a target that holds another registry, CopyDiffers.
    """
    started = time.perf_counter()
    if _address(source.place) == _address(target.place):
        raise InvalidSetting(f"{target.place} cannot be copied to itself")
    wanted = _read_whole(source)
    held, copied = _state(target), 0
    if held is None:
        copied = _copy(wanted, source.place, target, progress)
    elif held == wanted.state:
        refuse_differences(wanted, target.read(read_holdings), target.place)
    else:
        refuse_registry(target.place, held)
    return _told(wanted, source, target, copied, time.perf_counter() - started)


def refuse_differences(wanted: Holdings, found: Holdings, place: str) -> None:
    """Raises CopyDiffers."""
    told = differences(wanted, found)
    if told:
        raise CopyDiffers(place, told)


def _read_whole(source: Store) -> Holdings:
    """Raises RegistryNotFound; RegistryUnusable for one that cannot be copied as it is."""
    if not source.exists:
        raise RegistryNotFound(source.place)
    whole = source.read(read_holdings)
    if whole.state.schema_version != SCHEMA_VERSION:
        raise RegistryUnusable(source.place, "its schema is an older one. Any write, such as an ingest, renews it.")
    if not whole.is_sound:
        raise RegistryUnusable(source.place, "it does not agree with itself. Run `waygraph doctor --deep`.")
    return whole


def _state(store: Store) -> RegistryState | None:
    try:
        return store.read(read_state)
    except RegistryNotFound:
        return None


def _copy(wanted: Holdings, place: str, target: Store, progress: Progress | None) -> int:
    """How many rows were missing."""
    origin = Origin(place=place, revision=wanted.state.revision, commit=wanted.state.commit, dimension=wanted.dimension)

    def whole(session: GraphSession) -> None:
        session.run(load("state/create"), props=asdict(wanted.state))
        refuse_differences(wanted, read_holdings(session), target.place)

    with target.filling(origin) as filling:
        copied = _put(parts_of(wanted, _held_ids(filling)), filling, progress)
        filling.finish(whole)
    return copied


def _put(parts: Sequence[Part], filling: Filling, progress: Progress | None) -> int:
    total, done = sum(part.rows for part in parts), 0
    for part in parts:
        filling.put(part.agent_ids, part.write)
        done += part.rows
        if progress:
            progress(done, total)
    return total


def _held_ids(filling: Filling) -> set[str]:
    """Agents and tools that an earlier attempt copied, each whole."""
    return {*read_agents(filling.session), *(item.tool.id for item in read_tools(filling.session))}


# -- places --------------------------------------------------------------------------------------------


def _address(place: str) -> object:
    """Equal for two names of one server's database."""
    if not is_server(place):
        return place
    parts = urlsplit(place)
    return parts.hostname, parts.port or BOLT_PORT, parts.path


def _told(whole: Holdings, source: Store, target: Store, copied: int, seconds: float) -> Migrated:
    return Migrated(
        source=source.place,
        target=target.place,
        revision=whole.state.revision,
        agents=len(whole.agents),
        tools=len(whole.tools),
        sources=len(whole.sources),
        claims=len(whole.claims),
        settings=len(whole.settings),
        vectors=len(whole.vectors),
        copied=copied,
        sha256=whole.sha256,
        seconds=seconds,
    )
