"""What is remembered of a host between its requests: which tools it was sent, how loud it wants logs.

A session is a connection of the handshake era, or a stdio process. A host of the modern era over HTTP has none: each of
its requests stands alone.
"""

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

MAX_KNOWN = 4_096
"""So many tools are remembered of a session; the least recently sent go."""
_OF_SUMMARY = "~"


@dataclass(slots=True)
class Session:
    """`log_level` empty: all that tools log."""

    log_level: str = ""
    _sent: OrderedDict[str, str] = field(default_factory=OrderedDict)
    """Of each tool, by call name, the version that was sent; `~` behind it: its summary only."""

    @property
    def known(self) -> Mapping[str, str]:
        """Versions by call name, as `FindAsked.known` takes them."""
        return self._sent

    def sent(self, tools: Iterable[Mapping[str, Any]]) -> None:
        """These tools have just been sent, as an answer of find_tools has them."""
        for tool in tools:
            name, version = str(tool["name"]), str(tool["version"])
            before = self._sent.pop(name, "")
            # Of a tool that was sent whole the summary tells nothing more.
            self._sent[name] = before if before == version.removesuffix(_OF_SUMMARY) else version
        while len(self._sent) > MAX_KNOWN:
            self._sent.popitem(last=False)
