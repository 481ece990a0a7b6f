"""Many supervised servers in one task group; each lives and fails alone."""

from collections.abc import Mapping

import anyio
from anyio.abc import TaskGroup

from waygraph.ingest.upstream.launch import Launch
from waygraph.ingest.watching.server import Supervised, Supervision


class Fleet:
    """Servers by name; a name stands for one launch. All end when the group's tasks are cancelled."""

    def __init__(self, group: TaskGroup, given: Supervision) -> None:
        self._group, self._given = group, given
        self._followed: dict[str, anyio.CancelScope] = {}

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self._followed)

    def follow(self, wanted: Mapping[str, Launch]) -> None:
        """Exactly these from now on: new ones are started, others are stopped."""
        for name in self._followed.keys() - wanted.keys():
            self._followed.pop(name).cancel()
        for name, launch in wanted.items():
            if name not in self._followed:
                scope = self._followed[name] = anyio.CancelScope()
                self._group.start_soon(self._run, name, launch, scope)

    async def _run(self, name: str, launch: Launch, scope: anyio.CancelScope) -> None:
        with scope:
            await Supervised(name, launch, self._given).run()
