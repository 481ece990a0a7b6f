"""The texts of a manifest, embedded before the write lock is taken: by far the longest part of a sync of new texts."""

from collections.abc import Iterator
from contextlib import suppress
from itertools import batched

from waygraph.ingest.sync.checks import Draft
from waygraph.registry.embedding.cache import CachedEmbedder
from waygraph.registry.embedding.embedder import Progress, distinct, shift_progress
from waygraph.registry.embedding.texts import TextForms
from waygraph.registry.graph.read import read_state
from waygraph.registry.model.errors import RegistryError
from waygraph.registry.model.identity import replace_surrogates
from waygraph.registry.model.nouns import TextForm
from waygraph.registry.storage.local_registry import LocalRegistry
from waygraph.registry.writer import DEFAULT_TEXTS

BATCH_TEXTS = 2_000
"""The vectors of so many are held at a time; they are kept in the cache."""


def embed_ahead(registry: LocalRegistry, draft: Draft, texts: TextForm | None, progress: Progress | None) -> int:
    """Embeds into the cache what a write of this draft will look for there; returns how many texts were new to it.

    The write itself embeds what is missed, such as texts that an operator changed, and says what stands against it.
    Without a cache nothing is embedded here. `texts`: of a new registry. Raises EmbedderUnavailable, EmbedderRefused.
    """
    state = None
    with suppress(RegistryError):  # the write says why, or mends it
        state = registry.read(read_state, before_write=True) if registry.store.exists else None
    if state and not state.embedder:
        return 0
    embedder = registry.open_embedder(state.embedder_spec if state else "").embedder
    if not isinstance(embedder, CachedEmbedder) or (state and state.embedder != embedder.fingerprint):
        return 0
    form = state.texts if state else texts or DEFAULT_TEXTS
    forms = TextForms(form=form, max_chars=registry.settings.max_embedded_chars)
    new_texts = distinct(map(replace_surrogates, _new_texts(draft, forms)))
    before = embedder.embedded
    with embedder.kept_open():
        for number, some in enumerate(batched(new_texts, BATCH_TEXTS)):
            embedder.embed(some, "document", progress=shift_progress(progress, number * BATCH_TEXTS, len(new_texts)))
    return embedder.embedded - before


def _new_texts(draft: Draft, forms: TextForms) -> Iterator[str]:
    """Of what changed; under another name of the agent all of its tools have other texts."""
    for entry in draft.entries:
        if not (changed_ids := {each.id for each in draft.changed_entities(entry)}):
            continue
        old = draft.old_agents.get(entry.agent.id)
        is_renamed = old is None or old.name != entry.agent.name
        for entity_id, parts in forms.of_agent(entry.agent, entry.tools).items():
            if is_renamed or entity_id in changed_ids or entity_id == entry.agent.id:
                yield from parts.texts
