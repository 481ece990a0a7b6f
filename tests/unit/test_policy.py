"""What may be called: annotations, the operator's rules, approval, and who asks."""

from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.gateway_catalog import ADDS, BOARD, DESTROYS, PUBLIC, READS, agent, tool
from waygraph.registry.access.policy import (
    FREE,
    VERDICTS,
    CallPolicy,
    Rule,
    Verdict,
    danger_of,
    judge,
    load_policy,
    parse_policy,
)
from waygraph.registry.model.errors import InvalidSetting
from waygraph.registry.model.identity import sealed_tool
from waygraph.registry.model.nouns import NOTICE, Agent, Principal, Tool, canonical_json

GITHUB = agent("github").agent
SKILL = agent("writing", kind="skill").agent


def verdict(held: Tool, policy: CallPolicy = FREE, *, by_name: bool = True, who: Principal | None = None) -> Verdict:
    return judge(GITHUB, held, policy, by_name=by_name, principal=who).verdict


READING, ADDING = tool("github", "list_issues", annotations=READS), tool("github", "create_issue", annotations=ADDS)
DELETING, SILENT = tool("github", "delete_repo", annotations=DESTROYS), tool("github", "merge")


def test_what_may_destroy_runs_by_its_exact_name_only() -> None:
    """Also what says nothing of itself, which MCP takes for destructive."""
    assert [verdict(each, by_name=True) for each in (READING, ADDING, DELETING, SILENT)] == ["allow"] * 4
    by_query = [verdict(each, by_name=False) for each in (READING, ADDING, DELETING, SILENT)]
    assert by_query == ["allow", "allow", "deny", "deny"]
    destroys, silent = (judge(GITHUB, each, by_name=False) for each in (DELETING, SILENT))
    assert destroys.reason == "it may change or delete things, so it runs by its exact name only"
    assert silent.reason == "it does not say whether it changes things, so it runs by its exact name only"
    assert destroys.needs_name
    assert silent.needs_name


def test_a_name_is_not_asked_for_where_it_would_not_help() -> None:
    """What a rule denies is denied with the rule's reason, however it is called."""
    policy = CallPolicy(rules=(Rule(verdict="deny", match="github/*", reason="ask in #platform"),))
    said = judge(GITHUB, DELETING, policy, by_name=False)
    assert (said.verdict, said.reason, said.needs_name) == ("deny", "ask in #platform", False)


@pytest.mark.parametrize(
    ("annotations", "danger"),
    [
        (None, "unknown"),
        ({}, "unknown"),
        ({"title": "x"}, "unknown"),
        (READS, "reads"),
        (ADDS, "none"),
        (DESTROYS, "destructive"),
        ({"readOnlyHint": True, "destructiveHint": True}, "destructive"),
        ({"readOnlyHint": False}, "unknown"),
        ({"readOnlyHint": "yes"}, "unknown"),
        ({"destructiveHint": 0}, "unknown"),
    ],
)
def test_annotations_are_read_as_mcp_means_them(annotations: dict[str, object] | None, danger: str) -> None:
    """Of two that contradict each other the worse holds, and what is no boolean says nothing."""
    assert danger_of(GITHUB, tool("github", "x", annotations=annotations)) == danger


def test_a_skill_destroys_nothing() -> None:
    assert judge(SKILL, tool("writing", "style"), by_name=False).verdict == "allow"


def test_the_first_rule_that_fits_holds() -> None:
    """In the order of the file, over ids, call names and agents; what none names has the default."""
    policy = parse_policy(
        """
        default = "ask"
        [[rules]]
        match = "github/list_*"
        verdict = "allow"
        [[rules]]
        match = "github__create_issue"
        verdict = "deny"
        reason = "issues are written by people"
        [[rules]]
        match = "git*"
        verdict = "allow"
        [[rules]]
        match = "github/delete_*"
        verdict = "deny"
        """
    )
    assert [verdict(each, policy) for each in (READING, ADDING, SILENT, DELETING)] == [
        "allow",
        "deny",
        "allow",
        "allow",
    ]
    assert judge(GITHUB, ADDING, policy, by_name=True).reason == "issues are written by people"
    other = agent("desk").agent
    assert judge(other, tool("desk", "list", annotations=READS), policy, by_name=True).verdict == "ask"


