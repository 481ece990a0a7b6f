"""From the ids that a dataset writes to those of the catalogue as it is held."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from waygraph.registry.evaluation.metrics import Gold, gold_items
from waygraph.registry.model.changes import Manifest
from waygraph.registry.model.errors import InvalidDataset


@dataclass(frozen=True, slots=True)
class Known:
    """The catalogue's agents by the dataset's own keys and by their ids, and its tools by key and name."""

    agents: Mapping[str, str]
    tools: frozenset[str] = field(default=frozenset())

    @classmethod
    def of(cls, catalogue: Manifest) -> "Known":
        """Raises InvalidDataset for a catalogue that could not be read whole: gold would be missed silently."""
        for rejected in catalogue.rejected[:1]:
            raise InvalidDataset(rejected.where, rejected.reason)
        return cls(
            {entry.agent.id: entry.agent.id for entry in catalogue.entries}
            | {entry.key: entry.agent.id for entry in catalogue.entries},
            frozenset(tool.id for entry in catalogue.entries for tool in entry.tools),
        )

    def agents_of(self, items: Iterable[Iterable[str]], where: str) -> Gold:
        """Raises InvalidDataset for an agent that is not in the catalogue."""
        return gold_items([self._agent(key, where) for key in item] for item in items)

    def tools_of(self, items: Iterable[Iterable[str]], where: str) -> Gold:
        """Tools are written `agent/tool`. Raises InvalidDataset for one that is not in the catalogue."""
        return gold_items([self._tool(name, where) for name in item] for item in items)

    def _agent(self, key: str, where: str) -> str:
        if key not in self.agents:
            raise InvalidDataset(where, f"gold agent {key!r} is not in the catalogue")
        return self.agents[key]

    def _tool(self, name: str, where: str) -> str:
        # An agent's key may hold a slash itself, and so may a tool's name.
        parts = name.split("/")
        for at in range(1, len(parts)):
            agent = self.agents.get("/".join(parts[:at]))
            if agent is not None and (found := f"{agent}/{'/'.join(parts[at:])}") in self.tools:
                return found
        raise InvalidDataset(where, f"gold tool {name!r} is not in the catalogue; tools are written agent/tool")


def checksum(paths: Iterable[Path]) -> str:
    """SHA-256 over the names and bytes of files, in the order given."""
    total = sha256()
    for path in paths:
        total.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return total.hexdigest()
