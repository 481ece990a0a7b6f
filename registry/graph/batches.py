"""Rows in parts of bounded size, for statements that take a list of them."""

from collections.abc import Iterator, Sequence

BATCH_ROWS = 1_000
"""Rows a statement; a vector of 384 floats as a Python list takes 12 kB, so larger batches only cost memory."""


def batches[T](rows: Sequence[T]) -> Iterator[Sequence[T]]:
    for start in range(0, len(rows), BATCH_ROWS):
        yield rows[start : start + BATCH_ROWS]
