"""What the trace of an ingest counts, and when it fails."""

from collections import Counter

from scripts.trace_ingest import Limit, Way, exceeds, way_of


def test_a_step_back_into_another_file_is_a_return() -> None:
    """Steps within a file are none, and a file that another thread entered was entered."""
    way = way_of([["a", "a", "b", "a", "c", "b"], ["c", "c"]])
    assert way == Way(3, Counter({("b", "a"): 1, ("c", "b"): 1, ("", "c"): 1}))


def test_more_than_the_limit_fails() -> None:
    way = Way(3, Counter({("b", "a"): 2, ("c", "b"): 1}))
    assert not exceeds(way, Limit(files=3, returns=3))
    assert exceeds(way, Limit(files=2, returns=3))
    assert exceeds(way, Limit(files=3, returns=2))
