"""What was called after what: counts that are added to those of the graph, and forgotten."""

from collections.abc import Sequence

from waygraph.cypher import load
from waygraph.registry.graph.engine import GraphSession
from waygraph.registry.graph.read import Part, read_transitions
from waygraph.registry.graph.write import put_transitions
from waygraph.registry.model.changes import Written
from waygraph.registry.model.transitions import (
    MAX_KEPT,
    LearningReport,
    Transition,
    add_transitions,
    keep_largest,
    owner_of,
)
from waygraph.registry.writer import WriteSession

_LEARNING_FORGET_TRANSITIONS = load("learning/forget_transitions")


def learn_transitions(session: WriteSession, more: Sequence[Transition], max_kept: int = MAX_KEPT) -> LearningReport:
    """Adds counts of what was called after what; of all at most `max_kept` stay, the largest.

    Those of agents and tools that the registry does not hold are left out. Nothing to add keeps the revision.
    """
    revision = session.begin().revision
    before = read_transitions(session.engine)
    ids = {name for each in more for name in each.ids}
    graph = session.read_graph_view(Part(agent_ids=set(map(owner_of, ids))))
    tools = {item.tool.id for items in graph.tools_of(sorted(graph.agents)).values() for item in items}
    unknown = ids - tools - graph.agents.keys()
    additions = [each for each in more if unknown.isdisjoint(each.ids)]
    sums = add_transitions(before, additions)
    transitions, put = sums, list({each.key: None for each in additions})
    if is_cut := len(sums) > max_kept:
        transitions = keep_largest(sums, max_kept)
        put = list(transitions)

    def work(graph_session: GraphSession) -> None:
        if is_cut:
            _forget(graph_session)
        put_transitions(graph_session, (transitions[key] for key in put))

    if additions:
        revision = session.write(work).revision
    return LearningReport(transitions=len(transitions), revision=revision, unknown=tuple(sorted(unknown)))


def forget_transitions(session: WriteSession) -> Written:
    """All of them. Nothing to forget keeps the revision."""
    revision = session.begin().revision
    if not read_transitions(session.engine):
        return Written(revision=revision)
    return session.write(_forget)


def _forget(graph_session: GraphSession) -> None:
    graph_session.run(_LEARNING_FORGET_TRANSITIONS)
