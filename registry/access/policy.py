"""What may be called, asked for or denied: one rule, applied before any tool is run, whichever way the call came.

What a tool says of itself (MCP's annotations) comes from its source and is a hint, so it can only make a rule stricter
than an operator's, never milder: where an operator names a tool, that holds.
"""

import json
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from fnmatch import translate
from functools import cached_property, lru_cache
from shlex import quote
from threading import Lock
from typing import Any, Literal, cast

from waygraph.registry.access.authenticator import RateLimit
from waygraph.registry.model.changes import OF_SERVER
from waygraph.registry.model.clock import now
from waygraph.registry.model.errors import BudgetSpent, InvalidSetting, TooManyRequests, nearest
from waygraph.registry.model.files import as_written
from waygraph.registry.model.foreign_text import toml_document
from waygraph.registry.model.identity import digest
from waygraph.registry.model.nouns import Agent, Principal, Tool, is_doubtful, parse_field
from waygraph.registry.model.numbers import FAR_S, read_number
from waygraph.registry.model.process import remember

Verdict = Literal["allow", "ask", "deny"]
"""May run; runs if a person says yes each time; never runs."""
VERDICTS: tuple[Verdict, ...] = ("allow", "ask", "deny")
"""The mildest first."""
Treatment = Literal["allow", "by_name", "ask", "deny"]
"""Of tools that may destroy, beside a verdict: `by_name` runs them, though never for a request that only resembles."""
DESTRUCTIVE: tuple[Treatment, ...] = ("by_name", "ask", "deny")
UNANNOTATED: tuple[Treatment, ...] = ("allow", *DESTRUCTIVE)

_CACHE_SIZE = 8_192
"""Of so many tools is it kept which rule names them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """`reason`: one sentence, for a person and for a model: what stands against the call and what to do.

    `needs_name`: it would not be denied if the tool were called by its exact name. `cost`: of the call, in budgets.
    """

    verdict: Verdict
    reason: str = ""
    needs_name: bool = False
    cost: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What an operator says of some tools.

    `match` is a glob: with a `/` over tools' ids (`github/delete_*`), else over agents' ids, and with a `__` over
    agents' ids before it and tools' names behind it. Call names are matched too, by a rule that allows only as a whole:
    they are shortened, and the begin of one may be another agent's. `source`
    is a glob over the names of the sources that claim the agent. Both given, both must fit. With `groups` it holds for
    callers in one of them only: not for who calls without any, such as the machine's own user.
    """

    verdict: Verdict
    match: str = "*"
    source: str = ""
    groups: frozenset[str] = frozenset()
    reason: str = ""
    cost: float = 1.0
    """Of a call, in the budgets of the policy."""


@dataclass(frozen=True, kw_only=True)
class CallPolicy:
    """The first rule that fits holds. What none names is treated by the strictest of what else applies to it.

    `destructive`: tools that say that they destroy. `unannotated`: those that do not say whether they do, which MCP
    takes for destructive. `strict`: `find_tools` and `route_agents` withhold answers that may not fit.

    `calls_per_day`: of each caller, `calls_per_session` of each session, as the sum of their costs, and `repeats` of
    one call with the same arguments at once, a tenth of them a minute; 0: no limit. `fails_over`: where a server fails,
    a near copy of its tool that reads is called in its place.
    """

    rules: tuple[Rule, ...] = ()
    default: Verdict = "allow"
    destructive: Treatment = "by_name"
    unannotated: Treatment = "by_name"
    strict: bool = False
    calls_per_day: float = 0.0
    calls_per_session: float = 0.0
    repeats: float = 100.0
    fails_over: bool = False

    @property
    def names_sources(self) -> bool:
        """Whether `sources` of an agent matter to it."""
        return any(rule.source for rule in self.rules)

    def rule_for(
        self, agent: Agent, tool: Tool, principal: Principal | None = None, sources: frozenset[str] = frozenset()
    ) -> Rule | None:
        """The first that fits; the same tool is looked for once."""
        groups = frozenset(principal.groups) if principal else frozenset()
        server = agent.id.partition(_OF_SERVER)[0] if agent.kind == "skill" and _OF_SERVER in agent.id else ""
        return self._first((agent.id, server), tool.id, tool.call_name, groups, sources) if self.rules else None

    @cached_property
    def _first(self) -> "Callable[[tuple[str, str], str, str, frozenset[str], frozenset[str]], Rule | None]":
        patterns = [_CompiledRule.of(rule) for rule in self.rules]

        @lru_cache(maxsize=_CACHE_SIZE)
        def first(
            owners: tuple[str, str], tool_id: str, call_name: str, groups: frozenset[str], sources: frozenset[str]
        ) -> Rule | None:
            agent_id, server = owners
            of_server = f"{server}/{tool_id.partition('/')[2]}"
            for each in patterns:
                is_named = each.names(agent_id, tool_id, call_name)
                if server and each.rule.verdict != "allow":  # an id may look as if it were a server's
                    is_named = is_named or each.names(server, of_server, call_name)
                if is_named and each.holds(groups, sources):
                    return each.rule
            return None

        return first


