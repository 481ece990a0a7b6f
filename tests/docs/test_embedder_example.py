"""The embedder in docs/library.md is a package that is installed, found and used."""

import tomllib
from pathlib import Path

import numpy as np

from benchmarks.contributed import install, on_path
from tests.docs.pages import DOCS, block
from waygraph.registry.embedding import open_embedder
from waygraph.registry.model.settings import Settings

PAGE = DOCS / "library.md"


def test_the_embedder_on_the_page_works_from_its_package(tmp_path: Path) -> None:
    """Alike are texts of the same letters; one without letters is a row of zeros."""
    module, project = block(PAGE, "python", "def letters("), block(PAGE, "toml", "waygraph.embedders")
    [(group, points)] = tomllib.loads(project)["project"]["entry-points"].items()
    install(tmp_path, "acme", {value.partition(":")[0]: module for value in points.values()}, points, group=group)
    with on_path(tmp_path):
        embedder = open_embedder("acme:plain?deep=1", Settings(), {})
        assert embedder is not None
        one, other, strange, none = embedder.embed(["a table", "Tabela!", "xyz", "7"], "query")
    assert one @ other > one @ strange
    assert np.linalg.norm(none) == 0
    assert embedder.fingerprint == "acme:plain@1"
