"""The bare endpoint with Waygraph's own embedder: `python -m benchmarks.service.tuned FOLDER PORT`.

The embedder's session runs each text on one thread, and who starts this lets BLAS have one too: of all that were
tried the fastest under load, and the hardest to be compared with.
"""

import sys
from pathlib import Path

from benchmarks.service.bare import app, serve
from waygraph.registry.embedding.factory import open_embedder
from waygraph.registry.model.settings import DEFAULT_EMBEDDER, load_settings


def main(folder: str, port: str) -> None:
    embedder = open_embedder(DEFAULT_EMBEDDER, load_settings(), {})
    assert embedder is not None
    serve(app(Path(folder), lambda text: embedder.embed([text], "query")[0]), int(port))


if __name__ == "__main__":
    main(*sys.argv[1:])