_OF_SERVER = OF_SERVER.replace("/", ".")
"""In the id of a skill that a server lists, as in its key. What is denied of the server is denied of it."""
MOST_REPEATED = 1_000
"""So many calls of a caller are told apart, to count how often each is repeated."""


class CallBudgets:
    """What callers have spent of the budgets of a policy, in this process. Threads may share it."""

    def __init__(self, policy: CallPolicy, clock: Callable[[], str] = now) -> None:
        self._policy, self._clock = policy, clock
        self._day, self._spent, self._lock = "", defaultdict[str, float](float), Lock()
        self._repeats: dict[str, RateLimit] = {}
        """Of each caller of the day, so that none makes room with calls of its own for those of another."""

    def take(self, tool: str, caller: str, arguments: object, cost: float, session_cost: float) -> None:
        """Count one call. `session_cost`: of the session with this call. Raises BudgetSpent, and counts nothing."""
        call = digest(tool, json.dumps(arguments, sort_keys=True, default=str))
        at, most = self._clock(), self._policy
        if 0 < most.calls_per_session < session_cost:
            raise BudgetSpent(tool, f"the session's budget of {most.calls_per_session:g} calls is spent")
        with self._lock:
            if self._day != at[:10]:
                self._day, self._spent, self._repeats = at[:10], defaultdict(float), {}
            if 0 < most.calls_per_day < self._spent[caller] + cost:
                morning = datetime.fromisoformat(f"{self._day}T00:00:00Z") + timedelta(days=1)
                reason = f"the caller's budget of {most.calls_per_day:g} calls a day is spent"
                raise BudgetSpent(tool, reason, morning.isoformat())
            if (repeats := self._repeats.get(caller)) is None:
                limit = RateLimit(most.repeats / 10, max(1, int(most.repeats)), max_callers=MOST_REPEATED)
                repeats = self._repeats[caller] = limit
            try:
                repeats.take(call)
            except TooManyRequests as exc:
                ends_at = datetime.fromisoformat(at) + timedelta(seconds=exc.retry_after_s)
                reason = f"the same call was made {most.repeats:g} times, with the same arguments"
                raise BudgetSpent(tool, reason, ends_at.isoformat(timespec="seconds")) from None
            self._spent[caller] += cost


FREE = CallPolicy()
"""Of who says nothing: tools run, those that may destroy by their exact name only."""


def judge(
    agent: Agent,
    tool: Tool,
    policy: CallPolicy = FREE,
    *,
    by_name: bool,
    principal: Principal | None = None,
    sources: frozenset[str] = frozenset(),
) -> Judgement:
    """Whether the tool may run for this caller. `by_name`: it was called by its exact id or call name.

    `sources` are the names of those that claim the agent; a policy that `names_sources` needs them.
    """
    if reason := _hold_reason(agent, tool):
        return Judgement(verdict="deny", reason=reason)
    danger = danger_of(agent, tool)
    rule = policy.rule_for(agent, tool, principal, sources)
    treatment: Treatment = "allow"
    if danger == "destructive":
        treatment = policy.destructive
    elif danger == "unknown":
        treatment = policy.unannotated
    judgement = _judged_by_name(policy, rule, treatment)
    if not by_name and judgement.verdict != "deny" and _needs_name(danger, treatment, rule, tool.name):
        return Judgement(
            verdict="deny", reason=f"{_DANGER_SAID[danger]}, so it runs by its exact name only", needs_name=True
        )
    return judgement


def _judged_by_name(policy: CallPolicy, rule: Rule | None, treatment: Treatment) -> Judgement:
    if rule:
        return Judgement(verdict=rule.verdict, reason=rule.reason or _REASONS[rule.verdict], cost=rule.cost)
    verdict = max(policy.default, "allow" if treatment == "by_name" else treatment, key=VERDICTS.index)
    return Judgement(verdict=verdict, reason=_REASONS[verdict])


Danger = Literal["reads", "none", "destructive", "unknown"]


