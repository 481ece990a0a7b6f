"""The least that a routing endpoint must do: `python -m benchmarks.service.bare FOLDER PORT`.

As anyone would write it: FastAPI, one worker, a plain `def` endpoint (which FastAPI runs in its own threads) that
embeds the query, multiplies the matrix and answers with the ids of the best five. No words, no graph, no access
control, no logs, no limits. FOLDER holds the matrix and its ids.
"""

import json
import sys
from pathlib import Path

import numpy as np
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

from waygraph.registry.embedding.protocol import Embedder

MATRIX, IDS = "vectors.npy", "ids.json"


class Asked(BaseModel):
    text: str
    limit: int = 5


def app(folder: Path, embedder: Embedder) -> FastAPI:
    matrix = np.load(folder / MATRIX)
    ids = json.loads((folder / IDS).read_bytes())
    made = FastAPI()

    @made.post("/v1/route")
    def route(asked: Asked) -> dict[str, list[str]]:
        scores = matrix @ embedder.embed([asked.text], "query")[0]
        best = np.argpartition(-scores, asked.limit)[: asked.limit]
        return {"ids": [ids[row] for row in best[np.argsort(-scores[best])]]}

    @made.get("/readyz")
    def ready() -> dict[str, str]:
        return {"status": "ready"}

    return made


def main(folder: str, port: str) -> None:
    from waygraph.registry.embedding.factory import open_embedder
    from waygraph.registry.settings import DEFAULT_EMBEDDER, load_settings

    embedder = open_embedder(DEFAULT_EMBEDDER, load_settings(), {})
    assert embedder is not None
    uvicorn.run(app(Path(folder), embedder), host="127.0.0.1", port=int(port), log_level="warning", access_log=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
