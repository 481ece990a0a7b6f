"""Buckets of tokens by a clock that the test moves."""

import threading
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waygraph.registry.access.authenticator import FailureLimit, RateLimit
from waygraph.registry.model.errors import TooManyRequests


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def taken(limit: RateLimit, caller: str, requests: int) -> int:
    """How many of so many requests are taken."""
    count = 0
    for _ in range(requests):
        try:
            limit.take(caller)
        except TooManyRequests:
            continue
        count += 1
    return count


def test_a_burst_is_taken_then_as_many_as_the_rate_allows() -> None:
    clock = Clock()
    limit = RateLimit(60, 3, clock)
    assert taken(limit, "a", 10) == 3
    clock.now_s += 2.0
    assert taken(limit, "a", 10) == 2
    clock.now_s += 3600.0
    assert taken(limit, "a", 10) == 3


def test_the_error_says_when_the_next_is_taken() -> None:
    """So long and no longer: just before it is refused, then it is taken."""
    clock = Clock()
    limit = RateLimit(30, 1, clock)
    limit.take("a")
    clock.now_s += 0.5
    with pytest.raises(TooManyRequests) as refused:
        limit.take("a")
    assert refused.value.retry_after_s == pytest.approx(1.5)
    clock.now_s += refused.value.retry_after_s - 0.01
    assert taken(limit, "a", 1) == 0
    clock.now_s += 0.02
    assert taken(limit, "a", 1) == 1


def test_callers_have_buckets_of_their_own() -> None:
    limit = RateLimit(60, 1, Clock())
    assert [taken(limit, caller, 5) for caller in ("a", "b", "a")] == [1, 1, 0]


def test_memory_is_bounded_and_the_longest_silent_is_forgotten() -> None:
    """Of many callers the last hundred are remembered, and one that goes on asking among them."""
    limit = RateLimit(0.001, 2, Clock(), max_callers=100)
    assert taken(limit, "busy", 2) == 2
    for number in range(10_000):
        limit.take(f"caller-{number}")
        assert taken(limit, "busy", 1) == 0
    assert len(limit) == 100
    assert taken(limit, "caller-9999", 2) == 1
    assert taken(limit, "caller-0", 3) == 2


def test_threads_take_no_more_than_there_is() -> None:
    """Eight threads, one bucket: as many are taken as one thread would get."""
    limit = RateLimit(0.001, 500, Clock())
    counts: list[int] = []
    threads = [threading.Thread(target=lambda: counts.append(taken(limit, "a", 200))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(counts) == 500


@given(
    st.integers(1, 6000),
    st.integers(1, 20),
    st.lists(st.tuples(st.sampled_from("ab"), st.floats(0.0, 30.0)), max_size=80),
)
def test_in_no_span_more_are_taken_than_burst_and_rate(
    rate: int, burst: int, asked: Sequence[tuple[str, float]]
) -> None:
    """Between any two moments: at most the burst and what the rate gives in that time; and one after a long pause."""
    clock = Clock()
    limit = RateLimit(rate, burst, clock)
    taken_at: dict[str, list[float]] = {"a": [], "b": []}
    for caller, pause_s in asked:
        clock.now_s += pause_s
        if taken(limit, caller, 1):
            taken_at[caller].append(clock.now_s)
    for times in taken_at.values():
        for first in range(len(times)):
            for last in range(first, len(times)):
                allowed = burst + (times[last] - times[first]) * rate / 60.0
                assert last - first + 1 <= allowed + 1e-6
    clock.now_s += 60.0 * burst / rate + 1.0
    assert taken(limit, "a", burst + 1) == burst


def test_failures_of_an_address_are_limited() -> None:
    """The fourth at once is one too many, other addresses have their own, and time gives more."""
    clock = Clock()
    failures = FailureLimit(RateLimit(60, 3, clock))
    for _ in range(3):
        failures.count_failure("192.0.2.1")
    with pytest.raises(TooManyRequests):
        failures.count_failure("192.0.2.1")
    failures.count_failure("192.0.2.2")
    clock.now_s += 1.01
    failures.count_failure("192.0.2.1")


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("2001:db8::1", "2001:db8::ffff:2", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("::ffff:192.0.2.1", "192.0.2.1", True),
        ("fe80::1%eth0", "fe80::2", True),
        ("testclient", "testclient", True),
        ("192.0.2.1", "192.0.2.2", False),
    ],
)
def test_one_client_is_one_address_or_one_network(one: str, other: str, same: bool) -> None:
    failures = FailureLimit(RateLimit(1, 1, Clock()))
    failures.count_failure(one)
    if same:
        with pytest.raises(TooManyRequests):
            failures.count_failure(other)
    else:
        failures.count_failure(other)
        with pytest.raises(TooManyRequests):
            failures.count_failure(one)
