"""What a sync will do: what a manifest says, against what is held."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from waygraph.ingest.sync.copies import (
    Original,
    alike_names,
    copy_flags,
    is_long,
    may_be_same_server,
    near_originals,
    word_runs,
)
from waygraph.ingest.sync.diff import Compared, Judge, OldTools
from waygraph.ingest.sync.identity import Placement, place
from waygraph.ingest.sync.scanner import Scan
from waygraph.registry.access.visibility import Shows
from waygraph.registry.graph.read import Held, speaks
from waygraph.registry.model.changes import STRICTNESS, AgentEntry, ChangeSet, Claim, Manifest, Policy, plain_key
from waygraph.registry.model.nouns import KNOWN, Agent, Principal, Tool

# Who claims what, as one source sees it: its own claims, those of the others, and whose word counts.


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """`mine`: the source's own claim by agent id. `others`: all other claims, by agent id."""

    source: str
    rank: int
    mine: Mapping[str, Claim]
    others: Mapping[str, Sequence[Claim]]

    @classmethod
    def of(cls, held: Held, manifest: Manifest) -> "Claims":
        mine: dict[str, Claim] = {}
        others: dict[str, list[Claim]] = {}
        for claim in held.claims:
            if claim.source == manifest.source:
                mine[claim.agent_id] = claim
            else:
                others.setdefault(claim.agent_id, []).append(claim)
        return cls(source=manifest.source, rank=manifest.rank, mine=mine, others=others)

    def speaks_for(self, agent_id: str) -> bool:
        """Whether this source's word counts for a shared agent. One that it does not claim yet it claims last."""
        new = Claim(source=self.source, agent_id=agent_id, key="", hash="", since="~")
        return speaks(replace(self.mine.get(agent_id, new), rank=self.rank), self.others.get(agent_id, ()))

    def live_policies(self, held: Held, agent_id: str) -> list[Policy]:
        """Those of the other live sources of an agent, if this one is live too: any of them may speak for it."""
        others = [claim for claim in self.others.get(agent_id, ()) if min(claim.rank, self.rank) > 0]
        return [held.policy_of(claim.source) for claim in others]


def strictest(policies: Sequence[Policy]) -> Policy:
    return max(policies, key=STRICTNESS.index)


def plan(held: Held, manifest: Manifest, scan: Scan | None = None, principal: Principal | None = None) -> ChangeSet:
    """What a sync of this manifest will do to what is held. Pure, apart from reading tools of changed agents.

    `scan`: what a language model found in its texts. `principal`: who sends it, and learns what waits.
    """
    claims = Claims.of(held, manifest)
    return _Plan(held, manifest, claims, place(held, manifest, claims.mine), scan or Scan(), principal).change_set()


