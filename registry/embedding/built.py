"""Graphs that were built once and are kept in the cache, one folder a build, never modified."""

import logging
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from waygraph.registry.embedding.model_folder import WEIGHTS, BertShape
from waygraph.registry.machine.atomic import move_into_place

if TYPE_CHECKING:
    from waygraph.registry.embedding.bert_onnx import Precision

logger = logging.getLogger(__name__)

BUILDER_VERSION = 1
"""Grows when `bert_onnx` makes other vectors of the same weights."""
GRAPH = "model.onnx"


def build_key(sha256: str, shape: BertShape, precision: "Precision") -> str:
    return f"{sha256[:24]}-{shape.digest}-{precision}-v{BUILDER_VERSION}"


@contextmanager
def built_graph(weights: Path, shape: BertShape, precision: "Precision", target: Path) -> Iterator[Path]:
    """The graph's file, to be loaded inside the `with`; built if `target`, its folder in the cache, is not there.

    Several processes may build at once: the first to finish is kept. Where the cache cannot be written, the
    graph is built for this process only.
    """
    try:
        if not (target / GRAPH).is_file():
            _build_into_cache(weights, shape, precision, target)
    except OSError as exc:
        logger.warning("%s cannot be written (%s): the model is built anew in every process", target.parent, exc)
    else:
        yield target / GRAPH
        return
    with TemporaryDirectory() as folder:
        yield _build(weights, shape, precision, Path(folder))


def discard(target: Path) -> None:
    """Remove a damaged build."""
    shutil.rmtree(target, ignore_errors=True)


def _build_into_cache(weights: Path, shape: BertShape, precision: "Precision", target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=target.parent, prefix=".building-", ignore_cleanup_errors=True) as folder:
        inner = Path(folder) / target.name
        inner.mkdir()
        _build(weights, shape, precision, inner)
        move_into_place(inner, target)


def _build(weights: Path, shape: BertShape, precision: "Precision", folder: Path) -> Path:
    from waygraph.registry.embedding.bert_onnx import write_bert_onnx

    write_bert_onnx(weights / WEIGHTS, shape, precision, folder / GRAPH)
    return folder / GRAPH
