"""Vectors of agents and tools: which texts each is made of, its key, and the embedding of those that changed."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from waygraph.registry.embedding.embedder import Embedder, Progress
from waygraph.registry.embedding.texts import Parts, agent_texts, tool_parts
from waygraph.registry.graph.write import NewVectors
from waygraph.registry.model.changes import AgentEntry
from waygraph.registry.model.identity import digest, replace_surrogates
from waygraph.registry.model.nouns import Agent, TextForm, Tool

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_KEY_CHARS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class TextForms:
    """How entities become texts: the form, and how much of a text is worth embedding."""

    form: TextForm
    max_chars: int

    def of_entries(self, entries: Iterable[AgentEntry]) -> dict[str, Parts]:
        """Entity id → its texts, the unit mean of whose vectors is the entity's vector."""
        parts: dict[str, Parts] = {}
        for entry in entries:
            parts |= self.of_agent(entry.agent, entry.tools)
        return parts

    def of_agent(self, agent: Agent, tools: Sequence[Tool]) -> dict[str, Parts]:
        # A tool that waits for approval must not route to its agent either.
        names = [tool.name for tool in tools if not tool.pending]
        own = {agent.id: Parts(agent_texts(self.form, agent, names, self.max_chars))}
        return own | {tool.id: tool_parts(self.form, agent, tool, self.max_chars) for tool in tools}


def new_vectors(
    parts: Mapping[str, Parts],
    held_keys: Mapping[str, str],
    embedder: Embedder,
    progress: Progress | None = None,
) -> NewVectors:
    """Vectors of the entities whose key differs from the one held."""
    keys = {entity: _key(embedder.fingerprint, whole) for entity, whole in parts.items()}
    changed = [entity for entity in parts if keys[entity] != held_keys.get(entity)]
    return NewVectors(vectors=_embed(changed, parts, embedder, progress), keys=keys)


def _key(fingerprint: str, parts: Parts) -> str:
    """Another for every other embedder, text or weight."""
    weighed = (f"weights {parts.weights}",) if parts.weights else ()
    return digest(fingerprint, *parts.texts, *weighed)[:_KEY_CHARS]


def no_vectors(texts: Iterable[str]) -> NewVectors:
    """Takes the vector of every entity away."""
    return NewVectors(vectors=dict.fromkeys(texts), keys={})


def _embed(
    entities: Sequence[str],
    parts: Mapping[str, Parts],
    embedder: Embedder,
    progress: Progress | None,
) -> "dict[str, NDArray[np.float32] | None]":
    from waygraph.registry.embedding.texts import unit_mean

    if not entities:
        return {}
    chosen = [parts[entity] for entity in entities]
    distinct = list(dict.fromkeys(text for each in chosen for text in each.texts))
    rows = {text: row for row, text in enumerate(distinct)}
    matrix = embedder.embed(list(map(replace_surrogates, distinct)), "document", progress=progress)
    order = [rows[text] for each in chosen for text in each.texts]
    weights = [share for each in chosen for share in each.shares]
    means = unit_mean(matrix[order], [len(each.texts) for each in chosen], weights)
    return dict(zip(entities, means, strict=True))
