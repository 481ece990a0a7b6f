"""Asynchronous work, run to its end by code that is not asynchronous."""

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any


def run_whole[T](work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """In this thread, or in one of its own where an event loop runs in this one, as in a notebook."""
    import anyio

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return anyio.run(work)
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(anyio.run, work).result()
