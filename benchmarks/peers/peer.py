"""What a peer is asked to be: something that takes a catalogue in and answers a text with agents."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from waygraph.registry.model.changes import Manifest

READ_TOOLS = 100
"""Tools read where a peer lets it be chosen: enough that five agents own them, and the depth that Waygraph reads."""


class Peer(Protocol):
    """A library behind its own public calls, with one choice of settings.

    Made by `Adapter(vectors, **options)`; importing the adapter imports nothing of the library.
    """

    def ingest(self, catalogue: "Manifest") -> None:
        """Takes everything in, whatever `ask` would otherwise put off to its first call included."""
        ...

    def ask(self, text: str, limit: int) -> list[str]:
        """Ids of at most `limit` agents, best first and without repeats; fewer where the peer gives no more."""
        ...


def owners_of(catalogue: "Manifest") -> dict[str, str]:
    """Tool id → id of the agent that owns it."""
    return {tool.id: entry.agent.id for entry in catalogue.entries for tool in entry.tools}


def distinct_owners(tools: Iterable[str], owners: Mapping[str, str], limit: int) -> list[str]:
    """The first `limit` agents in the order in which their best tools come."""
    return list(dict.fromkeys(owners[tool] for tool in tools))[:limit]


def called_names(catalogue: "Manifest", *, always_prefixed: bool) -> dict[str, str]:
    """Tool id → a name that no other tool has.

    That is `agent__tool`, or the tool's own name where no other has it and it need not be `always_prefixed`.
    """
    tools = [tool for entry in catalogue.entries for tool in entry.tools]
    counts: dict[str, int] = {}
    for tool in tools:
        counts[tool.name] = counts.get(tool.name, 0) + 1
    prefixed = {tool.id: always_prefixed or counts[tool.name] > 1 for tool in tools}
    return {tool.id: tool.call_name if prefixed[tool.id] else tool.name for tool in tools}


def described_tools(catalogue: "Manifest", *, prefixed: bool = False) -> dict[str, str]:
    """Tool id → `name: description`, the text of most examples; `prefixed`: `agent__tool: description`."""
    return {
        tool.id: f"{tool.call_name if prefixed else tool.name}: {tool.description}"
        for entry in catalogue.entries
        for tool in entry.tools
    }
