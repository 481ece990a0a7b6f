"""What a sync will do: what a manifest says, against what is held."""

import re
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

from waygraph.ingest.manifest.records import Manifest
from waygraph.ingest.sync.checks import Checks, Draft
from waygraph.ingest.sync.copies import Original, Seniority, alike_names, is_long, server_of
from waygraph.ingest.sync.diff import Comparison, Judge
from waygraph.ingest.sync.identity import Placement, place
from waygraph.registry.access.visibility import MAX_OWNERS, Shows
from waygraph.registry.graph.read import GraphView, NamedTools, Part, overlaid, speaks
from waygraph.registry.model.changes import (
    OF_SERVER,
    STRICTNESS,
    AgentEntry,
    ChangeSet,
    Claim,
    OperatorSettings,
    Policy,
    plain_key,
    server_key,
)
from waygraph.registry.model.identity import call_name, plain_id, tool_id, with_fields
from waygraph.registry.model.nouns import KNOWN, Agent, Principal, Tool, is_approved
from waygraph.registry.model.tool_settings import hide_tools, mark_rejection, rejections_of
from waygraph.registry.operators.rights import is_operator, owner_after


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """`mine`: the source's own claim by agent id. `others`: all other claims, by agent id."""

    source: str
    rank: int
    mine: Mapping[str, Claim]
    others: Mapping[str, Sequence[Claim]]

    @classmethod
    def of(cls, graph: GraphView, manifest: Manifest) -> "Claims":
        mine: dict[str, Claim] = {}
        others: dict[str, list[Claim]] = {}
        for claim in graph.claims:
            if claim.source == manifest.source:
                mine[claim.agent_id] = claim
            else:
                others.setdefault(claim.agent_id, []).append(claim)
        return cls(source=manifest.source, rank=manifest.rank, mine=mine, others=others)

    def speaks_for(self, agent_id: str) -> bool:
        """Whether this source's word counts for a shared agent. One that it does not claim yet it claims last."""
        new = Claim(source=self.source, agent_id=agent_id, key="", hash="", revision=sys.maxsize)
        return speaks(replace(self.mine.get(agent_id, new), rank=self.rank), self.others.get(agent_id, ()))

    def live_policies(self, graph: GraphView, agent_id: str) -> list[Policy]:
        """Those of the other live sources of an agent, if this one is live too: any of them may speak for it."""
        others = [claim for claim in self.others.get(agent_id, ()) if min(claim.rank, self.rank) > 0]
        return [graph.policy_of(claim.source) for claim in others]


MAX_NAMED_OWNERS = 200
"""In one flag, whoever reads it."""


def strictest(policies: Sequence[Policy]) -> Policy:
    return max(policies, key=STRICTNESS.index)


def draft(graph: GraphView, manifest: Manifest, checks: Checks, principal: Principal | None = None) -> Draft:
    """The texts that a sync of this manifest will write, and what they are compared with, for `Checks.run`."""
    plan = _Plan.of(graph, manifest, checks, principal)
    return plan.draft(plan.gone_agents())


def plan(
    graph: GraphView, manifest: Manifest, principal: Principal | None = None, checks: Checks | None = None
) -> ChangeSet:
    """What a sync of this manifest will do to what is held. Pure, apart from reading tools of changed agents.

    `principal`: who sends it, and learns what waits. `checks`: those that ran before over its `draft`.
    """
    return _Plan.of(graph, manifest, checks or Checks(), principal).change_set()


