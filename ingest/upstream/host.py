"""The side that asked for a call of a tool, as whoever runs it sees it: questions, progress and logs go there."""

from collections.abc import Mapping
from typing import Any, Literal, Protocol, get_args

Question = Literal["elicitation/create", "sampling/createMessage", "roots/list"]
"""What a server may ask its client for while it runs a tool, by MCP's name of the method."""
QUESTIONS: tuple[Question, ...] = get_args(Question)

Result = Mapping[str, Any]
"""A `CallToolResult` as JSON: `content`, `structuredContent`, `isError`, `_meta`, and whatever else the server said."""


class Host(Protocol):
    """The side that asked for the call, for as long as the call runs. It may be gone: then nothing reaches it.

    Hosts that are equal are one: what a server says without naming its call goes to a host only if all calls that are
    under way there are that host's.
    """

    @property
    def owner(self) -> object:
        """Whose it is. Equal for hosts of which nobody can tell whether they are one; of others what comes late, after
        the answer to its call, is kept away.
        """
        ...

    @property
    def log_level(self) -> str:
        """From which of MCP's levels on it wants to hear what tools log; empty: it has not said."""
        ...

    def can(self, question: Question) -> bool:
        """Whether it takes such questions."""
        ...

    async def ask(self, question: Question, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Its answer, as the wire has it. Raises NotAnswered."""
        ...

    async def progress(self, done: float, total: float | None, message: str | None) -> None: ...

    async def log(self, level: str, data: object, logger: str | None) -> None:
        """`level` is one of MCP's."""
        ...


ANSWER_S = 300.0
"""So long may a person, or a model, take for an answer. It does not count to the call's own time."""


class Through:
    """A host as somebody between sees it, who has a word in what is asked. Whatever differs is of a kind of its own."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self.can, self.progress, self.log = host.can, host.progress, host.log
        self.log_level, self.owner = host.log_level, host.owner

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and isinstance(other, Through) and self._host == other._host

    def __hash__(self) -> int:
        return hash(self._host)

    async def ask(self, question: Question, params: Mapping[str, Any]) -> Mapping[str, Any]:
        return await self._host.ask(question, params)


class NotAnswered(Exception):
    """The host does not answer a question: it cannot, it is gone, or a person refused. The text says which."""


class Deaf:
    """A Host that takes no questions and hears nothing."""

    log_level = ""

    @property
    def owner(self) -> object:
        return self

    def can(self, question: Question) -> bool:  # noqa: ARG002
        return False

    async def ask(self, question: Question, params: Mapping[str, Any]) -> Mapping[str, Any]:  # noqa: ARG002
        raise NotAnswered("the host takes no questions of servers")

    async def progress(self, done: float, total: float | None, message: str | None) -> None: ...

    async def log(self, level: str, data: object, logger: str | None) -> None: ...
