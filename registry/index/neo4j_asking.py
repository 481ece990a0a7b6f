"""A search, as Neo4j's statements take it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from waygraph.registry.identity import mended
from waygraph.registry.index.analyser import named_in, query_terms
from waygraph.registry.index.neo4j_upkeep import ALL_TEXTS, index_name, vector_index
from waygraph.registry.index.search_index import TEXT_LEGS, VECTOR_LEGS, Leg, Scope

if TYPE_CHECKING:
    from waygraph.registry.embedding.protocol import Vector


MOST_WORDS = 1_000
"""Lucene takes 1,024 clauses; of a longer query the first words and the first names count."""
_SYNTAX = frozenset('+-&|!(){}[]^"~*?:\\/<>=')


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A search, as the statement takes it."""

    wanted: tuple[Leg, ...]
    """All that was asked for; without a vector no vector leg."""
    legs: tuple[Leg, ...]
    """Those of them that can hold anything."""
    vector: "_Numbers"
    words: tuple[str, ...]
    names: tuple[str, ...]
    depth: int
    scope: Scope

    @classmethod
    def of(
        cls, legs: tuple[Leg, ...], vector: "Vector | None", texts: tuple[str, str], depth: int, scope: Scope
    ) -> "Ask":
        """`texts`: what words are taken of, and names."""
        # Half a surrogate pair cannot be sent, nor be stored.
        text, written = map(mended, texts)
        words, names = query_terms(text)[:MOST_WORDS], named_in(written)[:MOST_WORDS]
        answerable = {
            *(VECTOR_LEGS if vector is not None and vector.any() else ()),
            *(TEXT_LEGS if words else ()),
            *(("name",) if names else ()),
        }
        return cls(
            wanted=tuple(leg for leg in legs if vector is not None or leg not in VECTOR_LEGS),
            legs=tuple(leg for leg in legs if leg in answerable),
            vector=_Numbers() if vector is None else _Numbers(vector.tolist()),
            words=words,
            names=tuple(map(index_name, names)),
            depth=depth,
            scope=scope,
        )

    @property
    def is_scoped(self) -> bool:
        filters = self.scope.filters
        chosen = filters.tags or filters.kinds or filters.agent_ids or filters.reachable
        return self.scope.principal is not None or bool(chosen)

    def params(self, reach: int) -> dict[str, object]:
        dimension = len(self.vector)
        return self._scope_params() | {
            "legs": list(self.legs),
            "vector": self.vector,
            "agent_index": vector_index("agent", dimension),
            "capability_index": vector_index("capability", dimension),
            "words": lucene(self.words),
            "names": lucene(self.names),
            "terms": [ALL_TEXTS, *self.words],
            "depth": self.depth,
            "reach": reach,
        }

    def scan_params(self, legs: Sequence[Leg]) -> dict[str, object]:
        return self._scope_params() | {"legs": list(legs), "vector": self.vector, "depth": self.depth}

    def _scope_params(self) -> dict[str, object]:
        principal, filters = self.scope.principal, self.scope.filters
        return {
            "everyone": principal is None,
            "groups": list(principal.groups) if principal else [],
            "tags": list(filters.tags),
            "kinds": list(filters.kinds),
            "agent_ids": list(filters.agent_ids),
            "reachable": filters.reachable,
        }


class _Numbers(list[float]):
    """A list that is short to print: the driver prints all parameters for its log before each statement, whether
    anybody keeps a log or not, and 384 numbers take it a quarter of a millisecond."""

    def __repr__(self) -> str:
        return f"<{len(self)} floats>"


def lucene(words: Iterable[str]) -> str:
    """Words as terms of a Lucene query: whatever has a meaning in its syntax is escaped."""
    return " ".join("".join("\\" + c if c in _SYNTAX else c for c in word) for word in words)