@dataclass(frozen=True, slots=True)
class _Plan:
    held: Held
    manifest: Manifest
    claims: Claims
    placement: Placement
    scan: Scan
    principal: Principal | None

    def change_set(self) -> ChangeSet:
        entries, said = self.placement.entries, self.manifest
        released = self._released_agents()
        compared = self._compare(released)
        created_agents, created_tools = compared.created_agents(), compared.created_tools()
        stated_tools = sum(len(entry.tools) for entry in entries if self._is_in_force(entry))
        updated_agents, updated_tools = compared.updated_agents(), compared.updated_tools()
        return ChangeSet(
            source=said.source,
            namespace=said.namespace,
            rank=said.rank,
            policy=self.policy,
            new_terms=self._has_new_terms(),
            written=tuple(compared.written),
            created_agents=tuple(created_agents),
            created_tools=tuple(created_tools),
            updated_agents=tuple(updated_agents),
            updated_tools=tuple(updated_tools),
            removed_agents=tuple(compared.gone),
            removed_tools=tuple(compared.removed_tools()),
            unchanged_agents=len(entries) - len(created_agents) - len(updated_agents),
            unchanged_tools=stated_tools - len(created_tools) - len(updated_tools),
            claims=tuple(self._claims()),
            released=tuple(released),
            renamed=tuple(self.placement.renamed),
            withheld=tuple(self.placement.withheld),
            rejected=(*said.rejected, *self.placement.rejected),
            cut=said.cut,
            operator=tuple(each for each in said.operator if self.held.settings.get(each.agent_id) != each),
            waiting=tuple(each.id for entry in compared.written for each in entry.entities if each.pending),
            flagged=tuple(compared.flagged_texts()),
            log=tuple(compared.log()),
        )

    # -- what is written, and what goes ------------------------------------------------------------

    def _compare(self, released: Iterable[str]) -> Compared:
        stated = [self._with_status(entry) for entry in self.placement.entries if self._must_write(entry)]
        banned = {said.agent_id for said in self.manifest.operator if said.removed} & self.held.agents.keys()
        gone = sorted({agent_id for agent_id in released if agent_id not in self.claims.others} | banned)
        old_tools = self._old_tools(stated, gone)
        others = self._others_alike(stated)
        written = [self._judge_entry(each, stated, old_tools, others) for each in stated]
        return Compared(source=self.manifest.source, held=self.held, written=written, old_tools=old_tools, gone=gone)

    def _must_write(self, entry: AgentEntry) -> bool:
        stored = self.held.agents.get(entry.agent.id)
        if stored is None:
            return True
        same = stored.bundle_hash == entry.bundle_hash and entry.agent.status in (KNOWN, stored.agent.status)
        return not same and self.claims.speaks_for(entry.agent.id)

    def _is_in_force(self, entry: AgentEntry) -> bool:
        """Whether the agent is as the entry says, or will be: another source may speak for it."""
        stored, agent_id = self.held.agents.get(entry.agent.id), entry.agent.id
        return stored is None or stored.bundle_hash == entry.bundle_hash or self.claims.speaks_for(agent_id)

    def _with_status(self, entry: AgentEntry) -> AgentEntry:
        """The entry with the status that is held, unless it tells another itself."""
        stored = self.held.agents.get(entry.agent.id)
        if stored is None or entry.agent.status != KNOWN:
            return entry
        return replace(entry, agent=replace(entry.agent, status=stored.agent.status))

    def _old_tools(self, written: Iterable[AgentEntry], gone: Iterable[str]) -> OldTools:
        """Of agents that will be written or removed."""
        known = [entry.agent.id for entry in written if entry.agent.id in self.held.agents]
        stored = self.held.tools_of([*known, *gone])
        return {agent_id: {item.tool.name: item.tool for item in items} for agent_id, items in stored.items()}

    # -- policy ------------------------------------------------------------------------------------

    @property
    def policy(self) -> Policy:
        return self.manifest.policy or self.held.policy_of(self.manifest.source)

    def _has_new_terms(self) -> bool:
        """Also of a source that was not there: it counts among the sources from now on, whatever it holds."""
        said, known = self.manifest, self.held.sources.get(self.manifest.source)
        if known is None:
            return True
        return (known.namespace, known.rank, known.policy) != (said.namespace, said.rank, self.policy)

    def _judge_entry(
        self,
        entry: AgentEntry,
        stated: Sequence[AgentEntry],
        old_tools: OldTools,
        others: Mapping[str, Sequence[Original]],
    ) -> AgentEntry:
        agent_id = entry.agent.id
        stored = self.held.agents.get(agent_id)
        tools = old_tools.get(agent_id, {})
        return self._judge(entry.agent, stated, others).judge(entry, stored.agent if stored else None, tools)

    def _judge(self, agent: Agent, stated: Sequence[AgentEntry], others: Mapping[str, Sequence[Original]]) -> Judge:
        """Of live sources that share an agent any may speak: the strictest policy among them holds for all.

        Else what one of them holds back would come in by the next one that asks the same server.
        """
        policies = self.claims.live_policies(self.held, agent.id)
        policy = strictest((self.policy, *policies))
        return Judge(
            policy=policy,
            restoring=self.manifest.restores,
            by_address=self.manifest.source.startswith(("http://", "https://")),
            first=self.manifest.source not in self.held.sources and policy not in policies,
            owners_named=partial(self._owners_named, stated),
            scan=self.scan,
            shows=self._shows(stated),
            copy_flags=partial(self._copy_flags, agent, others),
        )

    def _shows(self, stated: Iterable[AgentEntry]) -> Shows | None:
        view, own = self.held.view_for(self.principal), {entry.agent.id for entry in stated}
        return None if view is None else lambda agent_id: agent_id in own or view(agent_id)

    def _copy_flags(
        self, agent: Agent, others: Mapping[str, Sequence[Original]], tool: Tool, held: Tool | None
    ) -> Collection[str]:
        found = (other for name in alike_names(tool.name) for other in others.get(name, ())) if others else ()
        near = ((each, self.held.agents[each.agent_id].agent) for each in near_originals(tool, held, found))
        return tuple(
            copy_flags(tool, (each for each, owner in near if not may_be_same_server(agent.transport, owner.transport)))
        )

    def _others_alike(self, stated: Iterable[AgentEntry]) -> dict[str, list[Original]]:
        """By name: held tools, of agents that this source does not name, whose names are like those that come."""
        own = {*self.claims.mine, *(entry.agent.id for entry in self.placement.entries)}
        if not self.held.agents.keys() - own:
            return {}
        tools = [tool for entry in stated for tool in entry.tools if is_long(tool.description)]
        names = {name for tool in tools for name in alike_names(tool.name)}
        owners = {owner for owners in self.held.owners_named(names).values() for owner in owners} - own
        found: dict[str, list[Original]] = {}
        for items in self.held.tools_of(sorted(owners)).values():
            for item in items:
                if item.tool.name in names and (runs := word_runs(item.tool.description)):
                    found.setdefault(item.tool.name, []).append(Original(item.tool, runs))
        return found

    def _owners_named(self, stated: Sequence[AgentEntry], names: Collection[str]) -> dict[str, set[str]]:
        """The agents that own a tool of one of these names, held ones and those that come."""
        owners = {name: set(agent_ids) for name, agent_ids in self.held.owners_named(names).items()}
        for entry in stated:
            for tool in entry.tools:
                if tool.name in names:
                    owners.setdefault(tool.name, set()).add(entry.agent.id)
        return owners

    # -- claims ------------------------------------------------------------------------------------

    def _claims(self) -> list[Claim]:
        """Claims that are new, under another key, or state something else: also where another source speaks, since that
        one may be forgotten.
        """
        before = {claim.agent_id: (claim.key, claim.hash) for claim in self.claims.mine.values()}
        return [
            Claim(
                source=self.manifest.source, agent_id=e.agent.id, key=e.key, hash=e.bundle_hash, rank=self.manifest.rank
            )
            for e in self.placement.entries
            if before.get(e.agent.id) != (e.key, e.bundle_hash)
        ]

    def _released_agents(self) -> list[str]:
        """Agents this source claimed and lists no more. One whose record is now unreadable is not among them, nor any
        of a source that was read in part; but those are that it says are gone.
        """
        listed = {entry.agent.id for entry in self.placement.entries} | set(self.placement.withheld)
        unreadable = {record.key for record in self.manifest.rejected if record.key}
        unlisted = [claim for claim in self.claims.mine.values() if claim.agent_id not in listed]
        stay = {claim for claim in unlisted if {claim.key, plain_key(claim.key)} & unreadable}
        certain = set() if self.manifest.partial else set(unlisted) - stay
        gone = set(self.manifest.gone)
        return [claim.agent_id for claim in unlisted if claim.key in gone or claim in certain]
