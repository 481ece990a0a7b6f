"""What a sync will do: what a manifest says, against what is held."""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

from waygraph.ingest.sync.checks import Checks, Draft, OldTools
from waygraph.ingest.sync.copies import Original, alike_names, is_long, server_of
from waygraph.ingest.sync.diff import Compared, Judge
from waygraph.ingest.sync.identity import Placement, place
from waygraph.ingest.sync.scanner import Scan
from waygraph.registry.access.visibility import MAX_OWNERS, Shows
from waygraph.registry.graph.read import GraphView, overlaid, speaks
from waygraph.registry.model.changes import STRICTNESS, AgentEntry, ChangeSet, Claim, Manifest, Policy, plain_key
from waygraph.registry.model.identity import call_name, tool_id
from waygraph.registry.model.nouns import KNOWN, Agent, Principal

# Who claims what, as one source sees it: its own claims, those of the others, and whose word counts.


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """`mine`: the source's own claim by agent id. `others`: all other claims, by agent id."""

    source: str
    rank: int
    mine: Mapping[str, Claim]
    others: Mapping[str, Sequence[Claim]]

    @classmethod
    def of(cls, held: GraphView, manifest: Manifest) -> "Claims":
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

    def live_policies(self, held: GraphView, agent_id: str) -> list[Policy]:
        """Those of the other live sources of an agent, if this one is live too: any of them may speak for it."""
        others = [claim for claim in self.others.get(agent_id, ()) if min(claim.rank, self.rank) > 0]
        return [held.policy_of(claim.source) for claim in others]


MAX_NAMED_OWNERS = 200
"""In one flag, whoever reads it."""


def strictest(policies: Sequence[Policy]) -> Policy:
    return max(policies, key=STRICTNESS.index)


def draft(held: GraphView, manifest: Manifest) -> Draft:
    """The texts that a sync of this manifest will write, and what they are compared with, for `Checks.run`."""
    plan = _Plan.of(held, manifest, Checks())
    return plan.draft(plan.gone_agents())


def plan(
    held: GraphView,
    manifest: Manifest,
    scan: Scan | None = None,
    principal: Principal | None = None,
    checks: Checks | None = None,
) -> ChangeSet:
    """What a sync of this manifest will do to what is held. Pure, apart from reading tools of changed agents.

    `scan`: what a language model found in its texts. `principal`: who sends it, and learns what waits. `checks`: those
    that ran before over its `draft`.
    """
    return replace(_Plan.of(held, manifest, checks or Checks()), scan=scan or Scan(), principal=principal).change_set()


