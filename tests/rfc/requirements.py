"""What RFC 0001 (Selective Tool Retrieval) requires, sentence by sentence, and the tests that show it.

`sentence` stands in the RFC as it stands here; `level` is the RFC's word for it. A lower-case level is what the RFC
requires in other words. Where we do otherwise, `deviation` says what and why.
"""

from dataclasses import dataclass
from typing import Literal

Level = Literal["MUST", "SHOULD", "MUST NOT", "must", "interface"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """`shown_by`: `module.py::function` below tests/."""

    level: Level
    sentence: str
    shown_by: tuple[str, ...]
    deviation: str = ""


_FIND_WALK = "gateway/test_walk.py::test_a_host_finds_a_tool_and_calls_it_both_ways"
_RFC_SURFACE = "clients/test_sdk_client.py::test_the_surface_of_the_rfc"
_NOT_AGAIN = "gateway/test_sessions.py::test_what_a_session_was_sent_is_not_sent_again"

HEADS = {
    "MUST": "A compliant tool retrieval gateway MUST:",
    "SHOULD": "A compliant gateway SHOULD:",
    "MUST NOT": "A compliant gateway MUST NOT:",
}
"""Under each stands a list, of which each entry is a requirement."""

END_OF_LISTS = "Relationship to MCP¶"

REQUIREMENTS = (
    # -- A compliant tool retrieval gateway MUST:
    Requirement(
        level="MUST",
        sentence="Expose find_tools(query, limit?) returning tool schemas in the host API's native format",
        shown_by=(
            _FIND_WALK,
            _RFC_SURFACE,
            "rfc/test_rfc_0001.py::test_find_tools_is_the_rfcs_own",
            "unit/test_finding.py::test_a_schema_is_what_the_host_takes",
        ),
        deviation=(
            "On the default surface an answer holds summaries (the parameters as a signature) unless the detail "
            "`schema` is asked for: whole schemas eat the saving. The surface `rfc` answers with them. Over MCP the "
            "native format is that of MCP; a version stands beside it. Other host APIs' formats: by REST and Python."
        ),
    ),
    Requirement(
        level="MUST",
        sentence="Support keyword-based retrieval as the baseline (no embedding dependency required)",
        shown_by=(_FIND_WALK, "gateway/test_answers.py::test_the_capabilities_are_a_resource"),
    ),
    Requirement(
        level="MUST",
        sentence="Execute retrieved tools when called directly by name after retrieval",
        shown_by=(_FIND_WALK, _RFC_SURFACE),
        deviation=(
            "A tool that a policy denies, or that waits for approval, is not executed: find_tools names it under "
            "`not_callable` with the reason, and so does the error. One that a policy lets run only with a person's "
            "consent is executed after that."
        ),
    ),
    Requirement(
        level="MUST",
        sentence="Return a structured error when a tool name is unrecognised (not a silent failure)",
        shown_by=("gateway/test_toolset_doors.py::test_a_toolset_shows_its_tools_alone", _FIND_WALK),
    ),
    # -- A compliant gateway SHOULD:
    Requirement(
        level="SHOULD",
        sentence=(
            "Support embedding-based retrieval for higher recall (optional, declared via capability advertisement)"
        ),
        shown_by=("rfc/test_rfc_0001.py::test_embedding_based_retrieval_is_declared_where_it_is_there",),
    ),
    Requirement(
        level="SHOULD",
        sentence="Aggregate tools from multiple sources (local registry, MCP servers, remote APIs)",
        shown_by=(
            "gateway/test_doors.py::test_a_caller_finds_and_calls_what_its_groups_see",
            "rfc/test_rfc_0001.py::test_tools_of_several_sources_are_found_together",
        ),
    ),
    Requirement(
        level="SHOULD",
        sentence="Cache retrieved schemas per session to avoid redundant find_tools calls",
        shown_by=(_NOT_AGAIN, "gateway/test_sessions.py::test_a_summary_does_not_stand_for_the_schema"),
        deviation=(
            "What a session was sent is named with its version and `unchanged`, and not sent again. A host of MCP's "
            "modern era over HTTP has no session: it says in `known` which versions it has."
        ),
    ),
    Requirement(
        level="SHOULD",
        sentence=(
            "Expose its own interface via MCP (list_tools returns only find_tools; call_tool handles both retrieval "
            "and execution)"
        ),
        shown_by=(_RFC_SURFACE, _FIND_WALK),
        deviation=(
            "So does `waygraph mcp --surface rfc`. The default surface lists use_tool too, since many hosts let their "
            "model call only what is listed, route_agents, and the tools of agents that an operator pinned."
        ),
    ),
    # -- A compliant gateway MUST NOT:
    Requirement(
        level="MUST NOT",
        sentence="Return the full tool list when find_tools is called with an empty query (defeats the purpose)",
        shown_by=("gateway/test_answers.py::test_an_empty_query_is_answered_with_numbers_and_never_with_the_list",),
    ),
    Requirement(
        level="MUST NOT",
        sentence=(
            "Require LLM-specific SDK changes — the interface uses the standard tool calling format of the host API"
        ),
        shown_by=(_FIND_WALK,),
    ),
    # -- Discovery backends
    Requirement(
        level="SHOULD",
        sentence=(
            "Implementations SHOULD advertise which backends are available via a gateway.capabilities endpoint or MCP "
            "resource."
        ),
        shown_by=(
            "gateway/test_answers.py::test_the_capabilities_are_a_resource",
            "rfc/test_rfc_0001.py::test_embedding_based_retrieval_is_declared_where_it_is_there",
        ),
    ),
    Requirement(level="must", sentence="Implementations must support at minimum:", shown_by=(_FIND_WALK,)),
    # -- what is required in other words
    Requirement(
        level="interface",
        sentence="A compliant tool retrieval gateway exposes exactly one tool to the LLM:",
        shown_by=(_RFC_SURFACE, "rfc/test_rfc_0001.py::test_find_tools_is_the_rfcs_own"),
        deviation="On the surface `rfc`; for the default one see above.",
    ),
    Requirement(
        level="interface",
        sentence="The LLM must call find_tools before calling the actual tool",
        shown_by=(_FIND_WALK,),
        deviation=(
            "Nothing is demanded of it: a model that knows a tool's name from before may call it at once, as "
            "`gateway/test_answers.py` does throughout. What may be called does not depend on what was found before."
        ),
    ),
    Requirement(
        level="interface",
        sentence="The LLM then calls the retrieved tool directly in the next turn.",
        shown_by=(_FIND_WALK, _RFC_SURFACE),
    ),
    Requirement(
        level="interface",
        sentence=(
            "The gateway resolves the query to a tool, validates params against the schema, executes it, and returns "
            "the result."
        ),
        shown_by=(
            _FIND_WALK,
            "gateway/test_answers.py::test_arguments_are_checked_before_anything_is_sent",
            "gateway/test_answers.py::test_an_ambiguous_request_runs_nothing_and_names_the_candidates",
            "gateway/test_answers.py::test_a_destructive_tool_runs_by_its_exact_name_only",
        ),
        deviation=(
            "use_tool takes a `name` in place of the `query`, too, and prefers it. A query that fits several tools "
            "runs none and is answered with the candidates; one that fits a destructive tool runs nothing."
        ),
    ),
    Requirement(
        level="interface",
        sentence='The LLM must handle "no matching tool found" gracefully.',
        shown_by=("unit/test_finding.py::test_nothing_found_says_why_and_what_is_near",),
        deviation="We help it: the answer says why nothing was found, and names what is nearest.",
    ),
    Requirement(
        level="interface",
        sentence="The system prompt must instruct the LLM to call find_tools before attempting any tool call.",
        shown_by=(_FIND_WALK,),
        deviation="A server has no say in it: MCP's `instructions` say so to the host, and find_tools' description.",
    ),
)
