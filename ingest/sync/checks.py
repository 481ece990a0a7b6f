"""The checks of foreign texts that a sync makes before it takes the write lock, and what they found.

A plan under the lock asks for the same again, and does anew only what another writer changed meanwhile.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

from waygraph.ingest.manifest.suspicion.findings import Findings, OwnedElsewhere, Scorer, examine, text_chars
from waygraph.ingest.sources.mcp_servers import is_made_of_tools
from waygraph.ingest.sync.copies import CopySearch, Original, Seniority
from waygraph.registry.access.visibility import Shows
from waygraph.registry.graph.read import GraphView, RegistryState
from waygraph.registry.model.changes import AgentEntry
from waygraph.registry.model.nouns import Agent, JsonText, Tool

OldTools = Mapping[str, Mapping[str, Tool]]
"""Agent id → tool name → tool as held."""


class Draft(NamedTuple):
    """What a sync will write, and what of the graph its texts are compared with.

    `old_agents` by id, of those that are held. `others`: held tools of other agents whose names are like those of new
    texts; `owners`: the view of the agents that own them.
    """

    entries: Sequence[AgentEntry]
    old_agents: Mapping[str, Agent]
    old_tools: OldTools
    others: Sequence[Original] = ()
    owners: GraphView = GraphView()

    def changed_tools(self, entry: AgentEntry) -> Iterator[Tool]:
        old = self.old_tools.get(entry.agent.id, {})
        return (tool for tool in entry.tools if _differs(tool, old.get(tool.name)))

    def changed_entities(self, entry: AgentEntry) -> Iterator[Agent | Tool]:
        if _differs(entry.agent, self.old_agents.get(entry.agent.id)):
            yield entry.agent
        yield from self.changed_tools(entry)

    def count_changed(self) -> int:
        """Agents and tools with new or other texts."""
        return sum(1 for entry in self.entries for _ in self.changed_entities(entry))


def _differs(new: Agent | Tool, old: Agent | Tool | None) -> bool:
    return old is None or old.content_hash != new.content_hash


MAX_CHECKED_CHARS = 10_000_000
"""Of the new texts of one agent and its tools."""
_LIMIT = f"{MAX_CHECKED_CHARS:,} characters"
_UNREAD = Findings((f"texts: were not looked through, since those that changed of its agent exceed {_LIMIT}",))


class Checks:
    """Of one sync. Of each agent at most MAX_CHECKED_CHARS are read, its short texts first: a padded tool costs only
    its own agent, and there no shorter one. What is not read counts as suspicious.
    """

    def __init__(self, open_scorer: Callable[[RegistryState | None], Scorer | None] = lambda _state: None) -> None:
        """`open_scorer` is called when the first text is to be scored, with the registry's `state`."""
        self.state: RegistryState | None = None
        self._open_scorer, self._copies = open_scorer, CopySearch()
        self._findings: dict[str, Findings] = {}
        self._score_findings: dict[str, Findings] = {}
        self._made_of_tools: dict[tuple[str, ...], bool] = {}

    def run(self, draft: Draft) -> None:
        """All that takes time."""
        for entry in draft.entries:
            self._examine(draft.changed_entities(entry))
            if entry.agent.id in draft.old_agents:
                self.is_made_of_tools(entry.agent, entry.tools)
            old = draft.old_tools.get(entry.agent.id, {})
            for tool in draft.changed_tools(entry):
                self.copy_flags(tool, old.get(tool.name), entry.agent.transport, draft.others)
        self._score([each for entry in draft.entries for each in draft.changed_entities(entry)])

    def flags(
        self, entity: Agent | Tool, elsewhere: OwnedElsewhere, yields: Shows = lambda _owner: False
    ) -> tuple[str, ...]:
        """By the rules, and notices by the score where no rule speaks. `yields`: whether what tells of an agent is a
        notice.
        """
        self._score([entity])
        findings, by_score = self.findings(entity), self._score_findings.get(entity.content_hash, Findings())
        return replace(findings, notices=(*findings.notices, *by_score.notices)).flags(elsewhere, yields)

    def scores_high(self, entity: Agent | Tool) -> bool:
        self._score([entity])
        return self._score_findings.get(entity.content_hash, Findings()).scores_high

    def copy_flags(
        self,
        tool: Tool,
        old: Tool | None,
        transport: JsonText,
        others: Sequence[Original],
        own: Seniority = Seniority(),  # noqa: B008 - frozen
    ) -> tuple[str, ...]:
        return tuple(self._copies.flags(tool, old, transport, others, own)) if others else ()

    def findings(self, entity: Agent | Tool) -> Findings:
        if entity.content_hash not in self._findings:
            self._examine([entity])
        return self._findings[entity.content_hash]

    def names(self, entities: Iterable[Agent | Tool]) -> set[str]:
        """Of other tools, that any of these names."""
        return {name for each in entities for name in self.findings(each).names}

    def is_made_of_tools(self, agent: Agent, tools: Collection[Tool]) -> bool:
        if (key := (agent.description, *(tool.content_hash for tool in tools))) not in self._made_of_tools:
            self._made_of_tools[key] = is_made_of_tools(agent.description, tuple(tools))
        return self._made_of_tools[key]

    @cached_property
    def _scorer(self) -> Scorer | None:
        return self._open_scorer(self.state)

    def _score(self, entities: Iterable[Agent | Tool]) -> None:
        new = {
            each.content_hash: each
            for each in entities
            if each.content_hash not in self._score_findings and not self.findings(each).reasons
        }
        if new and self._scorer:
            self._score_findings |= zip(new, self._scorer.find(list(new.values())), strict=True)

    def _examine(self, entities: Iterable[Agent | Tool]) -> None:
        budget = MAX_CHECKED_CHARS
        for each in sorted(entities, key=text_chars):
            budget -= text_chars(each)
            if each.content_hash not in self._findings:
                self._findings[each.content_hash] = examine(each) if budget >= 0 else _UNREAD
