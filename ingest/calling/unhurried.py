"""A person is given time to think: what a question takes does not count to the deadline of its call."""

from collections.abc import Mapping
from typing import Any

import anyio

from waygraph.ingest.upstream.host import ANSWER_S, Host, Question


class Unhurried:
    """The host of one call, whose deadline is that of `scope`. Equal where the hosts are."""

    def __init__(self, host: Host, scope: anyio.CancelScope) -> None:
        self._host, self._scope = host, scope
        self.can, self.progress, self.log = host.can, host.progress, host.log
        self.log_level, self.owner = host.log_level, host.owner

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Unhurried) and self._host == other._host

    def __hash__(self) -> int:
        return hash(self._host)

    async def ask(self, question: Question, params: Mapping[str, Any]) -> Mapping[str, Any]:
        asked_at = anyio.current_time()
        self._scope.deadline += ANSWER_S
        try:
            return await self._host.ask(question, params)
        finally:
            self._scope.deadline -= ANSWER_S - (anyio.current_time() - asked_at)
