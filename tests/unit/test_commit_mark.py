"""The mark of a commit that is going on."""

from collections.abc import Mapping

from waygraph.cypher import Statement
from waygraph.registry.graph.engine import CommitMark, Rows
from waygraph.registry.model.errors import ServerUnavailable


def test_a_mark_that_cannot_be_cleared_fails_no_commit() -> None:
    """What was committed is committed: the mark counts no more once nobody renews it."""
    asked: list[str] = []

    def run(statement: Statement, params: Mapping[str, object]) -> Rows:
        asked.append(statement.name)
        if statement.name == "neo4j/commit/clear_mark":
            raise ServerUnavailable("there", "it went away")
        return []

    with CommitMark(run) as commit:
        commit.begin()
    assert asked == ["neo4j/commit/mark", "neo4j/commit/clear_mark"]
