"""What is to be written, beside what is held: what is new, changed or gone, what looks odd, and what the log says."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from waygraph.ingest.change_log import changes_of, removal
from waygraph.ingest.policies import differing
from waygraph.registry.changes import AgentEntry, Change, Flagged, Updated
from waygraph.registry.graph.reading import Held
from waygraph.registry.identity import STATED_OF_AGENT, STATED_OF_TOOL
from waygraph.registry.model import Agent, Tool

OldTools = Mapping[str, Mapping[str, Tool]]
"""Agent id → tool name → tool as held."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """`written`: entries as they will be. `old_tools`: of their agents and of those that go. `gone`: ids of agents."""

    source: str
    held: Held
    written: Sequence[AgentEntry]
    old_tools: OldTools
    gone: Sequence[str]

    def created_agents(self) -> list[str]:
        return [entry.agent.id for entry in self.written if entry.agent.id not in self.held.agents]

    def created_tools(self) -> list[str]:
        return [tool.id for entry in self.written for tool in entry.tools if tool.name not in self._old(entry)]

    def updated_agents(self) -> list[Updated]:
        pairs = ((old, entry.agent) for entry in self.written if (old := self._agent(entry)))
        fields = ((new.id, differing(old, new, (*STATED_OF_AGENT, "status"))) for old, new in pairs)
        return [Updated(id=agent_id, fields=changed) for agent_id, changed in fields if changed]

    def updated_tools(self) -> list[Updated]:
        pairs = ((self._old(entry).get(tool.name), tool) for entry in self.written for tool in entry.tools)
        fields = ((new.id, differing(old, new, STATED_OF_TOOL)) for old, new in pairs if old)
        return [Updated(id=tool_id, fields=changed) for tool_id, changed in fields if changed]

    def removed_tools(self) -> list[str]:
        removed = [tool.id for agent_id in self.gone for tool in self.old_tools.get(agent_id, {}).values()]
        for entry in self.written:
            kept = {tool.name for tool in entry.tools}
            removed += [tool.id for name, tool in self._old(entry).items() if name not in kept]
        return removed

    def flagged(self) -> Iterator[Flagged]:
        """What is new or says something else, and looks suspicious."""
        for entry in self.written:
            old = self._agent(entry)
            hashes = {tool.id: tool.content_hash for tool in self._old(entry).values()}
            hashes[entry.agent.id] = old.content_hash if old else ""
            for each in entry.entities:
                if each.flags and hashes.get(each.id) != each.content_hash:
                    yield Flagged(id=each.id, flags=each.flags)

    def log(self) -> Iterator[Change]:
        """Of agents that were known before."""
        for entry in self.written:
            if old := self._agent(entry):
                yield from changes_of(self.source, old, self._old(entry), entry)
        for agent_id in self.gone:
            yield removal(self.source, self.held.agents[agent_id].agent, self.old_tools.get(agent_id, {}))

    def _agent(self, entry: AgentEntry) -> Agent | None:
        stored = self.held.agents.get(entry.agent.id)
        return stored.agent if stored else None

    def _old(self, entry: AgentEntry) -> Mapping[str, Tool]:
        return self.old_tools.get(entry.agent.id, {})
