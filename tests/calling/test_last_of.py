"""What is remembered of agents: the last of them, however many come."""

from waygraph.ingest.execution.pool import LastOf


def test_the_one_that_was_set_longest_ago_is_forgotten() -> None:
    last = LastOf[int](3)
    for number, agent_id in enumerate(("a", "b", "c", "a", "d")):
        last[agent_id] = number
    assert dict(last) == {"c": 2, "a": 3, "d": 4}
    assert last.pop("c", None) == 2
    assert last.get("b") is None
