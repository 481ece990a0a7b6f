"""Work that a thread does while the one that asked for it goes on."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Thread


@contextmanager
def meanwhile[T](work: Callable[[], T]) -> Iterator[Callable[[], T]]:
    """Does `work` beside the block, which ends when both have; then what is yielded gives or raises what it came to.

    It pays for work that lets go of Python's lock: loading a model does, importing does not.
    """
    made: list[T] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            made.append(work())
        except BaseException as error:  # noqa: BLE001 - raised again, where it is asked for
            failed.append(error)

    def result() -> T:
        thread.join()
        if failed:
            raise failed[0]
        return made[0]

    thread = Thread(target=run, name="meanwhile", daemon=True)
    thread.start()
    try:
        yield result
    finally:
        thread.join()
