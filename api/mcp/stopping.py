"""What ends a host's gateway: the end of its input, a moment later, or a signal."""

import signal

import anyio

LAST_S = 1.5
"""So long may what runs go on once its host has closed its side."""


async def stopped_by_signal(scope: anyio.CancelScope) -> None:
    """Cancels the scope at Ctrl-C or SIGTERM."""
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for _ in signals:
            scope.cancel()
            return