def test_an_operators_word_holds_over_annotations_but_what_destroys_keeps_its_exact_name() -> None:
    """An allowed tool that says nothing of itself runs for a request too."""
    policy = CallPolicy(rules=(Rule(match="github", verdict="allow"),), destructive="deny", unannotated="deny")
    assert [verdict(each, policy) for each in (DELETING, SILENT)] == ["allow", "allow"]
    assert [verdict(each, policy, by_name=False) for each in (DELETING, SILENT)] == ["deny", "allow"]


@pytest.mark.parametrize(
    ("text", "verdicts"),
    [
        ('destructive = "ask"', ["allow", "ask", "allow"]),
        ('destructive = "deny"', ["allow", "deny", "allow"]),
        ('unannotated = "deny"', ["allow", "allow", "deny"]),
        ('default = "deny"\ndestructive = "ask"', ["deny", "deny", "deny"]),
        ('default = "ask"\nunannotated = "allow"', ["ask", "ask", "ask"]),
    ],
)
def test_without_a_rule_the_strictest_holds(text: str, verdicts: list[str]) -> None:
    """Of the default and what holds for such tools: reading, destroying, silent."""
    assert [verdict(each, parse_policy(text)) for each in (READING, DELETING, SILENT)] == verdicts


def test_strictness_is_read() -> None:
    assert [parse_policy(text).strict for text in ("", "strict = true", "strict = false")] == [False, True, False]


def test_the_unannotated_may_be_relaxed() -> None:
    """Where an operator trusts what says nothing, a request may run it; what says that it destroys never."""
    policy = parse_policy('unannotated = "allow"')
    assert [verdict(each, policy, by_name=False) for each in (SILENT, DELETING)] == ["allow", "deny"]


def test_a_rule_of_a_group_holds_for_its_members_only() -> None:
    policy = parse_policy('default = "deny"\n[[rules]]\nmatch = "github/*"\nverdict = "allow"\ngroups = ["board", "x"]')
    assert [verdict(READING, policy, who=who) for who in (BOARD, PUBLIC, None)] == ["allow", "deny", "deny"]


def test_a_rule_of_a_source_holds_for_what_that_source_claims() -> None:
    policy = parse_policy('[[rules]]\nsource = "web:*"\nmatch = "github"\nverdict = "deny"')
    assert policy.names_sources
    claims = (frozenset({"web:x", "y"}), frozenset({"y"}), frozenset[str]())
    verdicts = [judge(GITHUB, READING, policy, by_name=True, sources=claimed).verdict for claimed in claims]
    assert verdicts == ["deny", "allow", "allow"]
    assert judge(SKILL, READING, policy, by_name=True, sources=claims[0]).verdict == "allow"


@pytest.mark.parametrize("policy", [FREE, CallPolicy(rules=(Rule(verdict="allow"),))])
def test_nothing_overrules_a_missing_approval(policy: CallPolicy) -> None:
    """What waits, or is in doubt, of the agent or of the tool, is denied, and the reason names the remedy."""
    odd = Agent(id="two words", name="x", pending=True)
    tainted = Tool(id="a/$(x)", agent_id="a", name="$(x)", call_name="a__x_1", flags=("odd",), content_hash="1")
    waits = judge(odd, READING, policy, by_name=True)
    doubtful = judge(GITHUB, tainted, policy, by_name=True)
    assert waits.verdict == doubtful.verdict == "deny"
    assert "`waygraph approve 'two words'`" in waits.reason
    assert "`waygraph approve 'a/$(x)'`" in doubtful.reason


@pytest.mark.parametrize(
    ("agent_id", "name", "match", "denied", "allowed"),
    [
        ("github", "delete_repo", "github__*", True, True),
        ("io.github.acme", "delete_repo", "io.github.acme__delete_*", True, True),
        ("a" * 60, "delete_repo", f"{'a' * 60}__delete_*", True, True),
        ("github__evil", "run", "github__*", True, False),
        ("github.", "run", "github__*", True, False),
        ("a__b", "run", "a__b__run", True, True),
        ("other", "delete_repo", "github__*", False, False),
        ("github", "keep", "*__delete_*", False, False),
    ],
)
def test_a_rule_over_call_names_means_the_agent_that_it_names(
    agent_id: str, name: str, match: str, denied: bool, allowed: bool
) -> None:
    """Call names are shortened, and the begin of one may be another agent's: what only looks so is never allowed."""
    agent = replace(GITHUB, id=agent_id)
    held = sealed_tool(Tool(id=f"{agent_id}/{name}", agent_id=agent_id, name=name, annotations=canonical_json(READS)))
    for said, fits in (("deny", denied), ("allow", allowed)):
        policy = CallPolicy(rules=(Rule(match=match, verdict=cast("Verdict", said)),))
        assert (policy.rule_for(agent, held) is not None) is fits, said
    whole = CallPolicy(rules=(Rule(match=held.call_name, verdict="allow"),))
    assert whole.rule_for(agent, held) is not None


