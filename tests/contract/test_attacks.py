"""Every attack against a registry in every place: refused, failed or answered as a read, and nothing has changed."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.attacks import ATTACKS, HARMLESS, Attack
from tests.contract.test_lookup import entry
from tests.fingerprint import fingerprint
from tests.neo4j_fixtures import SERVERS
from tests.places import PLACES, Servers, new_place
from tests.shelf import Shelf
from waygraph import Settings
from waygraph.ingest.manifest.records import Manifest
from waygraph.ingest.sync.apply import sync
from waygraph.registry.model.errors import CypherFailed, CypherRefused
from waygraph.registry.storage.local_registry import LocalRegistry
from waygraph.registry.storage.location import is_server

MANIFEST = Manifest(source="s", entries=tuple(entry(agent, ("b", "c.d")) for agent in ("a", "evil", "x")))


@pytest.fixture(scope="module")
def registry(shelf: Shelf) -> Iterator[LocalRegistry]:
    place = shelf.empty()
    settings = replace(place.settings, cypher_timeout_s=30.0)
    with LocalRegistry.open(place.location, settings=settings, environ={}) as registry:
        sync(registry, MANIFEST)
        registry.operator.set("a", tags=["t"], visible_to=["g"])
        yield registry


@pytest.fixture(scope="module")
def untouched(registry: LocalRegistry) -> dict[str, str]:
    """The registry before the first attack."""
    return fingerprint(registry)


def outcome(registry: LocalRegistry, attack: Attack) -> str:
    try:
        rows = registry.operator.cypher(attack.statement, attack.params).rows
    except CypherRefused:
        return "refused"
    except CypherFailed:
        return "failed"
    return "answered with nothing" if all(value is None for row in rows for value in row) else "answered"


def expected(registry: LocalRegistry, attack: Attack) -> tuple[str, ...]:
    """A function that no plugin brings fails, or gives nothing where it is never called."""
    if attack.outcome == "refused" or (attack.outcome != "harmless" and is_server(registry.store.place)):
        return ("refused",)
    return ("failed", "answered with nothing") + (("answered",) if attack.outcome == "harmless" else ())


def test_every_attack_comes_to_nothing(registry: LocalRegistry, untouched: dict[str, str]) -> None:
    """Each ends as the list says, and after all of them the registry is to the last bit what it was."""
    ended = {attack.name: outcome(registry, attack) for attack in ATTACKS}
    others = {
        attack.name: ended[attack.name] for attack in ATTACKS if ended[attack.name] not in expected(registry, attack)
    }
    assert others == {}
    assert fingerprint(registry) == untouched


def test_parameters_are_values_whatever_they_say(registry: LocalRegistry, untouched: dict[str, str]) -> None:
    """What looks like a clause comes back as the text it is, and finds nothing of its name."""
    rows = {
        name: registry.operator.cypher(*HARMLESS[f"{name} as a parameter"]).rows
        for name in ("a clause", "rows", "a map")
    }
    assert rows == {"a clause": (("MATCH (n) DETACH DELETE n",),), "rows": (("CREATE (n)",), (";",)), "a map": ()}
    assert fingerprint(registry) == untouched


@pytest.mark.parametrize("place", PLACES)
def test_a_fingerprint_is_of_all_that_is_held(place: str, tmp_path: Path, neo4j_servers: Servers) -> None:
    """Reading leaves it as it is; a word of an operator, a description and a removed tool do not."""
    there = new_place(place, tmp_path, neo4j_servers, Settings())
    with LocalRegistry.open(there.location, embedder="none", settings=there.settings, environ={}) as registry:
        sync(registry, MANIFEST)
        seen = [fingerprint(registry)]
        registry.route("b")
        registry.operator.cypher("MATCH (n) RETURN count(n)")
        assert fingerprint(registry) == seen[0]
        registry.operator.set("a", pinned=True)
        seen.append(fingerprint(registry))
        sync(registry, replace(MANIFEST, entries=MANIFEST.entries[:2]))
        seen.append(fingerprint(registry))
        assert seen[0] != seen[1] != seen[2]
        assert ("indexes" in seen[0]) == (place in SERVERS)
        assert ("r.grafeo" in seen[0]) == (place == "grafeo file")
