"""The search index of the embedded engine at one revision: exact dot products and BM25 over the rows of one file."""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate

import numpy as np
from numpy.typing import NDArray

from waygraph.registry.access.visibility import routable, tools_within
from waygraph.registry.embedding.embedder import Vector
from waygraph.registry.graph.schema import refuse_newer
from waygraph.registry.index.analyser import SATURATION, rarity, saturate
from waygraph.registry.index.call_facts import CallFacts
from waygraph.registry.index.call_graph import CallGraph, NextTools, fits_of, given_names, usable_transitions
from waygraph.registry.index.local.file import (
    NAME,
    NEEDS,
    DamagedIndex,
    Flag,
    IndexFile,
    decode,
    open_to_read,
    unusable,
)
from waygraph.registry.index.local.index_rows import SIGN_ROWS, AgentRecord, Living, Mask, Postings, Rows
from waygraph.registry.index.local.scoring import Codes, Places, best, candidates, nearness
from waygraph.registry.index.search_index import (
    TEXT_LEGS,
    VECTOR_LEGS,
    AnswerCache,
    CallNames,
    Hits,
    Leg,
    LegHits,
    QueryText,
    ReadById,
    Scope,
    Transitions,
    no_hits,
    of_record,
)
from waygraph.registry.model.changes import Claim, Failure, OperatorSettings, SourceSummary
from waygraph.registry.model.errors import IndexOutdated
from waygraph.registry.model.nouns import Agent, EntityKind, Principal, Tool
from waygraph.registry.model.tool_settings import ToolSetting, settings_of_tools
from waygraph.registry.model.tracing import span
from waygraph.registry.model.transitions import Transition, is_tool

if TYPE_CHECKING:
    from waygraph.registry.graph.contents import GraphNoun, NounValue

type Shares = tuple[NDArray[np.int64], NDArray[np.float64], float]

_SCOPES_KEPT, _WORDS_KEPT = 64, 2_048
SIGN_SHARE, SIGN_DEPTHS = 0.05, 50
"""Of a leg's rows as many are looked at again as this share, and at least so many times what is wanted."""
_GATHERED_SHARE = 0.3
"""Of all rows: the codes of more are faster compared where they lie than gathered."""


def once[S, T](method: Callable[[S], T]) -> Callable[[S], T]:
    """Its answer is made by the first who asks, and kept in its object."""

    name = f"{method.__name__}()"

    @wraps(method)
    def keep(self: S) -> T:
        answers: dict[str, T] = vars(self)
        if name not in answers:
            answers[name] = method(self)
        return answers[name]

    return keep


