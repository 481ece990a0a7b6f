"""Work that a thread does beside a block."""

from threading import Event, current_thread

import pytest

from waygraph.registry.meanwhile import meanwhile


def test_block_and_work_go_on_at_the_same_time() -> None:
    """Each waits for the other: one after the other, neither would end."""
    asked, answered = Event(), Event()

    def work() -> str:
        assert asked.wait(30)
        answered.set()
        return current_thread().name

    with meanwhile(work) as result:
        asked.set()
        assert answered.wait(30)
    assert result() == "meanwhile"


def test_a_failure_is_raised_where_the_result_is_asked_for() -> None:
    """Not at the block's end: who asks may know what to do about it."""

    def work() -> None:
        raise LookupError("nothing there")

    with meanwhile(work) as result:
        pass
    with pytest.raises(LookupError, match="nothing there"):
        result()


def test_the_block_s_own_failure_waits_for_the_work() -> None:
    """What the work uses is still there until it has ended."""
    ended: list[bool] = []
    leave = Event()

    def work() -> None:
        leave.wait(30)
        ended.append(True)

    def fail() -> None:
        with meanwhile(work):
            leave.set()
            raise LookupError

    with pytest.raises(LookupError):
        fail()
    assert ended == [True]