@dataclass(frozen=True)
class _Plan:
    graph: GraphView
    manifest: Manifest
    claims: Claims
    placement: Placement
    checks: Checks
    principal: Principal | None = None

    @classmethod
    def of(cls, graph: GraphView, manifest: Manifest, checks: Checks, principal: Principal | None) -> "_Plan":
        claims = Claims.of(graph, manifest)
        placement = place(graph, manifest, claims.mine, is_apart=not is_operator(principal))
        return cls(graph, manifest, claims, placement, checks, principal=principal)

    def change_set(self) -> ChangeSet:
        entries, manifest = self.placement.entries, self.manifest
        source = self.graph.sources.get(manifest.source)
        comparison = self._compare()
        created_agents, created_tools = comparison.created_agents(), comparison.created_tools()
        updated_agents, updated_tools = comparison.updated_agents(), comparison.updated_tools()
        stated_tools = sum(len(entry.tools) for entry in entries if self._is_in_force(entry))
        return ChangeSet(
            source=manifest.source,
            namespace=manifest.namespace,
            rank=manifest.rank,
            policy=self.policy,
            owner=manifest.owner or owner_after(source, self.principal),
            new_terms=self._has_new_terms(),
            written=tuple(comparison.entries),
            created_agents=tuple(created_agents),
            created_tools=tuple(created_tools),
            updated_agents=tuple(updated_agents),
            updated_tools=tuple(updated_tools),
            removed_agents=tuple(comparison.gone_agents),
            removed_tools=tuple(comparison.removed_tools()),
            unchanged_agents=len(entries) - len(created_agents) - len(updated_agents),
            unchanged_tools=stated_tools - len(created_tools) - len(updated_tools),
            claims=tuple(self._claims()),
            released=tuple(self._released_agents()),
            renamed=tuple(self.placement.renamed),
            withheld=tuple(self.placement.withheld),
            rejected=(*manifest.rejected, *self.placement.rejected),
            cut=manifest.cut,
            operator=tuple(self._settings()),
            waiting=tuple(
                e.id for entry in comparison.entries for e in entry.entities if e.pending and not e.rejection
            ),
            flagged=tuple(comparison.flagged_texts()),
            log=tuple(comparison.log()),
            pause_s=manifest.pause_s if manifest.pause_s is not None else source.pause_s if source else 0,
        )

    # -- what is written, and what goes ------------------------------------------------------------

    def _compare(self) -> Comparison:
        gone_agents = self.gone_agents()
        draft = self.draft(gone_agents)
        self.checks.run(draft)
        owners_meant, owners = self._owners_meant(draft)
        seniorities = _seniorities(self.graph) | _seniorities(owners)
        # The agents that are held and whose ids look like those of new ones.
        new_ids = {entry.agent.id for entry in draft.entries} - draft.old_agents.keys()
        alike = self.graph.part(Part(plain_ids=set(map(plain_id, new_ids)))) if new_ids else GraphView()
        shows = self._shows((self.graph, draft.owners, owners, alike))
        ids = {each.id for entry in draft.entries for each in entry.entities}
        judging = partial(
            Judge,
            restoring=self.manifest.restores,
            by_address=self.manifest.source.startswith(("http://", "https://")),
            checks=self.checks,
            owners_meant=owners_meant,
            shows=shows,
            alike_ids=alike_ids({*ids, *alike.agents}),
        )
        return Comparison(
            source=self.manifest.source,
            graph=self.graph,
            entries=[self._judge_entry(each, draft, seniorities, judging) for each in draft.entries],
            old_tools=draft.old_tools,
            gone_agents=gone_agents,
            shows=shows,
        )

    def draft(self, gone_agents: Sequence[str]) -> Draft:
        entries = [self._with_status(entry) for entry in self.placement.entries if self._must_write(entry)]
        ids = (entry.agent.id for entry in entries)
        old_agents = {agent_id: self.graph.agents[agent_id].agent for agent_id in ids if agent_id in self.graph.agents}
        items_by_agent = self.graph.tools_of([*old_agents, *gone_agents]).items()
        old_tools = {agent_id: {item.tool.name: item.tool for item in items} for agent_id, items in items_by_agent}
        alone = Draft(entries, old_agents, old_tools)
        tools = (tool for entry in entries for tool in alone.changed_tools(entry) if is_long(tool.description))
        alike = self.graph.tools_named({name for tool in tools for name in alike_names(tool.name)})
        return alone._replace(others=list(self._originals(alike)), owners=alike.owners)

    def gone_agents(self) -> list[str]:
        removed_ids = {each.agent_id for each in self.manifest.operator if each.removed} & self.graph.agents.keys()
        return sorted({each for each in self._released_agents() if each not in self.claims.others} | removed_ids)

    def _must_write(self, entry: AgentEntry) -> bool:
        if (item := self.graph.agents.get(entry.agent.id)) is None:
            return True
        same = item.bundle_hash == entry.bundle_hash and entry.agent.status in (KNOWN, item.agent.status)
        return not same and self.claims.speaks_for(entry.agent.id)

    def _is_in_force(self, entry: AgentEntry) -> bool:
        """Whether the agent is as the entry says, or will be: another source may speak for it."""
        item, agent_id = self.graph.agents.get(entry.agent.id), entry.agent.id
        return item is None or item.bundle_hash == entry.bundle_hash or self.claims.speaks_for(agent_id)

    def _with_status(self, entry: AgentEntry) -> AgentEntry:
        """The entry with the status that is held, unless it tells another itself."""
        if (item := self.graph.agents.get(entry.agent.id)) is None or entry.agent.status != KNOWN:
            return entry
        return replace(entry, agent=replace(entry.agent, status=item.agent.status))

    # -- policy ------------------------------------------------------------------------------------

    @cached_property
    def policy(self) -> Policy:
        return self.manifest.policy or self.graph.policy_of(self.manifest.source)

    @cached_property
    def _is_first(self) -> bool:
        """Whether the source was never read before."""
        return not self.graph.was_read(self.manifest.source)

    def _settings(self) -> Iterator[OperatorSettings]:
        """Those that differ: what is restored, and which tools the source keeps from models. Of an agent for which
        others speak, too, only a source of this machine may hide tools.
        """
        if self.manifest.restores or self.manifest.operator:
            yield from (each for each in self.manifest.operator if self.graph.settings.get(each.agent_id) != each)
            return
        entries = {entry.agent.id: entry for entry in self.placement.entries if not entry.unasked}
        for agent_id in sorted({*entries, *self._released_agents()}):
            names = entries[agent_id].hidden_tools if agent_id in entries else ()
            before = self.graph.settings_of(agent_id)
            after = hide_tools(before, self.manifest.source, names)
            if after != before and (self.principal is None or self.claims.speaks_for(agent_id)):
                yield after
        skills = [each for each in entries.values() if OF_SERVER in each.key and each.agent.id not in self.graph.agents]
        if skills:
            yield from self._settings_of_new_skills(skills)

    def _settings_of_new_skills(self, skills: Iterable[AgentEntry]) -> Iterator[OperatorSettings]:
        """A skill that a server lists is shown to those to whom operators show the server."""
        servers = {claim.key: self.graph.settings.get(claim.agent_id) for claim in self.claims.mine.values()}
        for skill in skills:
            server = servers.get(server_key(skill.key))
            if server and skill.agent.id not in self.graph.settings:
                yield OperatorSettings(agent_id=skill.agent.id, visible_to=server.visible_to, hidden=server.hidden)

    def _has_new_terms(self) -> bool:
        """Also of a source that was not there: it counts among the sources from now on, whatever it holds."""
        manifest = self.manifest
        if self._is_first:
            return True
        source = self.graph.sources[manifest.source]
        return (source.namespace, source.rank, source.policy) != (manifest.namespace, manifest.rank, self.policy)

    def _judge_entry(
        self, entry: AgentEntry, draft: Draft, seniorities: Mapping[str, Seniority], judging: Callable[..., Judge]
    ) -> AgentEntry:
        """Of live sources that share an agent any may speak: the strictest policy among them holds for all.

        Else what one of them holds back would come in by the next one that asks the same server.
        """
        agent = entry.agent
        former = seniorities.get(agent.id, Seniority())
        own = former._replace(rank=max(former.rank, self.manifest.rank))

        def yields(other_id: str) -> bool:
            other = seniorities.get(other_id, Seniority())
            return own.is_older(other) or own.outranks(other)

        policies = self.claims.live_policies(self.graph, agent.id)
        policy = strictest((self.policy, *policies))
        judge = judging(
            policy=policy,
            first=self._is_first and policy not in policies,
            yields=yields,
            copy_flags=partial(self.checks.copy_flags, transport=agent.transport, others=draft.others, own=own),
        )
        old, old_tools = draft.old_agents.get(agent.id), draft.old_tools.get(agent.id, {})
        result, settings = judge.judge(entry, old, old_tools), self.graph.settings.get(agent.id)
        tools = tuple(_keep_out(tool, old_tools.get(tool.name), settings) for tool in result.tools)
        return replace(result, agent=_keep_out(result.agent, old, settings), tools=tools)

    def _shows(self, views: Sequence[GraphView]) -> Shows | None:
        """Whether the sender may see an agent of these views, or has it written."""
        if self.principal is None:
            return None
        own = {entry.agent.id for entry in self.placement.entries if self._must_write(entry)}
        return lambda agent_id: agent_id in own or any(view.shows(agent_id, self.principal) for view in views)

    # -- other agents' tools -----------------------------------------------------------------------

    def _originals(self, alike: NamedTools) -> Iterator[Original]:
        """Those tools of agents that this source does not name."""
        own = {*self.claims.mine, *(entry.agent.id for entry in self.placement.entries)}
        tools, owners = alike
        seniorities = _seniorities(owners)
        for tool in (item.tool for item in tools if item.tool.agent_id not in own and is_long(item.tool.description)):
            agent = overlaid(owners.agents[tool.agent_id].agent, owners.settings)
            if server := server_of(agent.transport):
                yield Original(tool, server, seniorities[agent.id], _audience(agent))

    def _owners_meant(self, draft: Draft) -> tuple[Mapping[str, Collection[str]], GraphView]:
        """By each name that a text puts aside or has called: the agents that have a tool of this name, id
        (`agent/tool`) or call name; those that are held, and those that come. The view of the former.
        """
        names = self.checks.names(each for entry in draft.entries for each in draft.changed_entities(entry))
        parts = {part for name in names for part in _last_parts(name)}
        items, graph = self.graph.tools_named(names | parts)
        owners = dict[str, set[str]]()
        for item in items:
            owners.setdefault(item.tool.name, set()).add(item.tool.agent_id)
        for entry in draft.entries if names else ():
            for tool in entry.tools:
                if tool.name in names or tool.name in parts:
                    owners.setdefault(tool.name, set()).add(entry.agent.id)
        whole = dict[str, set[str]]()
        for part in parts & owners.keys():
            for owner in owners[part]:
                for name in (tool_id(owner, part), call_name(owner, part)):
                    whole.setdefault(name, set()).add(owner)
        own = {entry.agent.id: entry.agent for entry in self.placement.entries} if owners else {}
        agents = own | {each: item.agent for each, item in {**self.graph.agents, **graph.agents}.items()}
        settings = {**self.graph.settings, **graph.settings}
        since = {each: senior.since for each, senior in (_seniorities(self.graph) | _seniorities(graph)).items()}
        audiences = {each: _audience(overlaid(agents[each], settings)) for ids in owners.values() for each in ids}
        return {
            name: _first_owners(owners.get(name, set()) | whole.get(name, set()), since, audiences) for name in names
        }, graph

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
        present_ids = {entry.agent.id for entry in self.placement.entries} | set(self.placement.withheld)
        unreadable = {record.key for record in self.manifest.rejected if record.key}
        unreadable |= {entry.key for entry in self.placement.entries if entry.unasked}
        missing_claims = [claim for claim in self.claims.mine.values() if claim.agent_id not in present_ids]
        stay = {
            claim for claim in missing_claims if {claim.key, plain_key(claim.key), server_key(claim.key)} & unreadable
        }
        certain = set() if self.manifest.partial else set(missing_claims) - stay
        gone_keys = set(self.manifest.gone)
        return [claim.agent_id for claim in missing_claims if claim.key in gone_keys or claim in certain]