@dataclass(frozen=True)
class _Plan:
    held: GraphView
    manifest: Manifest
    claims: Claims
    placement: Placement
    checks: Checks
    scan: Scan = field(default_factory=Scan)
    principal: Principal | None = None

    @classmethod
    def of(cls, held: GraphView, manifest: Manifest, checks: Checks) -> "_Plan":
        claims = Claims.of(held, manifest)
        return cls(held, manifest, claims, place(held, manifest, claims.mine), checks)

    def change_set(self) -> ChangeSet:
        entries, said = self.placement.entries, self.manifest
        released = self._released_agents()
        compared = self._compare()
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
            pause_s=self._pause_s(),
        )

    # -- what is written, and what goes ------------------------------------------------------------

    def _compare(self) -> Compared:
        gone = self.gone_agents()
        draft = self.draft(gone)
        self.checks.run(draft)
        owners = self._owners_meant(draft)
        return Compared(
            source=self.manifest.source,
            held=self.held,
            written=[self._judge_entry(each, draft, owners) for each in draft.stated],
            old_tools=draft.old_tools,
            gone=gone,
        )

    def draft(self, gone: Sequence[str]) -> Draft:
        stated = [self._with_status(entry) for entry in self.placement.entries if self._must_write(entry)]
        ids = (entry.agent.id for entry in stated)
        old_agents = {agent_id: self.held.agents[agent_id].agent for agent_id in ids if agent_id in self.held.agents}
        alone = Draft(stated, old_agents, self._old_tools([*old_agents, *gone]), ())
        return alone._replace(others=list(self._others_alike(alone)))

    def gone_agents(self) -> list[str]:
        banned = {said.agent_id for said in self.manifest.operator if said.removed} & self.held.agents.keys()
        return sorted({each for each in self._released_agents() if each not in self.claims.others} | banned)

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

    def _old_tools(self, agent_ids: Iterable[str]) -> OldTools:
        stored = self.held.tools_of(agent_ids)
        return {agent_id: {item.tool.name: item.tool for item in items} for agent_id, items in stored.items()}

    # -- policy ------------------------------------------------------------------------------------

    @property
    def policy(self) -> Policy:
        return self.manifest.policy or self.held.policy_of(self.manifest.source)

    def _pause_s(self) -> int:
        said, known = self.manifest, self.held.sources.get(self.manifest.source)
        return said.pause_s if said.pause_s is not None else known.pause_s if known else 0

    def _has_new_terms(self) -> bool:
        """Also of a source that was not there: it counts among the sources from now on, whatever it holds."""
        said = self.manifest
        if not self.held.was_read(said.source):
            return True
        known = self.held.sources[said.source]
        return (known.namespace, known.rank, known.policy) != (said.namespace, said.rank, self.policy)

    def _judge_entry(self, entry: AgentEntry, draft: Draft, owners: Mapping[str, Collection[str]]) -> AgentEntry:
        agent_id = entry.agent.id
        judge = self._judge(entry.agent, draft, owners)
        return judge.judge(entry, draft.old_agents.get(agent_id), draft.old_tools.get(agent_id, {}))

    def _judge(self, agent: Agent, draft: Draft, owners: Mapping[str, Collection[str]]) -> Judge:
        """Of live sources that share an agent any may speak: the strictest policy among them holds for all.

        Else what one of them holds back would come in by the next one that asks the same server.
        """
        policies = self.claims.live_policies(self.held, agent.id)
        policy = strictest((self.policy, *policies))
        return Judge(
            policy=policy,
            restoring=self.manifest.restores,
            by_address=self.manifest.source.startswith(("http://", "https://")),
            first=not self.held.was_read(self.manifest.source) and policy not in policies,
            checks=self.checks,
            owners_meant=owners,
            scan=self.scan,
            shows=self._shows,
            copy_flags=partial(self.checks.copies.flags, transport=agent.transport, others=draft.others),
        )

    @cached_property
    def _shows(self) -> Shows | None:
        view = self.held.view_for(self.principal)
        own = {entry.agent.id for entry in self.placement.entries if self._must_write(entry)}
        return None if view is None else lambda agent_id: agent_id in own or view(agent_id)

    # -- other agents' tools -----------------------------------------------------------------------

    def _others_alike(self, draft: Draft) -> Iterator[Original]:
        """Tools in the graph, of agents that this source does not name, whose names are like those of new texts."""
        own = {*self.claims.mine, *(entry.agent.id for entry in self.placement.entries)}
        if not self.held.agents.keys() - own:
            return
        tools = (tool for entry in draft.stated for tool in draft.changed_tools(entry) if is_long(tool.description))
        names = {name for tool in tools for name in alike_names(tool.name)}
        owners = {owner for owners in self.held.owners_named(names).values() for owner in owners} - own
        for agent_id, items in self.held.tools_of(sorted(owners)).items():
            if server := server_of(self.held.agents[agent_id].agent.transport):
                since, audience = self._since.get(agent_id, ""), self._audience(agent_id)
                found = (item.tool for item in items if item.tool.name in names and is_long(item.tool.description))
                yield from (Original(tool, server, since, audience) for tool in found)

    def _owners_meant(self, draft: Draft) -> Mapping[str, Collection[str]]:
        """By each name that a text puts aside or has called: the agents that have a tool of this name, id
        (`agent/tool`) or call name; those that are held, and those that come.
        """
        names = self.checks.names(each for entry in draft.stated for each in draft.changed_entities(entry))
        parts = {part for name in names for part in _last_parts(name)}
        owners = {name: set(ids) for name, ids in self.held.owners_named(names | parts).items()} if names else {}
        for entry in draft.stated if names else ():
            for tool in entry.tools:
                if tool.name in names or tool.name in parts:
                    owners.setdefault(tool.name, set()).add(entry.agent.id)
        whole = dict[str, set[str]]()
        for part in parts & owners.keys():
            for owner in owners[part]:
                for name in (tool_id(owner, part), call_name(owner, part)):
                    whole.setdefault(name, set()).add(owner)
        return {name: self._first_owners(owners.get(name, set()) | whole.get(name, set())) for name in names}

    def _first_owners(self, agent_ids: Collection[str]) -> list[str]:
        """Those known longest, a few of each audience. A flag for each of thousands would name thousands, and none of
        the readers is shown more than MAX_OWNERS.
        """
        kept, counts = list[str](), Counter[tuple[str, ...]]()
        for agent_id in sorted(agent_ids, key=lambda each: (self._since.get(each, "~"), each)):
            audience = self._audience(agent_id)
            if counts[audience] <= MAX_OWNERS:  # one of them may be the agent that the text is of
                counts[audience] += 1
                kept.append(agent_id)
        return kept[:MAX_NAMED_OWNERS]

    @cached_property
    def _since(self) -> Mapping[str, str]:
        """By agent: when the first of its claims was made."""
        first = dict[str, str]()
        for claim in self.held.claims:
            first[claim.agent_id] = min(claim.since, first.get(claim.agent_id, "~"))
        return first

    def _audience(self, agent_id: str) -> tuple[str, ...]:
        """The same for agents that the same callers see."""
        stored = self.held.agents.get(agent_id)
        agent = overlaid(stored.agent if stored else self._stated_agents[agent_id], self.held.settings)
        return str(agent.hidden), *sorted(agent.visible_to)

    @cached_property
    def _stated_agents(self) -> Mapping[str, Agent]:
        return {entry.agent.id: entry.agent for entry in self.placement.entries}

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


def _last_parts(name: str) -> list[str]:
    """What may be the tool's own name in `agent/tool` or `agent__tool`."""
    parts = [name.partition("/")[2]] if "/" in name else []
    parts += [name[at.start() + 2 :] for at in re.finditer("(?=__)", name)]
    return [part for part in parts if part]
