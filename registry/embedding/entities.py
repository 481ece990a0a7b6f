"""Vectors of agents and tools: which texts each is made of, its key, and the embedding of those that changed."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from waygraph.registry.changes import AgentEntry
from waygraph.registry.embedding.protocol import Embedder, Progress
from waygraph.registry.embedding.texts import agent_texts, tool_texts
from waygraph.registry.graph.writing import NewVectors
from waygraph.registry.identity import digest
from waygraph.registry.model import Agent, TextForm, Tool

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_KEY_CHARS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class TextForms:
    """How entities become texts: the form, and how much of a text is worth embedding."""

    form: TextForm
    max_chars: int

    def of_entries(self, entries: Iterable[AgentEntry]) -> dict[str, tuple[str, ...]]:
        """Entity id → its texts, whose vectors' unit mean is the entity's vector."""
        texts: dict[str, tuple[str, ...]] = {}
        for entry in entries:
            texts |= self.of_agent(entry.agent, entry.tools)
        return texts

    def of_agent(self, agent: Agent, tools: Sequence[Tool]) -> dict[str, tuple[str, ...]]:
        names = [tool.name for tool in tools]
        own = {agent.id: agent_texts(self.form, agent, names, self.max_chars)}
        return own | {tool.id: tool_texts(self.form, agent, tool, self.max_chars) for tool in tools}


def new_vectors(
    texts: Mapping[str, tuple[str, ...]],
    held_keys: Mapping[str, str],
    embedder: Embedder | None,
    progress: Progress | None = None,
) -> NewVectors:
    """Vectors of the entities whose key differs from the one held. Without an embedder: none."""
    if embedder is None:
        return NewVectors(vectors={}, keys={})
    keys = {entity: digest(embedder.fingerprint, *parts)[:_KEY_CHARS] for entity, parts in texts.items()}
    changed = [entity for entity in texts if keys[entity] != held_keys.get(entity)]
    return NewVectors(vectors=_embed(changed, texts, embedder, progress), keys=keys)


def no_vectors(texts: Iterable[str]) -> NewVectors:
    """Takes the vector of every entity away."""
    return NewVectors(vectors=dict.fromkeys(texts), keys={})


def _embed(
    entities: Sequence[str],
    texts: Mapping[str, tuple[str, ...]],
    embedder: Embedder,
    progress: Progress | None,
) -> "dict[str, NDArray[np.float32] | None]":
    from waygraph.registry.embedding.texts import unit_mean

    if not entities:
        return {}
    distinct = list(dict.fromkeys(text for entity in entities for text in texts[entity]))
    rows = {text: row for row, text in enumerate(distinct)}
    matrix = embedder.embed(distinct, "document", progress=progress)
    order = [rows[text] for entity in entities for text in texts[entity]]
    means = unit_mean(matrix[order], [len(texts[entity]) for entity in entities])
    return dict(zip(entities, means, strict=True))
