"""Finds the times and heights of high and low water in a file of gauge readings."""

import csv
import sys


def extremes(readings: list[tuple[str, float]]) -> list[tuple[str, float]]:
    """The readings that are higher, or lower, than both neighbours."""
    threes = zip(readings, readings[1:], readings[2:], strict=False)
    return [b for a, b, c in threes if (b[1] - a[1]) * (c[1] - b[1]) < 0]


if __name__ == "__main__":
    with open(sys.argv[1], newline="") as file:
        rows = [(time, float(height)) for time, height in csv.reader(file)]
    csv.writer(sys.stdout).writerows(extremes(rows))