def danger_of(agent: Agent, tool: Tool) -> Danger:
    """What its annotations say. A skill gives its text."""
    return "reads" if agent.kind == "skill" else danger_in(tool.annotations)


_REASONS: dict[Verdict, str] = {
    "allow": "",
    "ask": "the operator's policy lets it run only if a person agrees to each call",
    "deny": "the operator's policy denies it",
}
_DANGER_SAID: dict[Danger, str] = {
    "destructive": "it may change or delete things",
    "unknown": "it does not say whether it changes things",
}


@dataclass(frozen=True, slots=True)
class _CompiledRule:
    """A rule and its patterns. `over_ids`: of tools, else of agents and call names.

    `apart`: those of agents and of tools, for each place where the glob may mean the two.
    """

    rule: Rule
    over_ids: bool
    match: re.Pattern[str] | None
    source: re.Pattern[str] | None
    apart: tuple[tuple[re.Pattern[str], re.Pattern[str]], ...]

    @classmethod
    def of(cls, rule: Rule) -> "_CompiledRule":
        glob = rule.match
        places = [at for at in range(len(glob)) if glob.startswith("__", at)]
        apart = tuple((re.compile(translate(glob[:at])), re.compile(translate(glob[at + 2 :]))) for at in places)
        return cls(rule, "/" in glob, _pattern(glob), _pattern(rule.source or "*"), apart)

    def names(self, agent_id: str, tool_id: str, call_name: str) -> bool:
        if self.match is None:
            return True
        if self.over_ids:
            return self.match.match(tool_id) is not None
        if self.rule.match in (agent_id, call_name):
            return True
        loosely = self.rule.verdict != "allow"
        if self.match.match(agent_id) and (loosely or not self.apart):
            return True
        if loosely and self.match.match(call_name):
            return True
        name = tool_id.partition("/")[2]
        return any(agent.match(agent_id) and tool.match(name) for agent, tool in self.apart)

    def holds(self, groups: frozenset[str], sources: frozenset[str]) -> bool:
        if self.rule.groups and self.rule.groups.isdisjoint(groups):
            return False
        return self.source is None or any(self.source.match(name) for name in sources)


def _pattern(glob: str) -> re.Pattern[str] | None:
    """None: everything."""
    return None if glob == "*" else re.compile(translate(glob))


def _hold_reason(agent: Agent, tool: Tool) -> str:
    """Why nobody may call it yet; empty: nothing stands against it."""
    # By its id: its call name may be another agent's id. A name may hold what a shell would run.
    for entity, name in ((agent, quote(agent.id)), (tool, quote(tool.id))):
        if entity.rejection:
            return f"an operator rejected it: {entity.rejection}"
        if entity.pending:
            return f"it waits for approval: a person can run `waygraph approve {name}`"
    # A finding counts where it stands: models do not read an agent's doubtful description, and its tools run, since
    # nothing runs but what a person named.
    is_text = agent.kind == "skill" and is_doubtful(agent)  # what is called is the text itself
    if is_text or is_doubtful(tool):
        name = quote(agent.id if is_text else tool.id)
        return f"its text looks suspicious: a person can look at it and run `waygraph approve {name}`"
    return ""


_READING = frozenset("browse count describe fetch find get list look lookup read search show view".split())
_CHANGING = frozenset(
    """add and apply archive clear close create delete do edit execute insert kill make mark merge move or post publish
    put remove rename replace reset run save send set start stop then update upload write""".split()
)
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")


def says_that_it_reads(name: str) -> bool:
    """Whether its name begins with a verb of reading, and holds none of another kind."""
    words = [word.lower() for word in _WORD.findall(name)]
    return bool(words) and words[0] in _READING and _CHANGING.isdisjoint(words)


def _needs_name(danger: Danger, treatment: Treatment, rule: Rule | None, name: str) -> bool:
    """Whether a request that only resembles is not enough. An operator's word is, of what says nothing of itself."""
    if danger == "unknown":
        by_rule = rule is not None and rule.verdict == "allow"
        return not (treatment == "allow" or by_rule or (treatment == "by_name" and says_that_it_reads(name)))
    return danger == "destructive"


@remember
def danger_in(annotations: str) -> Danger:
    """Of `readOnlyHint` and `destructiveHint` that contradict each other the worse holds."""
    hints = parse_field(annotations)
    if not isinstance(hints, dict):
        return "unknown"
    if hints.get("destructiveHint") is True:
        return "destructive"
    if hints.get("readOnlyHint") is True:
        return "reads"
    return "none" if hints.get("destructiveHint") is False else "unknown"


