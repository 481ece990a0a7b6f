"""What becomes of a source's words under its policy: which of them wait for approval, and which look suspicious."""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from waygraph.ingest.manifest.descriptions import is_made_of_tools
from waygraph.ingest.manifest.poisoning import OwnedElsewhere, agent_flags, tool_flags
from waygraph.registry.model.changes import TELLING_OF_AGENT, TELLING_OF_TOOL, AgentEntry, Policy
from waygraph.registry.model.identity import STATED_OF_AGENT, STATED_OF_TOOL, call_name, tool_id
from waygraph.registry.model.nouns import KNOWN, Agent, Tool

OwnersNamed = Callable[[Collection[str]], Mapping[str, Collection[str]]]
"""Names of tools → of each name that some tool has, the agents that own one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """Weighs entries that are to be written. `first`: the source was never read before; `restoring`: it is an export's,
    which says itself what of it waits.
    """

    policy: Policy
    first: bool
    restoring: bool = False
    owners_named: OwnersNamed = field(repr=False)

    def judge(self, entry: AgentEntry, held: Agent | None, tools: Mapping[str, Tool]) -> AgentEntry:
        """The entry with what is known of its approval; `tools` are the agent's as held, by name."""
        own = {tool.name for tool in entry.tools}

        def owned_elsewhere(names: Collection[str]) -> dict[str, set[str]]:
            owners = self._owners_meant([name for name in names if name not in own])
            return {name: found - {entry.agent.id} for name, found in owners.items()}

        judged = tuple(self._tool(tool, tools.get(tool.name), owned_elsewhere) for tool in entry.tools)
        return replace(entry, agent=self._agent(entry.agent, held, judged, owned_elsewhere), tools=judged)

    def _owners_meant(self, names: Collection[str]) -> dict[str, set[str]]:
        """The agents of which a tool is meant by each name: its own, its id (`agent/tool`) or its call name."""
        parts = {name: _last_parts(name) for name in names}
        owners = self.owners_named({*names, *(part for found in parts.values() for part in found)})
        return {
            name: {*owners.get(name, ())}
            | {
                owner
                for part in found
                for owner in owners.get(part, ())
                if name in (tool_id(owner, part), call_name(owner, part))
            }
            for name, found in parts.items()
        }

    def _agent(self, said: Agent, held: Agent | None, tools: Collection[Tool], elsewhere: OwnedElsewhere) -> Agent:
        fields = differing(held, said, STATED_OF_AGENT) if held else ()
        if held and not fields:
            return replace(said, **_standing(held))
        if fields == ("description",) and not any(tool.pending for tool in tools):
            # What tools say was judged with them.
            fields = () if is_made_of_tools(said.description, tuple(tools)) else fields
        changed = bool(fields) and self.policy == "strict"
        return replace(
            said,
            **self._weigh(said, held, changed=changed, telling=bool(TELLING_OF_AGENT & set(fields))),
            flags=agent_flags(said, elsewhere),
        )

    def _tool(self, said: Tool, held: Tool | None, elsewhere: OwnedElsewhere) -> Tool:
        fields = differing(held, said, STATED_OF_TOOL) if held else ()
        status = held.status if held and said.status == KNOWN else said.status
        if held and not fields:
            return replace(said, **_standing(held), status=status)
        telling = bool(TELLING_OF_TOOL & set(fields))
        changed = bool(fields) and (self.policy == "strict" or (self.policy == "hold" and telling and not self.first))
        return replace(
            said,
            **self._weigh(said, held, changed=changed, telling=telling),
            flags=tool_flags(said, elsewhere),
            status=status,
        )

    def _weigh(self, said: Agent | Tool, held: Agent | Tool | None, *, changed: bool, telling: bool) -> dict[str, Any]:
        """Whether it waits. What was approved word for word once does not, nor what only has other tags since."""
        is_new = held is None and not self.restoring
        added = is_new and (self.policy == "strict" or (self.policy == "hold" and not self.first))
        approved = held.approved_hash if held else said.approved_hash
        if held and not (telling or changed) and approved == held.content_hash:
            approved = said.content_hash
        waits = added or changed or said.pending or (held is not None and held.pending)
        return {"pending": waits and approved != said.content_hash, "approved_hash": approved}


def _standing(held: Agent | Tool) -> dict[str, Any]:
    """What stays with words that stay."""
    return {"pending": held.pending, "flags": held.flags, "approved_hash": held.approved_hash}


def differing(old: Agent | Tool, new: Agent | Tool, names: Collection[str]) -> tuple[str, ...]:
    """The fields that say something else."""
    return tuple(name for name in names if _plain(name, old) != _plain(name, new))


def _plain(name: str, of: Agent | Tool) -> object:
    """The order of tags says nothing, that of questions which come first."""
    value = getattr(of, name)
    return tuple(sorted(value)) if isinstance(value, tuple) and name != "questions" else value


def _last_parts(name: str) -> list[str]:
    """What may be the tool's own name in `agent/tool` or `agent__tool`."""
    parts = [name.partition("/")[2]] if "/" in name else []
    parts += [name[at.start() + 2 :] for at in re.finditer("(?=__)", name)]
    return [part for part in parts if part]