def _keep_out[E: (Agent, Tool)](new: E, old: E | None, settings: OperatorSettings | None) -> E:
    """What was rejected stays out, also if it was gone since. What comes back with another text waits."""
    is_back = old is None and bool(rejections_of(new, settings)) and new.approved_hash != new.content_hash
    return mark_rejection(with_fields(new, pending=new.pending or is_back), settings)


def alike_ids(ids: Iterable[str]) -> dict[str, list[str]]:
    """By id the others that differ by case, punctuation or blanks alone."""
    groups = dict[str, list[str]]()
    for each in sorted(ids):
        groups.setdefault(plain_id(each), []).append(each)
    pairs = ((each, group[:MAX_NAMED_OWNERS]) for group in groups.values() if len(group) > 1 for each in group)
    return {each: [other for other in others if other != each] for each, others in pairs}


def _first_owners(
    agent_ids: Collection[str], since: Mapping[str, str], audiences: Mapping[str, tuple[str, ...]]
) -> list[str]:
    """Those known longest, a few of each audience. A flag for each of thousands would name thousands, and none of the
    readers is shown more than MAX_OWNERS.
    """
    result, counts = list[str](), Counter[tuple[str, ...]]()
    for agent_id in sorted(agent_ids, key=lambda each: (since.get(each, "~"), each)):
        audience = audiences[agent_id]
        if counts[audience] <= MAX_OWNERS:  # one of them may be the agent that the text is of
            counts[audience] += 1
            result.append(agent_id)
    return result[:MAX_NAMED_OWNERS]


def _seniorities(graph: GraphView) -> dict[str, Seniority]:
    """By agent: since the first of its claims, by the highest rank of them."""
    result = {each: Seniority(is_approved=is_approved(item.agent)) for each, item in graph.agents.items()}
    for claim in graph.claims:
        if (former := result.get(claim.agent_id)) is not None:
            since, rank = min(claim.order, former.since), max(claim.rank, former.rank)
            result[claim.agent_id] = former._replace(since=since, rank=rank)
    return result


def _audience(agent: Agent) -> tuple[str, ...]:
    """The same for agents that the same callers see."""
    return str(agent.hidden), *sorted(agent.visible_to)


def _last_parts(name: str) -> list[str]:
    """What may be the tool's own name in a call name, with a slash or two underscores behind the agent."""
    parts = [name.partition("/")[2]] if "/" in name else []
    parts += [name[at.start() + 2 :] for at in re.finditer("(?=__)", name)]
    return [part for part in parts if part]
