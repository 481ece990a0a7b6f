"""What ends a host's gateway beside the end of its input."""

import signal

import anyio


async def stopped_by_signal(scope: anyio.CancelScope) -> None:
    """Cancels the scope at Ctrl-C or SIGTERM."""
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for _ in signals:
            scope.cancel()
            return