_BUDGETS = ("calls_per_day", "calls_per_session", "repeats")
_FLAGS = ("strict", "fails_over")
_KEYS = ("default", "destructive", "unannotated", *_FLAGS, *_BUDGETS, "rules")
_RULE_KEYS = ("match", "source", "verdict", "reason", "groups", "cost")
MAX_REASON_CHARS = 300


def load_policy(path: str) -> CallPolicy:
    """The policy of a file; of an empty path the one that says nothing. Raises InvalidSetting."""
    if not path:
        return FREE
    try:
        text = as_written(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) else "it is no UTF-8 text"
        raise InvalidSetting(f"policy file {path} cannot be read: {reason}") from exc
    try:
        return parse_policy(text)
    except InvalidSetting as exc:
        raise InvalidSetting(f"policy file {path}: {exc}") from exc


def parse_policy(text: str) -> CallPolicy:
    """Raises InvalidSetting, which names the line of what is no TOML, else the key."""
    try:
        document = toml_document(text)
    except ValueError as exc:  # also a number of more digits than Python reads
        raise InvalidSetting(f"no TOML: {exc}") from exc
    _check_keys(document, _KEYS, "")
    rules = document.get("rules", [])
    if not isinstance(rules, list) or not all(isinstance(rule, dict) for rule in rules):
        raise InvalidSetting("`rules` must be tables, each begun by [[rules]]")
    flags = {name: document.get(name, False) for name in _FLAGS}
    if wrong := [name for name, value in flags.items() if not isinstance(value, bool)]:
        raise InvalidSetting(f"`{wrong[0]}` must be true or false, not {flags[wrong[0]]!r}")
    amounts = {name: _amount(document, name, getattr(FREE, name), "") for name in _BUDGETS}
    return CallPolicy(
        **(flags | amounts),
        default=cast("Verdict", _choice(document, "default", VERDICTS, "allow", "")),
        destructive=cast("Treatment", _choice(document, "destructive", DESTRUCTIVE, "by_name", "")),
        unannotated=cast("Treatment", _choice(document, "unannotated", UNANNOTATED, "by_name", "")),
        rules=tuple(_rule(rule, f"rule {number}: ") for number, rule in enumerate(rules, start=1)),
    )


def _rule(table: Mapping[str, Any], where: str) -> Rule:
    _check_keys(table, _RULE_KEYS, where)
    if "match" not in table and "source" not in table:
        raise InvalidSetting(f'{where}needs `match`, such as "github/delete_*", or `source`')
    reason = _text(table, "reason", where) if "reason" in table else ""
    return Rule(
        match=_text(table, "match", where) if "match" in table else "*",
        source=_text(table, "source", where) if "source" in table else "",
        verdict=cast("Verdict", _choice(table, "verdict", VERDICTS, None, where)),
        reason=" ".join(reason.split())[:MAX_REASON_CHARS],
        groups=_groups(table, where),
        cost=_amount(table, "cost", 1.0, where),
    )


def _amount(table: Mapping[str, Any], key: str, default: float, where: str) -> float:
    if (amount := read_number(table.get(key, default), 0, FAR_S)) is None:
        raise InvalidSetting(f"{where}`{key}` must be a number from 0 to {FAR_S:g}, not {table[key]!r}")
    return amount


def _groups(table: Mapping[str, Any], where: str) -> frozenset[str]:
    if (groups := table.get("groups")) is None:
        return frozenset()
    if not isinstance(groups, list) or not groups or not all(isinstance(name, str) and name for name in groups):
        raise InvalidSetting(f"{where}`groups` must be a list of names with at least one; without it all are meant")
    return frozenset(groups)


def _text(table: Mapping[str, Any], key: str, where: str) -> str:
    value = table[key]
    if not isinstance(value, str) or not value.strip():
        raise InvalidSetting(f"{where}`{key}` must be a text that is not empty, not {value!r}")
    return value.strip()


def _choice(table: Mapping[str, Any], key: str, choices: Collection[str], default: str | None, where: str) -> str:
    if (value := table.get(key, default)) is None:
        raise InvalidSetting(f"{where}needs `{key}`: {', '.join(choices)}")
    if value not in choices:
        raise InvalidSetting(f"{where}`{key}` must be one of {', '.join(choices)}, not {value!r}")
    return str(value)


def _check_keys(table: Mapping[str, Any], keys: Collection[str], where: str) -> None:
    for key in table:
        if key not in keys:
            near = nearest(key, keys)
            suggestion = f" Did you mean `{near[0]}`?" if near else ""
            raise InvalidSetting(f"{where}`{key}` is not known; known: {', '.join(keys)}.{suggestion}")
