"""A person is given time to think: what a question takes does not count to the deadline of its call."""

from collections.abc import Mapping
from typing import Any

import anyio

from waygraph.ingest.upstream.host import ANSWER_S, Host, Question, Through


class Unhurried(Through):
    """The host of one call, whose deadline is that of `scope`. Equal where the hosts are."""

    def __init__(self, host: Host, scope: anyio.CancelScope) -> None:
        super().__init__(host)
        self._scope = scope

    async def ask(self, question: Question, params: Mapping[str, Any]) -> Mapping[str, Any]:
        asked_at = anyio.current_time()
        self._scope.deadline += ANSWER_S
        try:
            return await super().ask(question, params)
        finally:
            self._scope.deadline -= ANSWER_S - (anyio.current_time() - asked_at)
