"""One call of a service as a value: what is sent, and what is made of the answer."""

import json
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from waygraph.registry.errors import InvalidQuery, WaygraphError


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back, whole. `headers` by their names in small letters."""

    status: int
    headers: Mapping[str, str]
    content: bytes

    def json(self) -> Any:
        """Raises ValueError, RecursionError for what is no JSON."""
        return json.loads(self.content)

    def text(self) -> str:
        """Raises ValueError for what is no UTF-8."""
        return self.content.decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Call[T]:
    """`read` makes the answer of a good reply; whatever else it raises, KeyError, TypeError and ValueError mean that
    the reply is none.
    """

    method: str
    path: str
    params: tuple[tuple[str, str], ...] = ()
    json: object = None
    """The body; None: there is none."""
    read: Callable[[Reply], T]
    safe: bool
    """Whether it changes nothing, so that it may be sent twice."""
    slow: bool = False
    """Whether the answer may take as long as a write does."""
    refused: Callable[[str], WaygraphError] = InvalidQuery
    """The error for a request that the service does not take as it is."""

    @property
    def target(self) -> str:
        """Path and query."""
        return f"{self.path}?{urlencode(self.params)}" if self.params else self.path

    @property
    def body(self) -> bytes | None:
        """JSON in ASCII: half of a surrogate pair stays what it is."""
        return None if self.json is None else json.dumps(self.json, separators=(",", ":"), allow_nan=False).encode()


type Talk[T] = Generator[Call[Any], Any, T]
"""Several calls, one after the other: each is sent when it is given out, and its answer or error handed back in."""