def test_a_finding_counts_where_it_stands() -> None:
    """An agent's doubtful description denies no tool whose own texts are clean; a notice denies nothing."""
    agent = replace(GITHUB, flags=("description: odd",), content_hash="1")
    clean, doubtful = (Tool(id="a/b", agent_id="a", name="b", flags=each) for each in ((f"{NOTICE}odd",), ("odd",)))
    assert judge(agent, clean, by_name=True).verdict == "allow"
    assert judge(agent, replace(doubtful, content_hash="1"), by_name=True).verdict == "deny"
    assert judge(replace(agent, pending=True), clean, by_name=True).verdict == "deny"


def test_a_text_that_was_approved_is_not_in_doubt() -> None:
    approved = Tool(id="a/b", agent_id="a", name="b", flags=("odd",), content_hash="1", approved_hash="1")
    assert judge(GITHUB, approved, by_name=True).verdict == "allow"


names = st.text(alphabet="abgithu_*?[]!-/.", min_size=1, max_size=12)


@given(
    matches=st.lists(st.tuples(names, st.sampled_from(VERDICTS)), max_size=6),
    name=names,
    default=st.sampled_from(VERDICTS),
)
def test_any_glob_is_a_rule(matches: list[tuple[str, Verdict]], name: str, default: Verdict) -> None:
    """Whatever it holds; and of a tool that no rule names the default is said."""
    policy = CallPolicy(rules=tuple(Rule(match=match, verdict=said) for match, said in matches), default=default)
    held = tool("github", name, annotations=READS)
    rule = policy.rule_for(GITHUB, held)
    assert verdict(held, policy) == (rule.verdict if rule else default)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("default = allow", "line 1"),
        ('defualt = "deny"', "did you mean `default`"),
        ('default = "maybe"', "`default` must be one of allow, ask, deny, not 'maybe'"),
        ("default = 1", "`default` must be one of"),
        ('strict = "yes"', "`strict` must be true or false"),
        ('destructive = "allow"', "`destructive` must be one of by_name, ask, deny"),
        ('rules = "x"', "[[rules]]"),
        ('[[rules]]\nverdict = "deny"', "rule 1: needs `match`"),
        ('[[rules]]\nmatch = "a"\nverdict = "deny"\n[[rules]]\nmatch = "b"', "rule 2: needs `verdict`"),
        ('[[rules]]\nmatch = ""\nverdict = "deny"', "rule 1: `match` must be a text"),
        ('[[rules]]\nmatch = "a"\nverdict = ["deny"]', "rule 1: `verdict` must be one of"),
        ('[[rules]]\nmatch = "a"\nverdict = "deny"\ngroups = []', "rule 1: `groups` must be a list"),
        ('[[rules]]\nmatch = "a"\nverdict = "deny"\ngroup = ["x"]', "rule 1: `group` is not known"),
    ],
)
def test_a_wrong_file_says_where(text: str, told: str) -> None:
    with pytest.raises(InvalidSetting) as caught:
        parse_policy(text)
    assert told.lower() in str(caught.value).lower()


def test_a_file_is_read_and_a_missing_one_refused(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    with pytest.raises(InvalidSetting, match="No such file"):
        load_policy(str(path))
    path.write_bytes(b"\xff")
    with pytest.raises(InvalidSetting, match="UTF-8"):
        load_policy(str(path))
    path.write_text('default = "dney"', encoding="utf-8")
    with pytest.raises(InvalidSetting, match=r"policy\.toml: `default`"):
        load_policy(str(path))
    path.write_text('default = "ask"', encoding="utf-8")
    assert load_policy(str(path)).default == "ask"
    assert load_policy("") == FREE


def test_what_was_rejected_is_refused_with_the_operators_reason() -> None:
    """And not as what waits: no approval is asked for."""
    refused = judge(GITHUB, replace(READING, pending=True, rejection="it asks for secrets"), by_name=True)
    assert (refused.verdict, refused.reason) == ("deny", "an operator rejected it: it asks for secrets")
