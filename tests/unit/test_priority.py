"""Threads that step back: on Linux, where each has a priority of its own."""

import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import get_native_id

import pytest

from waygraph.registry.embedding import onnx, open_embedder
from waygraph.registry.model.process import EMBEDDING, WRITING, has_stepped_back, step_back
from waygraph.registry.model.settings import DEFAULT_EMBEDDER, Settings

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="threads have no priority of their own here")


def niceness() -> int:
    return os.getpriority(os.PRIO_PROCESS, get_native_id())


def on_a_thread[T](work: Callable[[], T]) -> T:
    """Of its own, which ends with it: none gets its priority back."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()


def test_a_thread_steps_back_alone() -> None:
    before = niceness()

    def stepped() -> tuple[int, bool]:
        step_back()
        return niceness(), has_stepped_back()

    assert on_a_thread(stepped) == (max(WRITING, before), True)
    assert niceness() == before


@pytest.mark.parametrize("behind", [False, True])
def test_texts_of_a_writer_step_further_back(behind: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: set[int] = set()

    def noted(self: onnx.OnnxEmbedder, text: str) -> object:
        seen.add(niceness())
        return vector(self, text)

    vector = onnx.OnnxEmbedder._vector
    monkeypatch.setattr(onnx.OnnxEmbedder, "_vector", noted)
    monkeypatch.setattr(onnx, "processors", lambda: 2)
    embedder = open_embedder(DEFAULT_EMBEDDER, Settings(), {})
    assert embedder is not None
    before = niceness()

    def embed() -> int:
        if behind:
            step_back()
        return len(embedder.embed(["a letter", "a coin", "a room"], "document"))

    assert on_a_thread(embed) == 3
    assert seen == {EMBEDDING if behind else before}
