"""A small ranker: four shares, learned from requests that are invented from the catalogue itself.

No dataset's queries are seen: a request is half of the words of a tool's (or bare agent's) description, drawn by a
seed, and the right agent is its owner.
"""

import random

import numpy as np

from benchmarks.ablations.case import Case, Matrix, case_asking
from benchmarks.ablations.worths import worths_of

SEED = 11
INVENTED = 300
"""Requests, at most one a tool."""
KEPT = 0.5
"""Of a description's words."""
ROUNDS = 300
RATE = 2.0


def learned(case: Case) -> Matrix:
    """The worths of the legs by shares that rank the owners of invented requests highest."""
    shares = fitted(*training(case))
    return np.tensordot(shares, np.stack(worths_of(case)), axes=1).astype(np.float32)


def training(case: Case) -> tuple[Matrix, list[int]]:
    """Worths, (legs, requests, agents), and the row of the right agent of each request."""
    drawn = random.Random(SEED)  # noqa: S311 - no secret
    entries = case.catalogue.entries
    described = [
        (text, row)
        for row, entry in enumerate(entries)
        for text in ([tool.description for tool in entry.tools] or [entry.agent.description])
        if len(text.split()) > 3
    ]
    chosen = drawn.sample(described, min(INVENTED, len(described)))
    invented = [" ".join(word for word in text.split() if drawn.random() < KEPT) or text for text, _ in chosen]
    golds = [(frozenset({entries[row].agent.id}),) for _, row in chosen]
    return np.stack(worths_of(case_asking(case.catalogue, invented, golds))), [row for _, row in chosen]


def fitted(worths: Matrix, right: list[int]) -> Matrix:
    """Shares, (legs,), none negative, of mean 1: the likelihood of the right agents under a softmax, by gradient."""
    shares = np.ones(len(worths), dtype=np.float64)
    targets = worths[:, np.arange(len(right)), right].astype(np.float64)
    for _ in range(ROUNDS):
        scores = 10 * np.tensordot(shares, worths, axes=1)
        odds = np.exp(scores - scores.max(axis=1, keepdims=True))
        odds /= odds.sum(axis=1, keepdims=True)
        gradient = (targets - (worths * odds).sum(axis=2)).mean(axis=1)
        shares = np.maximum(shares + RATE * gradient, 0.0)
    return (shares / max(shares.mean(), 1e-9)).astype(np.float32)
