"""Holds stdio servers open until it is ended: `starts_servers.py COUNT MARK`. Prints a line when all stand."""

import sys
from contextlib import suppress

import anyio
from anyio.abc import TaskStatus

from tests.upstream.launches import SETTINGS, handshake
from waygraph.ingest.upstream.open import connect


async def hold(mark: str, *, task_status: TaskStatus[None]) -> None:
    async with connect(
        handshake("with_child", "with_daemon", "stays", env={"WAYGRAPH_TEST_MARK": mark}), SETTINGS
    ) as connection:
        await connection.listing()
        task_status.started()
        await anyio.sleep_forever()


async def main(count: int, mark: str) -> None:
    async with anyio.create_task_group() as tasks:
        for _ in range(count):
            await tasks.start(hold, mark)
        print("open", flush=True)  # noqa: T201


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        anyio.run(main, int(sys.argv[1]), sys.argv[2])
