"""A routing endpoint as one would first write it: `bare_endpoint FOLDER PORT GRAPH TOKENIZER`, run as a module.

FastAPI, one worker, a plain `def` endpoint (which FastAPI runs in its own threads) that embeds the query, multiplies
the matrix and answers with the ids of the best five. No words, no graph, no access control, no logs, no limits. Every
library is as it comes: onnxruntime and numpy's BLAS choose their threads themselves. It imports nothing of Waygraph.
FOLDER holds the matrix and its ids; GRAPH and TOKENIZER are the model's files.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
import onnxruntime
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel
from tokenizers import Tokenizer

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Vector = NDArray[np.float32]

MATRIX, IDS = "vectors.npy", "ids.json"


class RouteRequest(BaseModel):
    text: str
    limit: int = 5


def app(folder: Path, embed: "Callable[[str], Vector]") -> FastAPI:
    matrix = np.load(folder / MATRIX)
    ids = json.loads((folder / IDS).read_bytes())
    application = FastAPI()

    @application.post("/v1/route")
    def route(request: RouteRequest) -> dict[str, list[str]]:
        scores = matrix @ embed(request.text)
        best = np.argpartition(-scores, request.limit)[: request.limit]
        return {"ids": [ids[row] for row in best[np.argsort(-scores[best])]]}

    @application.get("/readyz")
    def ready() -> dict[str, str]:
        return {"status": "ready"}

    return application


def load_embedder(graph: str, vocabulary: str) -> "Callable[[str], Vector]":
    session = onnxruntime.InferenceSession(graph)
    tokenizer = Tokenizer.from_file(vocabulary)
    tokenizer.no_padding()  # the graph takes one text and no mask

    def embed(text: str) -> "Vector":
        tokens = np.array([tokenizer.encode(text).ids])
        vectors = cast("NDArray[np.float32]", session.run(None, {"input_ids": tokens})[0])
        vector: Vector = vectors[0]
        return vector

    return embed


def main(folder: str, port: str, graph: str, vocabulary: str) -> None:
    application = app(Path(folder), load_embedder(graph, vocabulary))
    uvicorn.run(application, host="127.0.0.1", port=int(port), log_level="warning", access_log=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