def reads[**P, T](method: Callable[Concatenate["LocalIndex", P], T]) -> Callable[Concatenate["LocalIndex", P], T]:
    """Let it raise RegistryUnusable for damage, IndexOutdated if there is another index by now."""

    @wraps(method)
    def read(self: "LocalIndex", /, *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return method(self, *args, **kwargs)
        except DamagedIndex as exc:
            if self.is_replaced:
                raise IndexOutdated from exc
            self._file.is_damaged = True
            raise unusable(self._folder, exc) from exc

    return read


class LocalIndex:
    """Implements SearchIndex; threads may share it. `follow` gives the index of a later revision of the same rows."""

    @reads
    def __init__(self, file: IndexFile, former: "LocalIndex | None" = None, *, exact: bool = False) -> None:
        """`exact`: every vector is compared, however many there are. Raises RegistryUnusable, StorageFailed."""
        self._file, self._exact = file, exact
        self._folder = file.path.parent
        self._version = file.version  # asked first: at worst the same revision is read twice
        self.header = file.header()
        self.state = self.header.state
        refuse_newer(self._folder, self.state.schema_version)
        self._rows: Rows = former._rows if former else Rows()
        self._masks = AnswerCache["Mask"](_SCOPES_KEPT)
        self._leg_rows = AnswerCache["Places"](_SCOPES_KEPT)
        self._shares = AnswerCache["Shares"](_WORDS_KEPT)
        self._seen = AnswerCache[Mapping[EntityKind, int]](_SCOPES_KEPT)
        self._values: dict[str, Any] = {}

    @classmethod
    def open(cls, folder: Path, *, exact: bool = False) -> "LocalIndex":
        """The current index. Raises RegistryNotFound, RegistryUnusable, StorageFailed."""
        return cls(open_to_read(folder), exact=exact)

    @property
    def is_replaced(self) -> bool:
        """Whether the index must be opened anew: there is another one, or this one is damaged."""
        return self._file.is_replaced

    @property
    @reads
    def is_current(self) -> bool:
        """Whether nothing was written since. Raises as `open`."""
        return not self.is_replaced and self._file.version == self._version

    def follow(self) -> "LocalIndex":
        """The index of now, where it is not replaced: itself, if nothing was written. Raises as `open`."""
        return self if self.is_current else LocalIndex(self._file, self, exact=self._exact)

    @property
    def path(self) -> Path:
        return self._file.path

    @cached_property
    @reads
    def _living(self) -> Living:
        """Read by the first question: who asks only for the state needs no rows."""
        with self._file.lock, self._file.at_once():
            return Living(self._file, self.header, self._rows)

    # -- search ------------------------------------------------------------------------------------

    @reads
    def search(self, legs: Iterable[Leg], vector: Vector | None, text: QueryText, depth: int, scope: Scope) -> Hits:
        """As the protocol says; `vector` is float32 of shape (dimension,)."""
        # In the order asked: what is built from the hits must not depend on the order of a set.
        chosen_legs = tuple(legs)
        hits: dict[Leg, LegHits] = {}
        mask = self._mask(scope)
        vector_legs = [leg for leg in chosen_legs if leg in VECTOR_LEGS]
        if vector is not None and self.state.dimension and vector_legs and self.header.rows:
            with span("vectors"):
                hits |= self._vector_hits(vector_legs, vector, depth, scope)
        similarity = max([float(leg.scores[0]) for leg in hits.values() if len(leg.rows)], default=0.0)
        coverage = 0.0
        with span("words"):
            for leg in chosen_legs:
                if leg in TEXT_LEGS:
                    hits[leg], share = self._text_hits(leg, text.words, depth, mask, scope.principal)
                    coverage = max(coverage, share)
        if "name" in chosen_legs:
            with span("names"):
                hits["name"] = self._name_hits(text.names, mask)
        populations = self._populations(scope.principal)
        return Hits({leg: hits[leg] for leg in chosen_legs if leg in hits}, similarity, coverage, self, populations)

    def _vector_hits(self, legs: Sequence[Leg], vector: Vector, depth: int, scope: Scope) -> dict[Leg, LegHits]:
        rows = {leg: self._rows_of(leg, scope) for leg in legs}
        embeddings = self._rows.embeddings  # once: a later revision may change from floats to codes
        if embeddings is None or not vector.any():
            return dict.fromkeys(legs, no_hits())
        if not isinstance(embeddings, Codes):
            # vecdot, not @: one thread, and a row's score never depends on the rows beside it.
            scores = np.vecdot(embeddings[: self.header.rows], vector)
            return {leg: self._best(rows[leg], scores[rows[leg]], depth) for leg in legs}
        if self.header.rows > SIGN_ROWS and not self._exact:
            distances = embeddings.sign_distances(vector, self.header.rows)
            for leg, places in rows.items():
                count = max(int(len(places) * SIGN_SHARE), depth * SIGN_DEPTHS)
                if count < len(places):
                    is_near = distances <= nearness(distances, places, count)
                    rows[leg] = np.flatnonzero(is_near & self._may_find(leg, scope))
        exact_scores = np.empty(self.header.rows, np.float32)
        read = np.zeros(self.header.rows, np.bool_)

        def exact(places: Places) -> Vector:
            missing = np.unique(places[~read[places]])
            if len(missing):
                exact_scores[missing], read[missing] = np.vecdot(self._rows.vectors(self._file, missing), vector), True
            return exact_scores[places]

        few = sum(map(len, rows.values())) < _GATHERED_SHARE * self.header.rows
        whole = None if few else embeddings.bounds(vector, slice(0, self.header.rows))
        hits = {}
        for leg, places in rows.items():
            about, slack = embeddings.bounds(vector, places) if whole is None else (each[places] for each in whole)
            near = candidates(about, slack, places, depth, exact)
            hits[leg] = self._best(near, exact(near), depth)
        return hits

    def _rows_of(self, leg: Leg, scope: Scope) -> Places:
        """The rows of a vector leg that may be found, and have a direction."""
        if (rows := self._leg_rows.get((leg, scope))) is None:
            rows = self._leg_rows.keep((leg, scope), np.flatnonzero(self._may_find(leg, scope)))
        return rows

    def _may_find(self, leg: Leg, scope: Scope) -> Mask:
        living = self._living
        return self._mask(scope) & living.texts(leg) & living.directed

    def _text_hits(
        self, leg: Leg, words: Sequence[str], depth: int, mask: Mask, principal: Principal | None
    ) -> tuple[LegHits, float]:
        """And how much of the words, by their rarity, the best text holds. Words are counted in what one may see."""
        cache = self._shares
        parts = [cache.get((leg, word, principal)) or self._word_shares(leg, word, principal) for word in words]
        if not parts:
            return no_hits(), 0.0
        holders, shares, most = zip(*parts, strict=True)
        sums = np.bincount(np.concatenate(holders), np.concatenate(shares), self.header.rows)
        rows = sums.nonzero()[0]
        rows = rows[mask[rows]]
        hits = self._best(rows, sums[rows].astype(np.float32), depth)
        return hits, float(hits.scores[0]) / sum(most) if len(hits.rows) else 0.0

    def _word_shares(self, leg: Leg, word: str, principal: Principal | None) -> Shares:
        """The rows whose text holds the word, what it adds to the score of each, and the most that it could add.

        No rows where the principal may find none of them.
        """
        living, postings = self._living, self._postings(word)
        rows = postings.rows[keep := living.texts(leg)[postings.rows]]
        having = self._count_visible(rows, principal)
        rare = rarity(having, self._populations(principal)["agent" if leg == "agent_text" else "tool"])
        shares = saturate(postings.counts[keep], living.kept_lengths[rows], self._mean_lengths[leg]) * rare
        if not having:
            rows, shares = rows[:0], shares[:0]
        return self._shares.keep((leg, word, principal), (rows, shares, SATURATION * rare))

    @cached_property
    def _mean_lengths(self) -> Mapping[Leg, float]:
        """Of the texts of a leg, in terms; 1 where all are empty."""
        living = self._living
        lengths = {leg: living.lengths[living.texts(leg)] for leg in TEXT_LEGS}
        return {leg: float(each.mean() if len(each) else 0) or 1.0 for leg, each in lengths.items()}

    def _postings(self, word: str) -> Postings:
        return self._rows.postings(self._file, word, self.header)

    def _count_visible(self, rows: Places | Mask, principal: Principal | None) -> int:
        """How many of these rows the principal may find at all, whatever it filters."""
        if principal is None:
            return len(rows)
        return int(np.count_nonzero(self._mask(Scope(principal=principal))[rows]))

    def _populations(self, principal: Principal | None) -> Mapping[EntityKind, int]:
        living = self._living
        if principal is None:
            return living.populations
        return self._seen.get(principal) or self._seen.keep(
            principal,
            {
                "agent": self._count_visible(living.profiles, principal),
                "tool": self._count_visible(living.capabilities, principal),
            },
        )

    def _name_hits(self, names: Sequence[str], mask: Mask) -> LegHits:
        ranks = self._living.ranks
        rows_of_names = [self._postings(NAME + name).rows for name in names]
        sequence = [row for rows in rows_of_names for row in sorted(rows[mask[rows]].tolist(), key=ranks.__getitem__)]
        if not sequence:
            return no_hits()
        rows = np.asarray(list(dict.fromkeys(sequence)), np.int64)
        return LegHits(rows, np.ones(len(rows)))

    def _best(self, rows: Places, scores: Vector, depth: int) -> LegHits:
        places = best(scores, self._living.ranks[rows], depth)
        return LegHits(rows[places], scores[places].astype(np.float64))

    def _mask(self, scope: Scope) -> Mask:
        """Which rows may be found: bool of shape (rows,)."""
        if (mask := self._masks.get(scope)) is not None:
            return mask
        living = self._living
        rows = np.flatnonzero(living.profiles)
        if scope == Scope():  # the flags say all
            may_route = living.flags[rows] & (Flag.IS_HIDDEN | Flag.PENDING) == 0
        else:
            agents = self.agents_at(rows)
            may_route = np.asarray([routable(each, scope.principal, scope.filters) for each in agents], np.bool_)
        by_owner = np.zeros(self.header.owners + 1, np.bool_)
        by_owner[living.owner_numbers[rows]] = may_route
        mask = living.alive & by_owner[living.owner_numbers] & (living.flags & Flag.PENDING == 0)
        if (tools := tools_within(scope.filters)) is not None:
            mask &= ~living.tools | np.fromiter(map(tools.__contains__, living.ids), np.bool_, len(mask))
        return self._masks.keep(scope, mask)

    # -- records -----------------------------------------------------------------------------------

    def ids(self, rows: Places) -> list[str]:
        ids: list[str] = self._living.ids[rows].tolist()
        return ids

    def owners(self, rows: Places) -> Places:
        owners: Places = self._living.owner_rows[rows]
        return owners

    def rows(self, ids: Sequence[str]) -> Places:
        return np.asarray([self._tool_row(each) if is_tool(each) else self._agent_rows[each] for each in ids], np.int64)

    def call_facts(self, rows: Places) -> list[CallFacts]:
        return self._rows.call_facts(rows)

    def agents_at(self, rows: Places) -> list[Agent]:
        return [record.agent for record in self._agent_records(rows.tolist())]

    @reads
    def tools_at(self, rows: Places) -> list[Tool]:
        return self._rows.tools(self._file, rows.tolist())

    @reads
    def _agent_records(self, rows: Sequence[int]) -> list[AgentRecord]:
        return self._rows.agent_records(self._file, rows)

    @once
    def agents(self) -> Mapping[str, Agent]:
        return ReadById(self._agent_rows, lambda rows: self.agents_at(np.asarray(rows, np.int64)))

    @once
    def pinned_agents(self) -> Sequence[Agent]:
        rows = np.flatnonzero(self._living.profiles & (self._living.flags & Flag.IS_PINNED > 0))
        return sorted(self.agents_at(rows), key=lambda agent: agent.id)

    def tools(self, ids: Sequence[str]) -> list[Tool]:
        return self.tools_at(np.asarray([self._tool_row(each) for each in ids], np.int64))

    def _tool_row(self, tool_id: str) -> int:
        place = bisect_left(self._tool_ids, tool_id)
        if place == len(self._tool_ids) or self._tool_ids[place] != tool_id:
            raise KeyError(tool_id)
        return int(self._living.tools_by_id[place])

    def tool_ids(self, agent_id: str) -> Sequence[str]:
        first, end = (bisect_left(self._tool_ids, f"{agent_id}{mark}") for mark in "/0")  # 0 comes right after /
        ids: list[str] = self._tool_ids[first:end].tolist()
        return ids

    def tool_ids_of(self, agent_ids: Sequence[str]) -> Mapping[str, Sequence[str]]:
        return {agent_id: self.tool_ids(agent_id) for agent_id in agent_ids}

    @reads
    def vectors_of(self, ids: Sequence[str]) -> Mapping[str, Vector]:
        rows: dict[int, str] = {}
        for each in ids:
            with suppress(KeyError):
                rows[self._tool_row(each) if is_tool(each) else self._agent_rows[each]] = each
        places = np.asarray(sorted(row for row in rows if self._living.directed[row]), np.int64)
        vectors = self._rows.vectors(self._file, places)
        return {rows[row]: vector for row, vector in zip(places.tolist(), vectors, strict=True)}

    @cached_property
    def _tool_ids(self) -> NDArray[np.object_]:
        return self._living.ids[self._living.tools_by_id]

    @cached_property
    def _agent_rows(self) -> Mapping[str, int]:
        """By id, in order of it."""
        rows = np.flatnonzero(self._living.profiles)
        return dict(sorted(zip(self._living.ids[rows].tolist(), rows.tolist(), strict=True)))

    def pending_tools(self) -> Sequence[str]:
        return self._tools_with(Flag.PENDING)

    def tools_with_notices(self) -> Sequence[str]:
        return self._tools_with(Flag.HAS_NOTICES)

    def _tools_with(self, flag: int) -> Sequence[str]:
        living = self._living
        return sorted(living.ids[living.tools & (living.flags & flag > 0)].tolist())

    def owners_called(self, call_name: str) -> Sequence[str]:
        return self._call_names.owners(call_name)

    @cached_property
    def _call_names(self) -> CallNames:
        return CallNames(self._agent_rows)

    @property
    @once
    def transitions(self) -> Transitions | None:
        """Read by the first question that has a history."""
        living = self._living
        rows = self.transition_rows()
        transitions = usable_transitions(rows, {*living.ids[living.alive].tolist()}) if rows else ()
        if not (transitions or np.any(living.tools & (living.flags & Flag.GIVES > 0))):
            return None
        return NextTools(CallGraph(tuple(transitions), self._part("near") or {}, self._fits_of), self.agents())

    @reads
    def _fits_of(self, tool_id: str) -> Mapping[str, float]:
        """The tools that require what this one gives, and how much of what they require."""
        living = self._living
        try:
            row = self._tool_row(tool_id)
        except KeyError:
            return {}
        (tool,) = self._rows.tools(self._file, [row])
        needs = [self._postings(NEEDS + name) for name in given_names(tool.output_schema)]
        pairs = [
            (living.ids[place], count)
            for each in needs
            for place, count in zip(each.rows.tolist(), each.counts.tolist(), strict=True)
            if living.alive[place] and place != row
        ]
        return fits_of(pairs, self.agents())

    def values[T: NounValue](self, noun: "GraphNoun[T]") -> Sequence[T]:
        """Read when they are first asked for."""
        if (values := self._values.get(noun.name)) is None:
            values = self._values[noun.name] = [noun.kind.of_json(each) for each in self._part(noun.name)]
        return values

    def has_values(self, name: str) -> bool:
        """As the protocol says."""
        return bool(self._values.get(name) or self._part(name))

    @reads
    def _part(self, name: str) -> Any:
        """Raises IndexOutdated if it was written twice since this revision, RegistryUnusable."""
        if name not in self.header.parts:
            return []
        if (body := self._file.part(name, self.header)) is not None:
            return decode(body)
        if self._file.header().serial > self.header.serial:
            raise IndexOutdated
        raise DamagedIndex(f"{name} is missing")

    @once
    def sources(self) -> Sequence[SourceSummary]:
        claims: dict[str, list[tuple[str, str]]] = {}
        for agent, its_claims in self._agent_records(list(self._agent_rows.values())):
            for source, key, *_ in its_claims:
                claims.setdefault(source, []).append((key, agent.id))
        return [
            SourceSummary(
                **{
                    **row,
                    "claims": tuple(claims.get(row["name"], ())),
                    "failures": tuple(Failure(**each) for each in row["failures"]),
                }
            )
            for row in self._part("sources")
        ]

    @once
    def settings(self) -> Mapping[str, OperatorSettings]:
        settings = (of_record(OperatorSettings, row) for row in self._part("settings"))
        return {setting.agent_id: setting for setting in settings}

    def stated_tool(self, tool_id: str) -> tuple[Tool, ToolSetting] | None:
        agent_id, _, name = tool_id.partition("/")
        setting = settings_of_tools(self.settings().get(agent_id)).get(name)
        tool = self.source_records().get(tool_id)
        return (tool, setting) if setting is not None and isinstance(tool, Tool) else None

    @once
    def source_records(self) -> Mapping[str, Agent | Tool]:
        """By id, as sources state them: the agents and tools of which operators say what hides a text of theirs."""
        return {
            each["id"]: of_record(Tool, each) if is_tool(each["id"]) else of_record(Agent, each)
            for each in self._part("stated")
        }

    # -- what the graph of this revision holds beside ------------------------------------------------

    def claims(self) -> list[Claim]:
        """In order of source and agent."""
        ranks = {source.name: source.rank for source in self.sources()}
        claims = [
            Claim(
                source=source,
                agent_id=agent.id,
                key=key,
                hash=digest,
                rank=ranks[source],
                since=since,
                revision=revision,
            )
            for agent, its_claims in self._agent_records(list(self._agent_rows.values()))
            for source, key, digest, since, revision in its_claims
        ]
        return sorted(claims, key=lambda each: (each.source, each.agent_id))

    def transition_rows(self) -> list[Transition]:
        return [Transition(**row) for row in self._part("transitions")]

    @reads
    def vector_keys(self) -> dict[str, str]:
        """By id of agent or tool."""
        entities = [decode(self._file.read("agent", agent_id))[1] for agent_id in self._agent_rows]
        return {entity_id: key for each in entities for entity_id, (_, _, key) in each.items()}

    @reads
    def vectors(self) -> dict[str, Vector]:
        """Of all agents and tools that have one, also of zeros: float32 of shape (dimension,), by id."""
        living = self._living
        rows = np.flatnonzero(living.alive & (self._rows.checks[: self.header.rows] != 0))
        return dict(zip(living.ids[rows].tolist(), self._rows.vectors(self._file, rows), strict=True))

    def close(self) -> None:
        self._file.close()
