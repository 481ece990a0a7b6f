"""Texts to vectors: the embedder protocol, its adapters, their weights and caches.

`open_embedder` is the way in. Nothing heavy is imported before an embedder is opened.
"""

from waygraph.registry.embedding.embedder import Embedder, Progress, Role
from waygraph.registry.embedding.factory import open_embedder

__all__ = ["Embedder", "Progress", "Role", "open_embedder"]
