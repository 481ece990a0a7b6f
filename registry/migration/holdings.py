"""All that a registry holds at one revision, vectors included, and in what two of them differ."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from hashlib import sha256
from itertools import islice
from typing import TYPE_CHECKING, Any

from waygraph.cypher import load
from waygraph.registry.changes import Change, Claim, OperatorSettings, SourceSummary
from waygraph.registry.errors import RegistryNotFound
from waygraph.registry.graph.change_log import read_changes
from waygraph.registry.graph.engine import GraphSession
from waygraph.registry.graph.reading import (
    RegistryState,
    StoredAgent,
    StoredTool,
    Vectors,
    read_agents,
    read_claims,
    read_settings,
    read_sources,
    read_state,
    read_tools,
    read_vectors,
    vector_keys_of,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_NAMED = 3
"""So many of the things that differ are named; the others are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holdings:
    """Each list in order of id. `vectors` by entity id, of shape (dimension,); an entity without one is not in it.

    `counts` is what the graph itself counts, by the names of `check/counts`.
    """

    state: RegistryState
    agents: tuple[StoredAgent, ...]
    tools: tuple[StoredTool, ...]
    sources: tuple[SourceSummary, ...]
    claims: tuple[Claim, ...]
    settings: tuple[OperatorSettings, ...]
    changes: tuple[Change, ...]
    vectors: Vectors
    counts: Mapping[str, int]

    @property
    def vector_keys(self) -> dict[str, str]:
        """As `vector_keys_of`."""
        return vector_keys_of(self.agents, self.tools)

    @property
    def dimension(self) -> int:
        """0 without vectors."""
        return next((len(vector) for vector in self.vectors.values()), 0)

    @property
    def is_sound(self) -> bool:
        """Whether the lists tell of every node and edge: no tool without an owner or with two, no claim twice."""
        listed = {
            "agents": len(self.agents),
            "tools": len({item.tool.id for item in self.tools}),
            "owns": len(self.tools),
            "sources": len(self.sources),
            "claims": len({(claim.source, claim.agent_id) for claim in self.claims}),
            "changes": len({change.id for change in self.changes}),
        }
        return listed == self.counts and listed["tools"] == listed["owns"]

    @property
    def sha256(self) -> str:
        """Of everything: equal means the same registry, vector for vector."""
        return _sha256(fingerprints(self))


def read_holdings(session: GraphSession) -> Holdings:
    """Raises RegistryNotFound if the graph is not a registry."""
    state = read_state(session)
    if state is None:
        raise RegistryNotFound("the graph")
    agents, tools, claims = read_agents(session), read_tools(session), read_claims(session)
    return Holdings(
        state=state,
        agents=tuple(agents.values()),
        tools=tuple(tools),
        sources=tuple(read_sources(session, claims)),
        claims=tuple(claims),
        settings=tuple(read_settings(session).values()),
        changes=tuple(read_changes(session)),
        vectors=read_vectors(session, agents=list(agents), tools=[item.tool.id for item in tools]),
        counts=session.run(load("check/counts"))[0],
    )


def fingerprints(held: Holdings) -> dict[str, dict[str, str]]:
    """Part of the registry → name of what is in it → SHA-256 of all that is stored of that."""
    keys = held.vector_keys
    return {
        "registry": {name: _sha256(value) for name, value in asdict(held.state).items()},
        "agents": {item.agent.id: _sha256(asdict(item)) for item in held.agents},
        "tools": {item.tool.id: _sha256(asdict(item)) for item in held.tools},
        "sources": {source.name: _sha256(asdict(source)) for source in held.sources},
        "claims": {f"{claim.source} of {claim.agent_id}": _sha256(asdict(claim)) for claim in held.claims},
        "changes": {change.id: _sha256(asdict(change)) for change in held.changes},
        "settings": {said.agent_id: _sha256(asdict(said)) for said in held.settings},
        "vectors": {entity: _of_vector(keys.get(entity, ""), vector) for entity, vector in held.vectors.items()},
        "counts": {name: str(number) for name, number in held.counts.items()},
    }


def differences(wanted: Holdings, found: Holdings) -> list[str]:
    """A line for each part that is not as it should be, such as `tools: 2 missing (a/x, a/y)`; none if all are."""
    have = fingerprints(found)
    return [
        f"{part}: {told}"
        for part, rows in fingerprints(wanted).items()
        if (told := ", ".join(_difference(rows, have[part])))
    ]


def _difference(wanted: Mapping[str, str], found: Mapping[str, str]) -> Iterator[str]:
    other = [name for name in wanted.keys() & found.keys() if wanted[name] != found[name]]
    for what, names in (
        ("missing", wanted.keys() - found.keys()),
        ("too many", found.keys() - wanted.keys()),
        ("different", other),
    ):
        if names:
            yield f"{len(names)} {what} ({_some(names)})"


def _some(names: Iterable[str]) -> str:
    ordered = sorted(names)
    return ", ".join(islice(ordered, _NAMED)) + (", …" if len(ordered) > _NAMED else "")


def _of_vector(key: str, vector: "NDArray[np.float32]") -> str:
    return sha256(key.encode() + b"\0" + vector.astype("<f4").tobytes()).hexdigest()


def _sha256(value: Any) -> str:
    return sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
